"""Where datasets come from: files shipped with a library, npz files of the data folder, torchvision's downloads."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from victims.datasets.raw import KEYS, RawDataset, validate
from victims.errors import UserError
from victims.files import sha256_file

SHIPPED = {
    "faces": ("skimage", "data/lfw_subset.npy"),
    "digits": ("sklearn", "datasets/data/digits.csv.gz"),
    "cancer": ("sklearn", "datasets/data/breast_cancer.csv"),
    "diabetes": ("sklearn", "datasets/data/diabetes_data_raw.csv.gz"),
}
"""Name: (package, the file inside it). Reading the file itself spares the import of the package."""

DOWNLOADED = {
    "mnist": ("mnist.npz", "MNIST"),
    "fashion": ("fashion.npz", "FashionMNIST"),
    "cifar": ("cifar10.npz", "CIFAR10"),
    "cifar100": ("cifar100.npz", "CIFAR100"),
}
"""Name: (its file in the data folder, the class of torchvision.datasets that downloads it)."""


def load(name: str, data_dir: Path | None, download: bool = True) -> RawDataset:
    """Load a dataset: a shipped one, NAME.npz of the data folder, or a path that ends in .npz.

    Args:
        name: `faces`, `digits`, `cancer`, `diabetes`, `mnist`, `fashion`, `cifar`, `cifar100`, the name of a file in
            the data folder without its .npz, or the path of an npz file. `validate` says what such a file must hold.
        data_dir: The data folder; None for BENCH_DATA_DIR, or without it a folder in the user's cache.
        download: Whether mnist, fashion, cifar and cifar100 may be downloaded into the data folder.

    Returns:
        The dataset, in the order of its distribution.

    Raises:
        UserError: The data folder or the file is missing, the file holds no dataset, or the download failed.
    """
    path = _path(name, data_dir)
    if name in DOWNLOADED and download and not path.exists():
        _download(name, path)
    _require(name, path)
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
        UserError: There is no such file, or it holds no images and labels.
    """
    if not path.is_file():
        raise UserError(f"there are no images at {path}; expected an .npz file with train_images and train_labels")
    arrays = _read_npz(path)
    if not {"test_images", "test_labels"} & arrays.keys() and {"train_images", "train_labels"} <= arrays.keys():
        arrays |= {"test_images": arrays["train_images"][:0], "test_labels": arrays["train_labels"][:0]}
    return validate(path.stem, arrays, str(path))


def fingerprint(name: str, data_dir: Path | None) -> str:
    """Tell the data of a dataset from any other, without loading it.

    Args:
        name: As in `load`.
        data_dir: As in `load`.

    Returns:
        The sha256 of the dataset's file, in hexadecimal; "absent" where `load` would first have to download it.

    Raises:
        UserError: The data folder is missing, or a file that nothing downloads.
    """
    path = _path(name, data_dir)
    if name in DOWNLOADED and not path.exists():
        return "absent"
    _require(name, path)
    stat = path.stat()
    return _digest(path, stat.st_mtime_ns, stat.st_size)


@lru_cache
def _digest(path: Path, modified_ns: int, size: int) -> str:
    """The hash of a file, taken once while its time and size stay: many victims share one large file."""
    return sha256_file(path)


def _path(name: str, data_dir: Path | None) -> Path:
    """The file that holds the dataset, whether it is there or not."""
    if name in SHIPPED:
        package, file = SHIPPED[name]
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise UserError(f"dataset {name} needs the package {package}, which is not installed")
        return Path(spec.origin).parent / file
    if name.endswith(".npz"):
        return Path(name).expanduser()
    return _folder(data_dir) / (DOWNLOADED[name][0] if name in DOWNLOADED else f"{name}.npz")


def _folder(data_dir: Path | None) -> Path:
    """The data folder; one that the user names must exist."""
    given = data_dir or os.environ.get("BENCH_DATA_DIR")
    if not given:
        from platformdirs import user_cache_path

        return user_cache_path("reconstruction-bench") / "data"
    folder = Path(given).expanduser()
    if not (os.access(folder, os.X_OK) and folder.is_dir()):
        raise UserError(
            f"data folder {folder} does not exist or is not yours to enter; change --data-dir or BENCH_DATA_DIR"
        )
    return folder


