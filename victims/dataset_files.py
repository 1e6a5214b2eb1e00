"""The files of datasets, and their hashes; imports no numpy, so that `list` does not either."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from victims.errors import UserError
from victims.files import sha256_file, sha256_json

SHIPPED: dict[str, tuple[tuple[str, str], ...]] = {
    "faces": (("skimage", "data/lfw_subset.npy"),),
    "photos": (
        *(("skimage", f"data/{name}.png") for name in ("astronaut", "chelsea", "coffee", "ihc", "motorcycle_left")),
        *(("skimage", f"data/{name}.jpg") for name in ("hubble_deep_field", "retina", "rocket")),
        *(("sklearn", f"datasets/images/{name}.jpg") for name in ("china", "flower")),
    ),
    "digits": (("sklearn", "datasets/data/digits.csv.gz"),),
    "cancer": (("sklearn", "datasets/data/breast_cancer.csv"),),
    "diabetes": (("sklearn", "datasets/data/diabetes_data_raw.csv.gz"),),
}
"""Name: (package, file inside it), one or more. Reading the file itself spares the import of the package."""

DOWNLOADED = {
    "mnist": ("mnist.npz", "MNIST"),
    "fashion": ("fashion.npz", "FashionMNIST"),
    "cifar": ("cifar10.npz", "CIFAR10"),
    "cifar100": ("cifar100.npz", "CIFAR100"),
}
"""Name: (its file in the data folder, the class of torchvision.datasets that downloads it)."""


TABLES = frozenset({"cancer", "diabetes"})
"""Datasets, besides CSV files, whose records are rows of a table."""


def tabular(name: str) -> bool:
    """Return whether the records of a dataset are rows of a table."""
    return name in TABLES or name.endswith(".csv")


def fingerprint(name: str, data_dir: Path | None) -> str:
    """Return the hash of a dataset's file, without loading it.

    Args:
        name: as in `load`.
        data_dir: as in `load`.

    Returns:
        The sha256 of the dataset's file, or of the hashes of its files, in hexadecimal; "absent" where `load` would
        first have to download it.

    Raises:
        UserError: the data folder is missing, or a file that nothing downloads.
    """
    paths = dataset_paths(name, data_dir)
    if name in DOWNLOADED and not paths[0].exists():
        return "absent"
    digests = []
    for path in paths:
        require(name, path)
        stat = path.stat()
        digests.append(_digest(path, stat.st_mtime_ns, stat.st_size))
    return digests[0] if len(digests) == 1 else sha256_json(digests)


@lru_cache
def _digest(path: Path, modified_ns: int, size: int) -> str:
    """Return the hash of a file, taken once while its time and size stay: many victims share one large file."""
    return sha256_file(path)


def dataset_paths(name: str, data_dir: Path | None) -> list[Path]:
    """Return the files that hold the dataset, whether they are there or not; most datasets are one file.

    Raises:
        UserError: a library that ships it is not installed, or the data folder is missing.
    """
    if not name:  # a released model without images
        return []
    if name in SHIPPED:
        return [_shipped(name, package, file) for package, file in SHIPPED[name]]
    if name.endswith((".npz", ".csv")):
        return [_home_expanded(name, f"change the path of the dataset {name}")]
    return [_folder(data_dir) / (DOWNLOADED[name][0] if name in DOWNLOADED else f"{name}.npz")]


def _shipped(name: str, package: str, file: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"dataset {name} needs the package {package}, which is not installed")
    return Path(spec.origin).parent / file


def _folder(data_dir: Path | None) -> Path:
    """Return the data folder; one that the user names must exist."""
    given = data_dir or os.environ.get("BENCH_DATA_DIR")
    if not given:
        return user_cache_path("reconstruction-bench") / "data"
    folder = _home_expanded(given, "change --data-dir or BENCH_DATA_DIR")
    if not (os.access(folder, os.X_OK) and folder.is_dir()):
        raise UserError(
            f"data folder {folder} does not exist or is not yours to enter; change --data-dir or BENCH_DATA_DIR"
        )
    return folder


def _home_expanded(path: Path | str, hint: str) -> Path:
    """Return the path with a leading ~ as somebody's home; UserError where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"there is no user whose home is {path}; {hint}") from None


def require(name: str, path: Path) -> None:
    """Check that the dataset's file is there and readable; raises UserError."""
    if os.access(path, os.R_OK) and path.is_file():
        return
    if name in DOWNLOADED:
        raise not_available(name, path, "was not downloaded")
    if name in SHIPPED:
        raise UserError(f"dataset {name}: an installed library has no {path}; install another version of it")
    raise UserError(
        f"dataset {name}: no readable file {path}; expected one of {', '.join([*SHIPPED, *DOWNLOADED])}, "
        "the path of an .npz file, or a NAME.npz in the folder that --data-dir or BENCH_DATA_DIR names"
    )


def not_available(name: str, path: Path, why: str) -> UserError:
    """Return what to tell the user about a dataset that is not there, and why."""
    return UserError(
        f"dataset {name}: no readable file {path}, and it {why}; put {path.name} into a folder and name that "
        "with --data-dir or BENCH_DATA_DIR; `python -m bench run -v faces-mlp-100` needs no download"
    )
