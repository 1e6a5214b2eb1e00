"""Results in object storage (`s3://`, `gs://`, ...): fsspec copies them here before they are read."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from victims.errors import UserError

SCHEME = "://"
PREFIX = "reconstruction-bench-copy-"


def fetched(location: str) -> Path:
    """Return where a file or folder can be read: its path, or that of a copy which is removed when the program ends.

    Args:
        location: a path, or an address that fsspec knows; `s3://` needs the package s3fs, `gs://` gcsfs.

    Raises:
        UserError: no package knows such addresses, or nothing can be read there.
    """
    if SCHEME not in location:
        return Path(location)
    from fsspec.core import url_to_fs

    folder = tempfile.mkdtemp(prefix=PREFIX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / (Path(location).name or "results")
    try:
        system, path = url_to_fs(location)
        is_folder = system.isdir(path)
        system.get(
            f"{path.rstrip('/')}/" if is_folder else path, f"{copy}/" if is_folder else str(copy), recursive=True
        )
    except (ImportError, OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{location} cannot be read: {reason}") from None
    except Exception as error:  # each storage has exceptions of its own, such as for keys that are refused
        raise UserError(f"{location} cannot be read ({type(error).__name__}: {' '.join(str(error).split())})") from None
    return copy


def is_copy(path: Path) -> bool:
    """Say whether a path is what `fetched` returned for an address."""
    return path.parent.name.startswith(PREFIX)
