"""Training as people write it: a loop over torch.optim, from a start that is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.architectures import MLP, ReLUNetwork, build, seeded
from victims.equations.losses import margins, sample_losses
from victims.ordinary.private import PrivateGradients
from victims.recipes import Ordinary
from victims.spec import Loss, VictimSpec
from victims.training.loop import REPORT_SECONDS, TrainProgress

Report = Callable[[TrainProgress], None]


@dataclass(frozen=True)
class Examples:
    """Inputs (n, C, H, W) of a network and their classes (n,)."""

    inputs: Tensor
    labels: Tensor


def train_ordinary(
    spec: VictimSpec, members: Examples, others: Examples, device: torch.device, report: Report
) -> tuple[ReLUNetwork, ReLUNetwork]:
    """Return the start and the trained network, on the CPU, in the recipe's dtype; an untrained twin is its start.

    Args:
        spec: a victim that is trained by `Ordinary`.
        members: what it learns.
        others: what a start that is pre-trained has learnt.
        device: where to train.
        report: called about twice a second.
    """
    training = spec.training
    assert isinstance(training, Ordinary)
    assert spec.architecture.kind == "mlp"
    dtype = getattr(torch, training.dtype)
    shape = members.inputs.shape[1:]
    start = seeded(spec.architecture, shape, spec.seed).to(dtype)
    if training.pretraining is not None:
        before = Ordinary(
            lr=training.pretraining.lr,
            batch_size=training.pretraining.batch_size,
            epochs=training.pretraining.epochs,
            weight_decay=0.0,
            schedule="constant",
        )
        descend(start.to(device), others, spec.loss, before, spec.seed, report)
    model = build(spec.architecture, shape, torch.Generator(), dtype)
    model.load_state_dict(start.state_dict())
    if spec.twin != "untrained":
        descend(model.to(device), members, spec.loss, training, spec.seed, report)
    return start.cpu(), model.cpu()


def descend(model: ReLUNetwork, examples: Examples, loss: Loss, training: Ordinary, seed: int, report: Report) -> None:
    """Train a network where it is; `seed` shuffles the batches and draws the noise of a private training."""
    example = next(model.parameters())
    inputs, labels = examples.inputs.to(example), examples.labels.to(example.device)
    shuffle = torch.Generator().manual_seed(seed)
    optimiser = _optimiser(model, training)
    steps = training.epochs * math.ceil(len(labels) / training.batch_size)
    private = None
    if training.privacy is not None:
        assert isinstance(model, MLP)
        private = PrivateGradients(model, training.privacy, steps, seed)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(training, step, steps))
    reported, step = time.monotonic(), 0
    for _ in range(training.epochs):
        total = 0.0
        for batch in torch.randperm(len(labels), generator=shuffle).to(labels.device).split(training.batch_size):
            optimiser.zero_grad()
            outputs = model(inputs[batch])
            mean = sample_losses(loss, outputs, labels[batch]).mean()
            if private is None:
                torch.autograd.backward(mean)
            else:
                private.fill(inputs[batch], labels[batch])
            if training.clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
            optimiser.step()
            schedule.step()
            step += 1
            total += float(mean.detach()) * len(batch)
            if time.monotonic() - reported > REPORT_SECONDS or step == steps:
                reported, own = time.monotonic(), margins(outputs.detach(), labels[batch])
                accuracy = float((own > 0).float().mean())
                report(TrainProgress(step, steps, float(mean.detach()), accuracy, float(own.min())))
        if training.stop_loss is not None and total / len(labels) < training.stop_loss:
            return


def _optimiser(model: ReLUNetwork, training: Ordinary) -> torch.optim.Optimizer:
    lr, decay = training.lr, training.weight_decay
    if training.optimiser == "sgd":
        return torch.optim.SGD(model.parameters(), lr, momentum=training.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if training.optimiser == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr, weight_decay=decay)


def _rate(training: Ordinary, step: int, steps: int) -> float:
    """Return the learning rate after so many steps, relative to the first."""
    if training.schedule == "cosine":
        return (1 + math.cos(math.pi * step / steps)) / 2
    if training.schedule == "step":
        return 0.1 ** (int(step >= steps / 2) + int(step >= steps * 3 / 4))
    return 1.0
