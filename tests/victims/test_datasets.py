from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest

from victims.datasets import GROUPS, RawDataset, fingerprint, load, select
from victims.errors import UserError

SHARED = Path(os.environ.get("BENCH_DATA_DIR", Path(__file__).parents[3] / "shared" / "data"))


def needs(file: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (SHARED / file).is_file(), reason=f"no {SHARED / file}")


def planted(labels: list[int], test_labels: list[int] | None = None, name: str = "planted") -> RawDataset:
    """Images of 1x2x2 pixels, each of them its own position / 100; test images count on from 0.5."""
    test = test_labels or []

    def images(first: float, count: int) -> np.ndarray:
        return np.broadcast_to(
            (first + np.arange(count, dtype=np.float32) / 100)[:, None, None, None], (count, 1, 2, 2)
        )

    return RawDataset(name, images(0, len(labels)), np.array(labels), images(0.5, len(test)), np.array(test, dtype=int))


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "train_images": generator.integers(0, 256, (6, 4, 5), dtype=np.uint8),
        "train_labels": np.array([0, 1, 0, 1, 1, 0]),
        "test_images": generator.integers(0, 256, (2, 4, 5), dtype=np.uint8),
        "test_labels": np.array([0, 1]),
    } | changes


def one_line(caught: pytest.ExceptionInfo[UserError]) -> str:
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# --- the selection


def test_select_takes_the_first_of_each_class_in_the_order_of_the_distribution() -> None:
    split = select(planted([7, 7, 7, 3, 7, 3, 3, 7, 3], [3, 7, 3]), n=4)

    assert split.indices.tolist() == [0, 1, 3, 5]
    assert split.labels.tolist() == [1, 1, 0, 0]  # two labels: the smaller one is class 0
    np.testing.assert_allclose(split.images[:, 0, 0, 0], [0, 0.01, 0.03, 0.05], atol=1e-7)
    assert split.n_classes == 2
    assert split.inputs.dtype == split.mean.dtype == np.float32
    assert split.labels.dtype == np.int64


