"""What `load` reads, from the user's files and those that are shipped, and what it refuses."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from own_arrays import arrays, one_line

from victims.datasets import fingerprint, load, select
from victims.datasets.sources import load_own
from victims.errors import UserError

SHARED = Path(os.environ.get("BENCH_DATA_DIR", Path(__file__).parents[4] / "shared" / "data"))


def needs(file: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (SHARED / file).is_file(), reason=f"no {SHARED / file}")


# --- npz files


def test_own_images_lack_only_what_they_need(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", train_images=arrays()["train_images"])
    with pytest.raises(UserError, match=r"no array train_labels; expected the arrays train_images and train_labels$"):
        load_own(tmp_path / "mine.npz")


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
        ({"train_images": np.zeros((6, 3, 4, 5), dtype=np.uint8)}, "channels come last: images.transpose"),
        ({"train_images": np.full((6, 4, 5), 200.0)}, "where they are bytes"),
        ({"train_images": np.full((6, 4, 5), -2.0)}, "give images before normalisation"),
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
    with pytest.raises(UserError, match=r"no readable file .*mine\.npz; expected one of faces, photos, digits, cancer"):
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
    raw = load("cifar", SHARED)
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
    raw = load("mnist", SHARED)
    split = select(raw, n=500)
    assert split.inputs.shape == (500, 1, 28, 28)
    np.testing.assert_array_equal(split.labels, raw.train_labels[split.indices] % 2)
    assert np.bincount(split.test_labels).tolist() == [500, 500]