def _require(name: str, path: Path) -> None:
    """UserError unless the dataset's file is there and readable."""
    if os.access(path, os.R_OK) and path.is_file():
        return
    if name in DOWNLOADED:
        raise _not_available(name, path, "was not downloaded")
    if name in SHIPPED:
        raise UserError(
            f"dataset {name}: the installed {SHIPPED[name][0]} has no {path}; install another version of it"
        )
    raise UserError(
        f"dataset {name}: no readable file {path}; expected one of {', '.join([*SHIPPED, *DOWNLOADED])}, "
        "the path of an .npz file, or a NAME.npz in the folder that --data-dir or BENCH_DATA_DIR names"
    )


def _faces(path: Path) -> RawDataset:
    """100 faces (label 1), then 100 crops of the background (label 0), 25 x 25, in skimage.data.lfw_subset's order."""
    images = np.load(path).astype(np.float32)[:, np.newaxis]
    return _without_test("faces", images, np.repeat(np.array([1, 0]), 100))


def _digits(path: Path) -> RawDataset:
    """1,797 handwritten digits, 8 x 8, values of 0 to 16, in sklearn.datasets.load_digits' order."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return _without_test("digits", table[:, :-1].reshape(-1, 1, 8, 8) / 16, table[:, -1].astype(np.int64))


def _cancer(path: Path) -> RawDataset:
    """569 patients of Wisconsin, 30 features of cell nuclei, malignant (0) or benign (1)."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return _tabular("cancer", table[:, :-1], table[:, -1])


def _diabetes(path: Path) -> RawDataset:
    """442 patients, 10 features; the label is the disease's progress after a year, 25 to 346."""
    answers = np.loadtxt(path.with_name("diabetes_target.csv.gz"))
    return _tabular("diabetes", np.loadtxt(path), answers)


def _tabular(name: str, features: np.ndarray, labels: np.ndarray) -> RawDataset:
    """Records in the place of images: (N, 1, 1, d), each feature scaled to fill [0, 1]."""
    low, high = features.min(0), features.max(0)
    scaled = ((features - low) / (high - low)).astype(np.float32)
    return _without_test(name, scaled[:, np.newaxis, np.newaxis], labels.astype(np.int64))


TABULAR = {"cancer": _cancer, "diabetes": _diabetes}


def _without_test(name: str, images: np.ndarray, labels: np.ndarray) -> RawDataset:
    return RawDataset(name, images, labels, images[:0], labels[:0])


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """The dataset's arrays of an npz file, as far as they are there."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in KEYS if key in archive}
    except Exception as error:  # each kind of damage raises another: of zipfile, zlib, numpy, the system
        raise UserError(
            f"{path} is not a readable .npz file ({type(error).__name__}: {_line(error)}); "
            f"write it again with numpy.savez and the arrays {', '.join(KEYS)}"
        ) from error


def _download(name: str, path: Path) -> None:
    """Download a dataset through torchvision, which checks its MD5, into an npz file that appears only when complete.

    The npz is not compressed, so that the same data has the same fingerprint everywhere.
    """
    import torchvision.datasets

    source = getattr(torchvision.datasets, DOWNLOADED[name][1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as scratch:
            train, test = (source(scratch, train=is_train, download=True) for is_train in (True, False))
            complete = Path(scratch) / path.name
            np.savez(
                complete,
                train_images=np.asarray(train.data, dtype=np.uint8),
                train_labels=np.asarray(train.targets, dtype=np.uint8),
                test_images=np.asarray(test.data, dtype=np.uint8),
                test_labels=np.asarray(test.targets, dtype=np.uint8),
            )
            complete.replace(path)
    except (OSError, RuntimeError, HTTPException) as error:
        raise _not_available(name, path, f"could not be downloaded ({_line(error)})") from error


def _not_available(name: str, path: Path, why: str) -> UserError:
    return UserError(
        f"dataset {name}: no readable file {path}, and it {why}; put {path.name} into a folder and name that "
        "with --data-dir or BENCH_DATA_DIR; `python -m bench run -v faces-mlp-100` needs no download"
    )


def _line(error: Exception) -> str:
    """The error's message on one line."""
    return " ".join(str(error).split())