def test_select_subtracts_the_mean_of_the_selected_images_from_training_and_test() -> None:
    split = select(planted([0, 1, 0, 1, 0, 1], [1, 0]), n=4)

    np.testing.assert_allclose(split.mean, np.full((1, 2, 2), 0.015), rtol=1e-6)
    np.testing.assert_allclose(split.inputs.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(split.test_inputs[:, 0, 0, 0], [0.485, 0.495], rtol=1e-6)


def test_select_balances_the_test_set_and_keeps_its_order() -> None:
    split = select(planted([0, 1], [1, 1, 0, 1, 0, 0]), n=2, test_n=5)

    assert split.test_labels.tolist() == [1, 1, 0, 0]
    positions = (split.test_inputs + split.mean)[:, 0, 0, 0]
    np.testing.assert_allclose(positions, [0.5, 0.51, 0.52, 0.54], rtol=1e-6)


def test_select_without_a_test_set_tests_on_training_images_that_were_not_selected() -> None:
    raw = planted([0, 0, 1, 1, 0, 1, 0])
    split = select(raw, n=4)

    positions = np.rint((split.test_inputs + split.mean)[:, 0, 0, 0] * 100).astype(int).tolist()
    assert positions == [4, 5]
    assert not set(positions) & set(split.indices.tolist())
    assert select(raw, n=6).test_inputs.shape == (0, 1, 2, 2)  # nothing is left of class 1
    assert select(raw, n=4, test_n=0).test_labels.shape == (0,)


def test_select_leaves_out_labels_of_no_group_and_knows_many_classes() -> None:
    split = select(planted([2, 9, 0, 1, 2, 9, 1, 0]), n=6, groups=((1,), (0,), (2,)))

    assert split.indices.tolist() == [0, 2, 3, 4, 6, 7]
    assert split.labels.tolist() == [2, 1, 0, 2, 0, 1]
    assert split.n_classes == 3


def test_select_takes_even_against_odd_labels_of_an_unknown_dataset() -> None:
    assert select(planted([4, 1, 3, 2]), n=4).labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_groups_name_each_label_once(name: str) -> None:
    labels = [label for group in GROUPS[name] for label in group]
    assert len(GROUPS[name]) == 2
    assert sorted(labels) == list(range({"faces": 2, "cifar100": 100}.get(name, 10)))


@pytest.mark.parametrize(
    ("labels", "arguments", "says"),
    [
        ([0, 1, 0, 1], {"n": 3}, "multiple of 2"),
        ([0, 1, 0, 1], {"n": 0}, "multiple of 2"),
        ([0, 1, 0, 1], {"n": -2}, "multiple of 2"),
        ([0, 1, 2], {"n": 2, "groups": ((0,), (1,), (2,))}, "multiple of 3"),
        ([0, 0, 0, 1], {"n": 4}, "have 3, 1; the largest possible n is 2"),
        ([0, 0, 0, 0], {"n": 2}, "have 4, 0; the largest possible n is 0"),
        ([0, 1, 0, 1], {"n": 2, "groups": ((0, 1),)}, "at least two"),
        ([0, 1, 0, 1], {"n": 2, "groups": ((0, 1), (1,))}, "twice"),
        ([0, 1, 0, 1], {"n": 2, "test_n": -1}, "test_n = -1"),
    ],
)
def test_select_refuses_what_it_cannot_give(labels: list[int], arguments: dict, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        select(planted(labels), **arguments)
    assert "planted" in one_line(caught)


# --- npz files


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_load_reads_bytes_and_floats_alike(tmp_path: Path, channels: tuple[int, ...], dtype: type) -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 4, 5, *channels), dtype=np.uint8)
    for name, stored in (("bytes", images), ("floats", (images / 255).astype(dtype))):
        np.savez(tmp_path / f"{name}.npz", **arrays(train_images=stored, test_images=stored[:2]))
    from_bytes, from_floats = load("bytes", tmp_path), load(str(tmp_path / "floats.npz"), None)

    assert from_bytes.train_images.shape == (6, channels[0] if channels else 1, 4, 5)
    assert from_bytes.train_images.dtype == from_floats.train_images.dtype == np.float32
    assert from_bytes.train_labels.dtype == np.int64
    np.testing.assert_array_equal(
        from_bytes.train_images[2, 0], (images if not channels else images[..., 0])[2] / np.float32(255)
    )
    np.testing.assert_allclose(from_floats.train_images, from_bytes.train_images, atol=1e-3)


def test_load_takes_an_empty_test_set_for_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **arrays(test_images=np.zeros((0, 4, 5)), test_labels=np.zeros(0, dtype=np.uint8)))
    split = select(load("mine", tmp_path), n=4)
    assert split.test_labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train_images": np.zeros((6, 20), dtype=np.uint8)}, "train_images has the shape"),
        ({"train_images": np.zeros((6, 4, 5, 2), dtype=np.uint8)}, "train_images has the shape"),
        ({"train_images": np.zeros((6, 0, 5), dtype=np.uint8)}, "train_images has the shape"),
        ({"train_images": np.zeros((6, 4, 5), dtype=np.int32)}, "train_images has the type int32"),
        ({"train_images": np.zeros((6, 4, 5), dtype=bool)}, "train_images has the type bool"),
        ({"train_images": np.full((6, 4, 5), np.nan)}, "train_images contains NaN"),
        ({"train_images": np.full((6, 4, 5), np.inf)}, "train_images ranges from"),
        ({"train_images": np.full((6, 4, 5), 1.5)}, "train_images ranges from 1.5 to 1.5"),
        ({"test_images": np.full((2, 4, 5), -0.5)}, "test_images ranges from -0.5"),
        ({"test_images": np.zeros((2, 5, 5))}, "expected the same"),
        ({"train_labels": np.zeros((6, 1), dtype=int)}, "train_labels has the shape"),
        ({"train_labels": np.array([0.0, 1, 0, 1, 1, 0])}, "train_labels has the type float64"),
        ({"train_labels": np.array([0, 1, 0, 1, 1, -1])}, "train_labels contains -1"),
        ({"train_labels": np.array([0, 1])}, "6 train_images but 2 train_labels"),
        ({"test_labels": np.array([0])}, "2 test_images but 1 test_labels"),
        ({"train_labels": np.full(6, 3)}, "all train_labels are 3"),
        ({"train_images": np.zeros((0, 4, 5)), "train_labels": np.zeros(0, dtype=int)}, "train_images is empty"),
        ({"train_labels": np.array([0, 1, 0, 1, 1, None], dtype=object)}, "not a readable .npz file"),
    ],
)
def test_load_refuses_arrays_of_another_form(tmp_path: Path, changes: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays(**changes))
    with pytest.raises(UserError, match=says) as caught:
        load("bad", tmp_path)
    assert str(tmp_path / "bad.npz") in one_line(caught)


