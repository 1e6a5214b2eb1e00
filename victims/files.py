"""Files that appear whole or not at all, the hashes that name them, and the parts of the tensors in one."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block ends without an error.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~umask())  # mkstemp's files are its owner's alone
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file, which the system frees when its holder dies; it stays where it is.

    Args:
        path: the lock file.
        waiting: called once if somebody else holds it.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors, on the CPU and none a view of another, to `path` atomically; return the file's hex SHA-256."""
    from safetensors.torch import save_file

    with atomic(path) as temporary:
        save_file({name: value.contiguous() for name, value in tensors.items()}, temporary)
    return sha256_file(path)


def set_aside(path: Path, folder: Path) -> Path:
    """Move a damaged file or folder into `folder`, which is made, and return where it is now; nothing is replaced.

    Raises:
        OSError: it cannot be moved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = path.name if path.is_dir() else f"{path.parent.name}-{path.name}"
    names = (f"{name}.{number}" if number else name for number in count())
    aside = next(folder / name for name in names if not (folder / name).exists())
    return path.rename(aside)


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Return the hex SHA-256 of a JSON-able value, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def under(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the same tensors, each under its name with the prefix before it."""
    return {f"{prefix}{name}": value for name, value in state.items()}


def below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
