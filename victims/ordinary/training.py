"""Training as people write it: a start that is kept, a loop over torch.optim, and weights released on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from victims.equations.architectures import blank, seeded
from victims.equations.checkpoint import Checkpoint
from victims.files import below, under
from victims.ordinary.adaptation import adapt, merged
from victims.ordinary.descent import Descent, Examples, Report
from victims.recipes import Ordinary
from victims.spec import BuiltSpec, VictimSpec
from victims.unfinished import Unfinished

START, TUNING = "start.", "tuning."
"""Prefixes of a checkpoint's tensors: of the start once it is there, and of the state of the training from it."""
PRETRAINING = "pretraining."
SNAPSHOT, CHECKPOINT = "snapshot.", "checkpoint."


@dataclass(frozen=True)
class Trained:
    """What a training leaves, on the CPU, in the recipe's dtype.

    Attributes:
        start: the network that it started from.
        model: the network at its end.
        snapshots: by epoch, the state of the network after it, or its average if the recipe has one.
        momentum: the optimiser's running mean of the gradients by parameter name; empty if it is not released.
        checkpoints: by epoch, what the training goes on from after it.
    """

    start: nn.Module
    model: nn.Module
    snapshots: dict[int, dict[str, Tensor]]
    momentum: dict[str, Tensor] = field(default_factory=dict)
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)


def train_ordinary(
    spec: VictimSpec,
    members: Examples,
    others: Examples,
    device: torch.device,
    report: Report,
    checkpoint: Unfinished | None = None,
) -> Trained:
    """Return the start and the trained network; an untrained twin is its start.

    Args:
        spec: a victim that is trained by `Ordinary`.
        members: what it learns.
        others: what a start that is pre-trained has learnt.
        device: where to train.
        report: called about twice a second.
        checkpoint: the state of an unfinished training, from which it goes on; the caller removes it once the result
            is stored. None keeps none.
    """
    training, architecture = spec.training, spec.architecture
    assert isinstance(training, Ordinary)
    assert isinstance(architecture, BuiltSpec)
    dtype, shape = getattr(torch, training.dtype), members.inputs.shape[1:]
    file = checkpoint or Unfinished()
    state = file.load()
    start = seeded(architecture, shape, spec.seed).to(dtype)
    if below(START, state):
        start.load_state_dict(below(START, state))
    elif training.pretraining is not None:
        _pretrain(start.to(device), others, spec, training, report, file, below(PRETRAINING, state))
    start = start.cpu()
    model = blank(architecture, shape).to(dtype)
    model.load_state_dict(start.state_dict())
    if spec.twin == "untrained":
        return Trained(start, model, {epoch: merged(start, start.state_dict()) for epoch in training.snapshots})
    adapt(model, training, spec.seed)
    descent = Descent(model.to(device), members, spec.loss, training, spec.seed)
    if of_tuning := below(TUNING, state):
        descent.restore(of_tuning)
    kept = under(START, start.state_dict())
    kept |= {name: value for name, value in state.items() if name.startswith((SNAPSHOT, CHECKPOINT))}

    def keep(epoch: int) -> None:
        if epoch in training.checkpoints:
            kept.update(under(f"{CHECKPOINT}{epoch}.", descent.checkpoint().packed()))
        if epoch in training.snapshots:
            now = descent.average() or merged(model, start.state_dict())
            kept.update(under(f"{SNAPSHOT}{epoch}.", now))

    descent.run(report, lambda: _offer(file, TUNING, descent, kept), keep)
    snapshots = {epoch: below(f"{SNAPSHOT}{epoch}.", kept) for epoch in training.snapshots}
    passed = ((epoch, below(f"{CHECKPOINT}{epoch}.", kept)) for epoch in training.checkpoints)
    checkpoints = {epoch: Checkpoint.unpacked(found) for epoch, found in passed if found}
    end = blank(architecture, shape).to(dtype)
    end.load_state_dict(merged(model, start.state_dict()))
    momentum = descent.momentum() if training.momentum_released else {}
    return Trained(start, end, {epoch: found for epoch, found in snapshots.items() if found}, momentum, checkpoints)


def _pretrain(
    start: nn.Module,
    others: Examples,
    spec: VictimSpec,
    training: Ordinary,
    report: Report,
    file: Unfinished,
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
    descent.run(report, lambda: _offer(file, PRETRAINING, descent, {}), lambda epoch: None)


def _offer(file: Unfinished, prefix: str, descent: Descent, kept: dict[str, Tensor]) -> None:
    """Keep the state of a training and other tensors, such as its start, if the last checkpoint is old enough."""
    if file.due:
        file.save(kept | under(prefix, descent.state()))