def _other_keys(path: Path) -> None:
    np.savez(path, x=np.zeros(3), train_labels=np.zeros(3))


def _truncated(path: Path) -> None:
    np.savez_compressed(path, **arrays())
    path.write_bytes(path.read_bytes()[:-200])


def _damaged(path: Path) -> None:
    np.savez(path, **arrays())
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)


def _one_array(path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    path.write_bytes(buffer.getvalue())


def _other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for key in arrays():
            archive.writestr(key, "no array")


@pytest.mark.parametrize(
    "write",
    [
        _other_keys,
        _truncated,
        _damaged,
        _one_array,
        _other_zip,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("no zip"),
        lambda path: path.mkdir(),
        lambda path: None,
    ],
)
def test_load_refuses_files_that_are_no_dataset(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "bad.npz")
    for name in ("bad", str(tmp_path / "bad.npz")):
        with pytest.raises(UserError) as caught:
            load(name, tmp_path)
        assert str(tmp_path / "bad.npz") in one_line(caught)


def test_fewer_images_than_n_name_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", **arrays())
    name = str(tmp_path / "few.npz")
    with pytest.raises(UserError, match="largest possible n is 6") as caught:
        select(load(name, None), n=8)
    assert name in one_line(caught)


def test_a_missing_data_folder_matters_only_to_data_that_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    assert len(load("digits", absent).train_labels) == 1797
    with pytest.raises(UserError, match="absent does not exist"):
        load("mnist", absent)
    monkeypatch.setenv("BENCH_DATA_DIR", str(absent))
    with pytest.raises(UserError, match="absent does not exist") as caught:
        fingerprint("mine", None)
    one_line(caught)


def test_without_a_data_folder_the_users_cache_is_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_DATA_DIR", raising=False)
    monkeypatch.setattr("victims.dataset_files.user_cache_path", lambda name: tmp_path / name)
    (tmp_path / "reconstruction-bench" / "data").mkdir(parents=True)
    np.savez(tmp_path / "reconstruction-bench" / "data" / "mine.npz", **arrays())
    assert len(load("mine", None).train_labels) == 6


# --- fingerprints


def test_fingerprint_follows_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **arrays())
    before = fingerprint("mine", tmp_path)
    assert before == fingerprint(str(tmp_path / "mine.npz"), None)
    assert len(bytes.fromhex(before)) == 32
    np.savez(tmp_path / "mine.npz", **arrays(train_labels=np.array([1, 1, 0, 1, 1, 0])))
    assert fingerprint("mine", tmp_path) != before


def test_fingerprint_of_data_to_be_downloaded_is_absent(tmp_path: Path) -> None:
    assert fingerprint("cifar", tmp_path) == "absent"
    with pytest.raises(UserError, match=r"no readable file .*mine\.npz; expected one of faces, digits, cancer"):
        fingerprint("mine", tmp_path)


def test_fingerprints_of_shipped_data_differ() -> None:
    assert len({fingerprint(name, None) for name in ("faces", "digits")}) == 2


# --- shipped and shared data


def test_faces_are_those_of_scikit_image() -> None:
    from skimage.data import lfw_subset

    raw = load("faces", None)
    np.testing.assert_array_equal(raw.train_images[:, 0], lfw_subset().astype(np.float32))
    assert raw.train_images.shape == (200, 1, 25, 25)
    assert raw.train_labels.tolist() == [1] * 100 + [0] * 100
    split = select(raw, n=100)
    assert split.indices.tolist() == [*range(50), *range(100, 150)]
    assert np.bincount(split.test_labels).tolist() == [50, 50]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    raw, expected = load("digits", None), load_digits()
    np.testing.assert_array_equal(raw.train_images[:, 0], expected.images.astype(np.float32) / 16)
    np.testing.assert_array_equal(raw.train_labels, expected.target)
    split = select(raw, n=100)
    np.testing.assert_array_equal(split.labels, expected.target[split.indices] % 2)


