"""Victims are trained once and kept, by the hash of their spec, the training code and the data."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from victims.errors import UserError
from victims.files import atomic, exclusive, sha256_file, sha256_json, sha256_sources, write_text
from victims.informed.spec import AnySpec
from victims.spec import VictimSpec
from victims.stored import CARD, WEIGHTS, whole_card

if TYPE_CHECKING:
    import torch
    from torch import nn

    from victims.base import Victim
    from victims.datasets import Split
    from victims.training.loop import TrainProgress

HERE = Path(__file__).parent
SOURCES = [
    *(HERE / f"{name}.py" for name in ("architectures", "kinks", "losses")),
    *(HERE / "datasets").glob("*.py"),
    *(HERE / "training").glob("*.py"),
]
"""The code that determines a trained victim's weights, with the spec and the data."""
DAMAGED = "damaged"
"""The folder, of the cache and of the results, of files that did not match their hash."""
INFORMED_SOURCES = list((HERE / "informed").glob("*.py"))


def cache_dir() -> Path:
    """Return the folder of trained victims: BENCH_CACHE_DIR, or the user's cache."""
    chosen = os.environ.get("BENCH_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("reconstruction-bench")


def victim_key(spec: AnySpec, dataset_sha256: str) -> str:
    """Return the 16 hex digits that name a victim's folder in the cache."""
    return sha256_json([spec.identity(), _training_sha256(spec.setting), dataset_sha256])[:16]


@cache
def _training_sha256(setting: str) -> str:
    """The hash of the code that trains victims of a setting, as it was when this process first asked."""
    return sha256_sources(SOURCES if setting == "dataset" else INFORMED_SOURCES)


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


def obtain(
    spec: VictimSpec,
    data_dir: Path | None,
    device: torch.device,
    report: Callable[[TrainProgress], None],
    notice: Callable[[str], None],
) -> Victim:
    """Return a victim: from the cache if it is there and whole, else trained and cached.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.
        device: where to train.
        report: told the training's progress.
        notice: told in one line what the user should know, such as a cached file that was found altered.

    Raises:
        UserError: the data are missing or malformed, the training diverged, or the cache cannot be written.
    """
    from victims import datasets

    if spec.training.kind == "released":
        return _released(spec, data_dir)
    if spec.keeps_start:
        from victims import started

        return started.obtain(spec, data_dir, device, report, notice)
    split = split_of(spec, data_dir)
    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        victim = _load(spec, folder, split, notice) or _train(spec, folder, split, dataset_sha256, device, report)
        _require_finite(spec, victim.model)  # earlier versions kept others, too
        return victim


def split_of(spec: VictimSpec, data_dir: Path | None) -> Split:
    """Return what a victim that is trained here learns.

    Raises:
        UserError: the data are missing or malformed, or the images that it learns are all the same.
    """
    from victims import datasets

    raw = datasets.load(spec.dataset, data_dir)
    split = datasets.select(raw, spec.n, spec.groups, skip_first=spec.twin == "disjoint")
    if len(split.inputs) > 1 and (split.inputs == split.inputs[0]).all():
        raise UserError(f"victim {spec.name}: the {spec.n} images of {spec.dataset} that it learns are all the same")
    return split


def _require_finite(spec: VictimSpec, model: nn.Module) -> None:
    """See that a training led anywhere.

    Raises:
        UserError: its weights are not finite.
    """
    if not all(bool(value.isfinite().all()) for value in model.state_dict().values()):
        hint = "lower its learning rate, or look at its images"
        raise UserError(f"victim {spec.name}: its training ended in weights that are not finite; {hint}")


def _released(spec: VictimSpec, data_dir: Path | None) -> Victim:
    """Load a victim that is not trained here, and keep its card for `trained_card`."""
    from victims import datasets, released

    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    victim = released.load(spec, dataset_sha256)
    try:
        write_text(victim_folder(spec, dataset_sha256) / CARD, victim.card.model_dump_json(indent=1))
    except OSError as error:
        hint = "name another cache with BENCH_CACHE_DIR"
        raise UserError(f"cannot write to the folder of victims {cache_dir()} ({error.strerror}); {hint}") from None
    return victim


def _load(spec: VictimSpec, folder: Path, split: Split, notice: Callable[[str], None]) -> Victim | None:
    import torch
    from safetensors.torch import load_file

    from victims.architectures import build
    from victims.base import Victim
    from victims.card import VictimCard

    card = whole_card(VictimCard, folder, f"victim {spec.name}", cache_dir() / DAMAGED, notice)
    if card is None:
        return None
    assert spec.architecture.kind != "module"
    model = build(spec.architecture, split.inputs.shape[1:], torch.Generator(), torch.float32)
    model.load_state_dict(load_file(folder / WEIGHTS))
    return Victim(card.model_copy(update={"name": spec.name, "spec": spec}), model, split)


def _train(
    spec: VictimSpec,
    folder: Path,
    split: Split,
    dataset_sha256: str,
    device: torch.device,
    report: Callable[[TrainProgress], None],
) -> Victim:
    import torch
    from safetensors.torch import save_file

    from victims.base import Victim
    from victims.card import describe
    from victims.training.loop import train

    start = time.monotonic()
    checkpoint, weights_file = folder / "checkpoint.safetensors", folder / WEIGHTS
    inputs, labels = torch.from_numpy(split.inputs), torch.from_numpy(split.labels)
    model = train(spec, inputs, labels, device, checkpoint, report).float()
    seconds = time.monotonic() - start
    _require_finite(spec, model)
    with atomic(weights_file) as path:
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)
    card = describe(
        spec,
        model,
        split,
        weights_sha256=sha256_file(weights_file),
        dataset_sha256=dataset_sha256,
        device=device,
        train_s=seconds,
    )
    write_text(folder / CARD, card.model_dump_json(indent=1))
    checkpoint.unlink(missing_ok=True)
    return Victim(card, model, split)
