"""Downloads: whole or not at all, once, and none that is not wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
from own_arrays import arrays, one_line

from victims.datasets import fingerprint, load
from victims.errors import UserError


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


def counted(train: int, test: int) -> Callable[..., SimpleNamespace]:
    """A torchvision class of so many images of one pixel, each of which says, in two bytes, where it stands."""

    def source(root: str, train: bool, download: bool) -> SimpleNamespace:
        places = np.arange(sizes[train], dtype=">u2")
        return SimpleNamespace(data=places.view(np.uint8).reshape(-1, 1, 2), targets=places % 10)

    sizes = {True: train, False: test}
    return source


@pytest.mark.parametrize(
    ("name", "source", "sizes", "train", "test"),
    [
        ("cifar", "CIFAR10", (50_000, 10_000), [*range(1017), *range(10_000, 11_017)], [*range(1017)]),
        ("mnist", "MNIST", (60_000, 10_000), [*range(17_435)], [*range(10_000)]),
        ("fashion", "FashionMNIST", (60_000, 10_000), [*range(60_000)], [*range(10_000)]),
    ],
)
def test_a_download_has_the_images_of_the_published_tables(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    source: str,
    sizes: tuple[int, int],
    train: list[int],
    test: list[int],
) -> None:
    monkeypatch.setattr(f"torchvision.datasets.{source}", counted(*sizes))
    raw = load(name, tmp_path)
    read = {
        part: (255 * images[:, 0, 0]).round() @ [256, 1]
        for part, images in (("train", raw.train_images), ("test", raw.test_images))
    }
    assert read["train"][: len(train)].tolist() == train
    assert len(read["train"]) == (5 * 1017 if name == "cifar" else len(train))
    assert read["test"].tolist() == test
    np.testing.assert_array_equal(raw.train_labels, read["train"] % 10)


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