@needs("cifar10.npz")
def test_the_papers_cifar_images_lie_in_the_first_batch() -> None:
    raw = load("cifar", SHARED, download=False)
    split = select(raw, n=500)
    assert split.inputs.shape == (500, 3, 32, 32)
    assert split.indices.max() < 1017
    assert np.bincount(split.labels).tolist() == [250, 250]
    vehicles = np.isin(raw.train_labels[split.indices], (0, 1, 8, 9))
    np.testing.assert_array_equal(split.labels == 0, vehicles)
    np.testing.assert_allclose(split.images, raw.train_images[split.indices], atol=1e-6)
    np.testing.assert_allclose(split.inputs.mean(axis=0), 0, atol=1e-6)


@needs("mnist.npz")
def test_mnist_is_even_against_odd() -> None:
    raw = load("mnist", SHARED, download=False)
    split = select(raw, n=500)
    assert split.inputs.shape == (500, 1, 28, 28)
    np.testing.assert_array_equal(split.labels, raw.train_labels[split.indices] % 2)
    assert np.bincount(split.test_labels).tolist() == [500, 500]


# --- downloads


def fake_source(fails_at: str = "", error: BaseException | None = None) -> Callable[..., SimpleNamespace]:
    """A torchvision class that leaves a file in its root, and fails at its `train` or `test` part."""

    def source(root: str, train: bool, download: bool) -> SimpleNamespace:
        assert download
        part = "train" if train else "test"
        (Path(root) / f"{part}.raw").write_text("downloaded")
        if part == fails_at and error is not None:
            raise error
        data = arrays()[f"{part}_images"]
        return SimpleNamespace(data=data, targets=arrays()[f"{part}_labels"].tolist())

    return source


def test_a_download_becomes_an_npz_and_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.CIFAR10", fake_source())
    raw = load("cifar", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10.npz"]
    np.testing.assert_array_equal(raw.train_labels, arrays()["train_labels"])
    before = fingerprint("cifar", tmp_path)

    monkeypatch.setattr("torchvision.datasets.CIFAR10", fake_source("train", URLError("no network")))
    np.testing.assert_array_equal(load("cifar", tmp_path).test_images, raw.test_images)
    (tmp_path / "cifar10.npz").unlink()
    monkeypatch.setattr("torchvision.datasets.CIFAR10", fake_source())
    load("cifar", tmp_path)
    assert fingerprint("cifar", tmp_path) == before  # the same data, the same file


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("error", [URLError("no network"), RuntimeError("Error downloading x:\nTried y, got:\nz\n")])
def test_a_failed_download_is_the_users_to_mend_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, error: Exception
) -> None:
    monkeypatch.setattr("torchvision.datasets.MNIST", fake_source(part, error))
    with pytest.raises(UserError, match="could not be downloaded") as caught:
        load("mnist", tmp_path)
    message = one_line(caught)
    for expected in (str(tmp_path / "mnist.npz"), "BENCH_DATA_DIR", "--data-dir", "bench run -v faces-mlp-100"):
        assert expected in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug")])
def test_an_interrupted_download_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr("torchvision.datasets.FashionMNIST", fake_source("test", error))
    with pytest.raises(type(error)):
        load("fashion", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_conversion_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_written(path: Path, **_: np.ndarray) -> None:
        path.write_bytes(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torchvision.datasets.CIFAR100", fake_source())
    monkeypatch.setattr("numpy.savez", half_written)
    with pytest.raises(UserError, match="No space left on device"):
        load("cifar100", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_download_where_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.MNIST", fake_source())
    with pytest.raises(UserError, match="was not downloaded") as caught:
        load("mnist", tmp_path, download=False)
    assert str(tmp_path / "mnist.npz") in one_line(caught)
    assert list(tmp_path.iterdir()) == []
