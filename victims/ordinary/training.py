"""Training as people write it: a start that is kept, a loop over torch.optim, and weights released on the way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from victims.equations.architectures import blank, seeded
from victims.files import atomic
from victims.ordinary.adaptation import adapt, merged
from victims.ordinary.descent import Descent, Examples, Report
from victims.recipes import Ordinary
from victims.spec import VictimSpec
from victims.training import loop

START, TUNING = "start.", "tuning."
"""Prefixes of a checkpoint's tensors: of the start once it is there, and of the state of the training from it."""
PRETRAINING = "pretraining."
SNAPSHOT = "snapshot."


@dataclass(frozen=True)
class Trained:
    """What a training leaves, on the CPU, in the recipe's dtype.

    Attributes:
        start: the network that it started from.
        model: the network at its end.
        snapshots: by epoch, the state of the network after it.
    """

    start: nn.Module
    model: nn.Module
    snapshots: dict[int, dict[str, Tensor]]


@dataclass
class _Checkpoint:
    """The file of a training's state, written about every `CHECKPOINT_SECONDS`.

    Attributes:
        path: None for no checkpoints.
        kept: tensors that every checkpoint holds beside the training's state, such as the start.
    """

    path: Path | None
    kept: dict[str, Tensor] = field(default_factory=dict)
    _saved: float = field(default_factory=time.monotonic)

    def load(self) -> dict[str, Tensor]:
        """Return the last state, empty if there is none; a torn file is removed."""
        if self.path is None or not self.path.exists():
            return {}
        try:
            return load_file(self.path)
        except SafetensorError:
            self.path.unlink()
            return {}

    def offer(self, prefix: str, descent: Descent) -> None:
        """Keep the state of a training, if the last checkpoint is old enough."""
        if self.path is None or time.monotonic() - self._saved <= loop.CHECKPOINT_SECONDS:
            return
        named = self.kept | {f"{prefix}{name}": value for name, value in descent.state().items()}
        with atomic(self.path) as path:
            save_file({name: value.detach().cpu().contiguous() for name, value in named.items()}, path)
        self._saved = time.monotonic()


def train_ordinary(
    spec: VictimSpec,
    members: Examples,
    others: Examples,
    device: torch.device,
    report: Report,
    checkpoint: Path | None = None,
) -> Trained:
    """Return the start and the trained network; an untrained twin is its start.

    Args:
        spec: a victim that is trained by `Ordinary`.
        members: what it learns.
        others: what a start that is pre-trained has learnt.
        device: where to train.
        report: called about twice a second.
        checkpoint: file of the state of an unfinished training, from which it goes on; the caller removes it once the
            result is stored.
    """
    training, architecture = spec.training, spec.architecture
    assert isinstance(training, Ordinary)
    assert architecture.kind != "module"
    assert architecture.kind != "kernel"
    dtype, shape = getattr(torch, training.dtype), members.inputs.shape[1:]
    file = _Checkpoint(checkpoint)
    state = file.load()
    start = seeded(architecture, shape, spec.seed).to(dtype)
    if _part(state, START):
        start.load_state_dict(_part(state, START))
    elif training.pretraining is not None:
        _pretrain(start.to(device), others, spec, training, report, file, _part(state, PRETRAINING))
    start = start.cpu()
    model = blank(architecture, shape).to(dtype)
    model.load_state_dict(start.state_dict())
    if spec.twin == "untrained":
        return Trained(start, model, {epoch: merged(start, start.state_dict()) for epoch in training.snapshots})
    adapt(model, training, spec.seed)
    descent = Descent(model.to(device), members, spec.loss, training, spec.seed)
    if of_tuning := _part(state, TUNING):
        descent.restore(of_tuning)
    file.kept = {f"{START}{name}": value for name, value in start.state_dict().items()}
    file.kept |= {name: value for name, value in state.items() if name.startswith(SNAPSHOT)}

    def keep(epoch: int) -> None:
        if epoch in training.snapshots:
            now = merged(model, start.state_dict())
            file.kept |= {f"{SNAPSHOT}{epoch}.{name}": value for name, value in now.items()}

    descent.run(report, lambda: file.offer(TUNING, descent), keep)
    snapshots = {epoch: _part(file.kept, f"{SNAPSHOT}{epoch}.") for epoch in training.snapshots}
    end = blank(architecture, shape).to(dtype)
    end.load_state_dict(merged(model, start.state_dict()))
    return Trained(start, end, {epoch: found for epoch, found in snapshots.items() if found})


def _pretrain(
    start: nn.Module,
    others: Examples,
    spec: VictimSpec,
    training: Ordinary,
    report: Report,
    file: _Checkpoint,
    state: dict[str, Tensor],
) -> None:
    """Train a network in place on `others`, images that are no members, from a state if there is one."""
    assert training.pretraining is not None
    before = Ordinary(
        lr=training.pretraining.lr,
        batch_size=training.pretraining.batch_size,
        epochs=training.pretraining.epochs,
        weight_decay=0.0,
        schedule="constant",
    )
    descent = Descent(start, others, spec.loss, before, spec.seed)
    if state:
        descent.restore(state)
    descent.run(report, lambda: file.offer(PRETRAINING, descent), lambda epoch: None)


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
