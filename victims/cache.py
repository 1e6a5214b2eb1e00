"""The cache of trained victims: folders named by spec, version of the recipe and data, and the cards in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, ValidationError

from victims.errors import UserError
from victims.files import exclusive, set_aside, sha256_file, sha256_json, write_text
from victims.informed.spec import AnySpec
from victims.source import Sources
from victims.training.hardware import cpu_name, gpu_name

if TYPE_CHECKING:
    import torch

    from victims.unfinished import Unfinished

WEIGHTS, CARD = "weights.safetensors", "card.json"
"""The two files of a folder of the cache."""
DAMAGED = "damaged"
"""The folder, of the cache and of the results, of files that did not match their hash."""
MAKERS = {"dataset": "victims.obtain", "informed": "victims.informed.cache", "deletion": "victims.deletion.cache"}
"""By setting, the module that trains victims: it imports all that decides their weights."""


def cache_dir() -> Path:
    """Return the folder of trained victims: BENCH_CACHE_DIR, or the user's cache."""
    chosen = os.environ.get("BENCH_CACHE_DIR")
    return Path(chosen).expanduser() if chosen else user_cache_path("reconstruction-bench")


def victim_key(spec: AnySpec, dataset_sha256: str) -> str:
    """Return the 16 hex digits that name a victim's folder in the cache."""
    return sha256_json([spec.identity(), spec.training.version, dataset_sha256])[:16]


def training_sha(setting: str) -> str:
    """Return 16 hex digits of the hash of the syntax trees of all code that trains the victims of a setting."""
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
        stored = json.loads(card.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


@contextmanager
def locked(folder: Path, owner: str, notice: Callable[[str], None]) -> Iterator[None]:
    """Make a folder of the cache and hold its lock, so that no other process trains into it meanwhile.

    Args:
        folder: the folder.
        owner: the name, for messages, of what is trained into the folder.
        notice: called with one line if another process holds the lock.

    Raises:
        UserError: the cache cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name another cache with BENCH_CACHE_DIR"
        raise UserError(f"{owner}: cannot write to its folder {folder} ({error.strerror}); {hint}") from None
    with exclusive(folder / "lock", lambda: notice(f"{owner}: another process trains it; waiting")):
        yield


@contextmanager
def locked_folder(spec: AnySpec, dataset_sha256: str, notice: Callable[[str], None]) -> Iterator[Path]:
    """Yield a victim's folder, made and held as by `locked`."""
    folder = victim_folder(spec, dataset_sha256)
    with locked(folder, f"victim {spec.name}", notice):
        yield folder


@contextmanager
def unfinished(spec: AnySpec, folder: Path) -> Iterator[Unfinished]:
    """Yield the checkpoint and the clock of a victim's training, and remove all checkpoints once the block has ended.

    An exception leaves them, for the next try to go on from. Other code begins anew: the file is named by its hash.

    Args:
        spec: the victim.
        folder: the victim's, held as by `locked`.
    """
    from victims.unfinished import Unfinished

    source = training_sha(spec.setting)
    yield Unfinished(folder / f"checkpoint-{source}.safetensors", source)
    for left in folder.glob("checkpoint-*.safetensors"):
        left.unlink(missing_ok=True)


class StoredCard(BaseModel):
    """A card of weights that are stored beside it: which they are, and what, when and where they were trained.

    Attributes:
        weights_sha256: hex SHA-256 of the file of the weights.
        training_sha: hash of the syntax trees of all that trained them, empty where it was not recorded.
        dataset_sha256: hex fingerprint of the data.
        train_s: seconds of the training, with those before its last checkpoint if it was resumed.
        device: "cpu" or "cuda".
        hardware: name of the processor.
        torch: its version.
        created_utc: when the training ended, ISO 8601.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")  # a measure may be NaN, and is read back as such

    weights_sha256: str
    training_sha: str = ""
    dataset_sha256: str
    train_s: float
    device: str
    hardware: str
    torch: str
    created_utc: str

    def store(self, folder: Path) -> None:
        """Write the card into a folder atomically, once all that it describes is there."""
        write_text(folder / CARD, self.model_dump_json(indent=1))


CardT = TypeVar("CardT", bound=StoredCard)


class Origin(TypedDict):
    """The fields of `StoredCard`, which every card has."""

    weights_sha256: str
    training_sha: str
    dataset_sha256: str
    train_s: float
    device: str
    hardware: str
    torch: str
    created_utc: str


def origin(
    weights_sha256: str, dataset_sha256: str, device: torch.device, train_s: float, training_sha: str = ""
) -> Origin:
    """Return that part of a card for a training that ends now.

    Args:
        weights_sha256: as of `StoredCard`, and so are the others.
        dataset_sha256: likewise.
        device: where it was trained.
        train_s: seconds that it took.
        training_sha: empty where it was not recorded.
    """
    import torch

    return Origin(
        weights_sha256=weights_sha256,
        training_sha=training_sha,
        dataset_sha256=dataset_sha256,
        train_s=train_s,
        device=device.type,
        hardware=gpu_name(device) or cpu_name(),
        torch=torch.__version__,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def whole_card(
    kind: type[CardT], folder: Path, owner: str, notice: Callable[[str], None], files: Sequence[str] = (WEIGHTS,)
) -> CardT | None:
    """Return the card of files that match their hashes, None if there are none; others are moved into `DAMAGED`.

    Args:
        kind: the class of the card.
        folder: the folder of the card and its files.
        owner: the name, for messages, of what the card describes.
        notice: called with one line if a file does not match.
        files: the names of the files; the card has the hash of NAME.safetensors as NAME_sha256, none if it is not kept.
    """
    if not (folder / CARD).exists():
        return None
    try:
        card = kind.model_validate_json((folder / CARD).read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError):
        card = None
    hashes = {folder / name: getattr(card, f"{Path(name).stem}_sha256", "") for name in files}
    if card is not None and all(path.exists() and sha256_file(path) == own for path, own in hashes.items() if own):
        return card
    damaged = cache_dir() / DAMAGED
    aside = [set_aside(path, damaged).name for path in (folder / CARD, *hashes) if path.exists()]
    notice(
        f"{owner}: the cached files in {folder} do not match their hash; training it again "
        f"({', '.join(aside)} set aside in {damaged})"
    )
    return None


def victim_card(
    kind: type[CardT],
    spec: AnySpec,
    folder: Path,
    notice: Callable[[str], None],
    files: Sequence[str] = (WEIGHTS,),
) -> CardT | None:
    """Return a victim's card as `whole_card` does, by the name that the victim has now."""
    card = whole_card(kind, folder, f"victim {spec.name}", notice, files)
    return card and card.model_copy(update={"name": spec.name, "spec": spec})
