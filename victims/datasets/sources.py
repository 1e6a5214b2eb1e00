"""The sources of datasets: files shipped with a library, npz files of the data folder, torchvision's downloads."""

from __future__ import annotations

import tempfile
from http.client import HTTPException
from pathlib import Path
from zipfile import is_zipfile

import numpy as np

from victims.dataset_files import DOWNLOADED, dataset_paths, not_available, require
from victims.datasets.photographs import photographs
from victims.datasets.raw import KEYS, RawDataset, validate
from victims.errors import UserError


def load(name: str, data_dir: Path | None) -> RawDataset:
    """Load a dataset: a shipped one, NAME.npz of the data folder, or a path that ends in .npz.

    Where mnist, fashion, cifar or cifar100 is not in the data folder, it is downloaded into it.

    Args:
        name: `faces`, `photos`, `digits`, `cancer`, `diabetes`, `mnist`, `fashion`, `cifar`, `cifar100`, the name of a
            file in the data folder without its .npz, or the path of an npz file. `validate` says what such a file must
            hold.
        data_dir: the data folder; None for BENCH_DATA_DIR, or without it a folder in the user's cache.

    Returns:
        The dataset, in the order of its distribution.

    Raises:
        UserError: the data folder or the file is missing, the file holds no dataset, or the download failed.
    """
    paths = dataset_paths(name, data_dir)
    path = paths[0]
    if name in DOWNLOADED and not path.exists():
        _download(name, path)
    for needed in paths:
        require(name, needed)
    if name == "photos":
        return photographs(paths)
    if name == "faces":
        return _faces(path)
    if name == "digits":
        return _digits(path)
    if name in TABULAR:
        return TABULAR[name](path)
    return validate(name, _read_npz(path), str(path))


def load_own(path: Path) -> RawDataset:
    """Load the images of somebody's own model: an npz file as of `validate`, whose test set may be left out.

    Raises:
        UserError: there is no such file, or it holds no images and labels.
    """
    if not path.is_file():
        raise UserError(f"there are no images at {path}; expected an .npz file with train_images and train_labels")
    arrays = _read_npz(path)
    missing = [key for key in ("train_images", "train_labels") if key not in arrays]
    if missing:
        raise UserError(f"{path}: no array {', '.join(missing)}; expected the arrays train_images and train_labels")
    if not {"test_images", "test_labels"} & arrays.keys():
        arrays |= {"test_images": arrays["train_images"][:0], "test_labels": arrays["train_labels"][:0]}
    return validate(path.stem, arrays, str(path))


def _faces(path: Path) -> RawDataset:
    """Return 100 faces (label 1), then 100 crops of background (label 0), 25 x 25: skimage.data.lfw_subset's order."""
    images = np.load(path).astype(np.float32)[:, np.newaxis]
    return _without_test("faces", images, np.repeat(np.array([1, 0]), 100))


def _digits(path: Path) -> RawDataset:
    """Return 1,797 handwritten digits, 8 x 8, values of 0 to 16, in sklearn.datasets.load_digits' order."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return _without_test("digits", table[:, :-1].reshape(-1, 1, 8, 8) / 16, table[:, -1].astype(np.int64))


def _cancer(path: Path) -> RawDataset:
    """Return 569 patients of Wisconsin, 30 features of cell nuclei, malignant (0) or benign (1)."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return _tabular("cancer", table[:, :-1], table[:, -1])


def _diabetes(path: Path) -> RawDataset:
    """Return 442 patients, 10 features; the label is the disease's progress after a year, 25 to 346."""
    answers = np.loadtxt(path.with_name("diabetes_target.csv.gz"))
    return _tabular("diabetes", np.loadtxt(path), answers)


def _tabular(name: str, features: np.ndarray, labels: np.ndarray) -> RawDataset:
    """Return records in the place of images: (N, 1, 1, d), each feature scaled to fill [0, 1]."""
    low, high = features.min(0), features.max(0)
    scaled = ((features - low) / (high - low)).astype(np.float32)
    return _without_test(name, scaled[:, np.newaxis, np.newaxis], labels.astype(np.int64))


TABULAR = {"cancer": _cancer, "diabetes": _diabetes}

_BATCH, _OF_A_BATCH, _DIGITS = 10_000, 1_017, 17_435


def _without_test(name: str, images: np.ndarray, labels: np.ndarray) -> RawDataset:
    return RawDataset(name, images, labels, images[:0], labels[:0])


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the dataset's arrays of an npz file, as far as they are there."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in KEYS if key in archive}
    except Exception as error:  # each kind of damage raises another: of zipfile, zlib, numpy, the system
        why = _line(error) if isinstance(error, OSError) or is_zipfile(path) else "it is no zip archive"
        raise UserError(
            f"{path} is not a readable .npz file ({why}); "
            f"write it again with numpy.savez and the arrays {', '.join(KEYS)}"
        ) from error


def _download(name: str, path: Path) -> None:
    """Download a dataset through torchvision, which checks its MD5, into an npz file that appears only when complete.

    Of cifar and mnist the file holds the images that the published tables were made with (`_published`). It is not
    compressed, so that the same data has the same fingerprint everywhere.
    """
    import torchvision.datasets

    source = getattr(torchvision.datasets, DOWNLOADED[name][1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as scratch:
            train, test = (source(scratch, train=is_train, download=True) for is_train in (True, False))
            complete = Path(scratch) / path.name
            kept = [_published(name, part, len(one.targets)) for part, one in (("train", train), ("test", test))]
            np.savez(
                complete,
                train_images=np.asarray(train.data, dtype=np.uint8)[kept[0]],
                train_labels=np.asarray(train.targets, dtype=np.uint8)[kept[0]],
                test_images=np.asarray(test.data, dtype=np.uint8)[kept[1]],
                test_labels=np.asarray(test.targets, dtype=np.uint8)[kept[1]],
            )
            complete.replace(path)
    except (OSError, RuntimeError, HTTPException) as error:
        raise not_available(name, path, f"could not be downloaded ({_line(error)})") from error


def _published(name: str, part: str, count: int) -> np.ndarray:
    """Return which of a source's images the published tables were made with, (count,) bool.

    They are the first 1,017 of each of CIFAR-10's six batches and the first 17,435 training digits of MNIST. Which
    images a retrained victim learns, and which are held out, depends on the whole set that they are drawn from.
    """
    place = np.arange(count)
    if name == "cifar":
        return place % _BATCH < _OF_A_BATCH
    if name == "mnist" and part == "train":
        return place < _DIGITS
    return np.ones(count, dtype=bool)


def _line(error: Exception) -> str:
    """Return the error's message on one line."""
    return " ".join(str(error).split())
