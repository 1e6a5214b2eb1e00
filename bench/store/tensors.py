"""Tensors on disk with a hash of their contents, which reveals a file that was cut or altered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from bench.terminal.text import one_line
from victims.files import atomic

SHA256 = "sha256"
"""The key of the hash among a file's metadata; files of older versions have none."""


class DamagedError(Exception):
    """A file is not what was written; the message is one line without the file's name."""


def plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors takes them: detached, contiguous, on the CPU, and none in the memory of another."""
    made, taken = dict[str, Tensor](), set[int]()
    for name, value in tensors.items():
        own = value.detach().cpu().contiguous()
        made[name] = own.clone() if own.untyped_storage().data_ptr() in taken else own
        taken.add(own.untyped_storage().data_ptr())
    return made


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, atomically, with their hash.

    Raises:
        OSError: the folder cannot be written.
    """
    made, texts = plain(tensors), dict(metadata or {})
    stored = save(made, texts | {SHA256: _sha256(made, texts)})
    with atomic(path) as temporary:
        temporary.write_bytes(stored)  # an error of save_file would not say that the disk is full


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return what `write_tensors` wrote: tensors and metadata.

    Raises:
        OSError: the file is missing or not to be read.
        DamagedError: it is not whole, no safetensors, or does not match its hash.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 it is no mapping
            metadata = dict(stored.metadata() or {})
    except SafetensorError as error:
        raise DamagedError(one_line(str(error))) from None
    expected = metadata.pop(SHA256, None)
    if expected is not None and expected != _sha256(tensors, metadata):
        raise DamagedError("it does not match its hash")
    return tensors, metadata


def _sha256(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
