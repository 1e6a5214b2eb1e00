"""Where trained victims are kept: by the hash of their spec, the version of its recipe and the data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from victims.errors import UserError
from victims.files import exclusive, sha256_json
from victims.informed.spec import AnySpec
from victims.source import Sources
from victims.stored import CARD

DAMAGED = "damaged"
"""The folder, of the cache and of the results, of files that did not match their hash."""
MAKERS = {"dataset": "victims.training.cache", "informed": "victims.informed.cache"}
"""By setting, the module that trains victims: it imports all that decides their weights."""


def cache_dir() -> Path:
    """Return the folder of trained victims: BENCH_CACHE_DIR, or the user's cache."""
    chosen = os.environ.get("BENCH_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("reconstruction-bench")


def victim_key(spec: AnySpec, dataset_sha256: str) -> str:
    """Return the 16 hex digits that name a victim's folder in the cache."""
    return sha256_json([spec.identity(), spec.training.version, dataset_sha256])[:16]


def training_sha(setting: str) -> str:
    """Return the 16 hex digits of the syntax trees of all that trains the victims of a setting."""
    sources = Sources()
    return sources.sha256(sources.file_of(MAKERS[setting]))[:16]


def victim_folder(spec: AnySpec, dataset_sha256: str) -> Path:
    """Return the folder that holds a victim, trained or not."""
    return cache_dir() / "victims" / victim_key(spec, dataset_sha256)


def trained_card(spec: AnySpec, data_dir: Path | None) -> dict[str, Any]:
    """Return a trained victim's card as it is stored, empty if it is not trained; imports no torch."""
    from victims.dataset_files import fingerprint

    card = victim_folder(spec, fingerprint(spec.dataset, data_dir)) / CARD
    try:
        stored: dict[str, Any] = json.loads(card.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return stored


@contextmanager
def locked_folder(spec: AnySpec, dataset_sha256: str, notice: Callable[[str], None]) -> Iterator[Path]:
    """Yield a victim's folder while no other process trains it; `notice` is told if one does.

    Raises:
        UserError: the cache cannot be written.
    """
    folder = victim_folder(spec, dataset_sha256)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name another cache with BENCH_CACHE_DIR"
        raise UserError(f"cannot write to the folder of trained victims {folder} ({error.strerror}); {hint}") from None
    with exclusive(folder / "lock", lambda: notice(f"victim {spec.name}: another process trains it; waiting")):
        yield folder
