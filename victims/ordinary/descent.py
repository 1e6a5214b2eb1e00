"""The loop over torch.optim: it can be stopped after any step, and goes on to the same weights bit by bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn

from victims.devices.upload import uploaded
from victims.equations.architectures import MLP
from victims.equations.checkpoint import Checkpoint
from victims.equations.losses import margins, sample_losses
from victims.files import below, under
from victims.ordinary.adaptation import public_name
from victims.ordinary.augmentation import Augmenter
from victims.ordinary.private import PrivateGradients
from victims.recipes import Ordinary, Schedule
from victims.spec import Loss
from victims.training.loop import REPORT_SECONDS, TrainProgress

Report = Callable[[TrainProgress], None]
MODEL, OPTIMISER, AVERAGE = "model.", "optimiser.", "average."
"""Prefixes of the names of a state's tensors."""


@dataclass(frozen=True)
class Examples:
    """Inputs (n, C, H, W) of a network, their classes (n,), and what a black and a white pixel are.

    The last two are a number, or (C, 1, 1).
    """

    inputs: Tensor
    labels: Tensor
    black: Tensor | float = 0.0
    white: Tensor | float = 1.0


class Descent:
    """A training of a network in place.

    Args:
        model: the network; parameters that ask for no gradient stay.
        examples: what it learns.
        loss: of a sample.
        training: the recipe.
        seed: of the generator that shuffles the batches, of the one that draws what changes at random, and of the one
            that draws the noise of a private training.

    Attributes:
        step: steps done.
        averaged: the moving average of the network's state after each step; empty if the recipe has none.
    """

    def __init__(self, model: nn.Module, examples: Examples, loss: Loss, training: Ordinary, seed: int) -> None:
        example = next(model.parameters())
        self.model, self.loss, self.training = model, loss, training
        self.inputs, self.labels = examples.inputs.to(example), examples.labels.to(example.device)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = _optimiser(self.trained, training)
        self.shuffle = torch.Generator().manual_seed(seed)
        self.averaged: dict[str, Tensor] = {}
        black, white = (end.to(example) if isinstance(end, Tensor) else end for end in (examples.black, examples.white))
        self.augmenter = Augmenter(training.augmentation, training.dropout, black, white, seed)
        self.augmenter.drop(model)
        self.batches = math.ceil(len(self.labels) / training.batch_size)
        self.steps = training.epochs * self.batches
        self.private = None
        if training.privacy is not None:
            assert isinstance(model, MLP)
            self.private = PrivateGradients(model, training.privacy, self.steps, seed)
        self.step, self._total = 0, torch.zeros((), dtype=torch.float64, device=example.device)
        self._begun = self.shuffle.get_state()

    def run(self, report: Report, after_step: Callable[[], None], after_epoch: Callable[[int], None]) -> None:
        """Train to the end, from where the state is; if the recipe averages, the network has the average then.

        Args:
            report: called about twice a second, and after the last step.
            after_step: called after every step; it may keep `state()`.
            after_epoch: called after every epoch with the number of epochs done, before `after_step`.
        """
        reported = time.monotonic()
        self.model.train()
        while self.step < self.steps:
            self._begun = self.shuffle.get_state()
            order = uploaded(torch.randperm(len(self.labels), generator=self.shuffle), self.labels.device)
            for batch in order.split(self.training.batch_size)[self.step % self.batches :]:
                outputs, mean = self._descend(batch)
                if time.monotonic() - reported > REPORT_SECONDS or self.step == self.steps:
                    reported, own = time.monotonic(), margins(outputs, self.labels[batch])
                    accuracy = float((own > 0).float().mean())
                    report(TrainProgress(self.step, self.steps, float(mean), accuracy, float(own.min())))
                if self.step % self.batches:
                    after_step()
            mean_loss, self._total = self._total / len(self.labels), torch.zeros_like(self._total)
            self._begun = self.shuffle.get_state()
            after_epoch(self.step // self.batches)
            if self.training.stop_loss is not None and float(mean_loss) < self.training.stop_loss:
                self.step = self.steps
            after_step()
        if self.averaged:
            self.model.load_state_dict(self.averaged)
        self.model.eval()

    def _descend(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step on a batch of indices; return the outputs and the mean loss before it, a scalar tensor."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.training.lr * relative_rate(self.training.schedule, self.step, self.steps)
        self.optimiser.zero_grad()
        inputs, labels = self.augmenter.changed(self.inputs[batch]), self.labels[batch]
        mixing = self.augmenter.mixing(inputs)
        with torch.autocast(batch.device.type, torch.bfloat16) if self.training.mixed_precision else nullcontext():
            outputs = self.model(mixing.of(inputs)).to(inputs.dtype)
        mean = mixing.loss(lambda labels: self._mean_loss(outputs, labels), labels)
        if self.private is None:
            torch.autograd.backward(mean)
        else:
            self.private.fill(inputs, labels)
        if self.training.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.trained, self.training.clip)
        self.optimiser.step()
        self._average()
        self.step += 1
        self._total += mean.detach().double() * len(batch)
        return outputs.detach(), mean.detach()

    def _mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch, a scalar; smoothed labels (Szegedy et al. 2016) count for all classes."""
        own, smoothing = sample_losses(self.loss, outputs, labels).mean(), self.training.label_smoothing
        if not smoothing:
            return own
        classes = range(outputs.shape[1] if outputs.ndim == 2 else 2)
        every = [sample_losses(self.loss, outputs, torch.full_like(labels, each)).mean() for each in classes]
        return (1 - smoothing) * own + smoothing * torch.stack(every).mean()

    def _average(self) -> None:
        """Move the average towards the weights after a step, where the recipe has one; it begins after the first.

        Polyak & Juditsky (1992) average all iterates alike; here the latest counts most.

        `torch.optim.swa_utils.AveragedModel` with `use_buffers=True` averages so too, but makes a GPU wait for the host
        at every step.
        """
        if (kept := self.training.average) is None:
            return
        for name, value in self.model.state_dict().items():
            if name in self.averaged and value.is_floating_point():
                self.averaged[name].lerp_(value, 1 - kept)
            else:
                self.averaged[name] = value.clone()

    def average(self) -> dict[str, Tensor]:
        """Return a copy of the average so far, on the CPU; empty if the recipe has none."""
        return {name: value.cpu().clone() for name, value in self.averaged.items()}

    def checkpoint(self) -> Checkpoint:
        """Return what the training goes on from, on the CPU; parameters by name, float32."""
        weights = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        first, second = self.momentum(), dict[str, Tensor]()
        group = self.optimiser.param_groups[0]
        betas, epsilon = (self.training.momentum, 0.0), 0.0
        if self.training.optimiser != "sgd":
            second, betas, epsilon = self._moment("exp_avg_sq"), group["betas"], group["eps"]
        decay = self.training.weight_decay if self.training.optimiser == "adamw" else 0.0
        weights, first, second = (
            {name: value.float() if value.is_floating_point() else value for name, value in part.items()}
            for part in (weights, first, second)
        )
        return Checkpoint(weights, first, second, self.step, group["lr"], decay, betas, epsilon)

    def momentum(self) -> dict[str, Tensor]:
        """Return the optimiser's running mean of the gradients by parameter name, on the CPU, up to a factor.

        It is SGD's momentum (Polyak 1964), or Adam's first moment (Kingma and Ba 2015, Algorithm 1) before it is
        divided by anything.
        """
        return self._moment("momentum_buffer" if self.training.optimiser == "sgd" else "exp_avg")

    def _moment(self, moment: str) -> dict[str, Tensor]:
        """Return what the optimiser keeps under this name for each parameter, on the CPU; zeros without momentum."""
        named = ((name, parameter) for name, parameter in self.model.named_parameters() if parameter.requires_grad)
        kept = ((name, self.optimiser.state[parameter].get(moment), parameter) for name, parameter in named)
        return {
            public_name(name): (torch.zeros_like(parameter) if value is None else value).detach().cpu().clone()
            for name, value, parameter in kept
        }

    def state(self) -> dict[str, Tensor]:
        """Return all that `restore` needs; the tensors are those that the next step changes."""
        named = under(MODEL, self.model.state_dict())
        for index, parameter in enumerate(self.trained):
            moments = self.optimiser.state.get(parameter, {})
            named |= {f"{OPTIMISER}{name}.{index}": value for name, value in moments.items() if value is not None}
        named |= under(AVERAGE, self.averaged)
        if self.private is not None:
            named["noise"] = self.private.generator.get_state()
        return named | {
            "step": torch.tensor(self.step),
            "total": self._total,
            "shuffle": self._begun,
            "augmentation": self.augmenter.generator.get_state(),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state` returned, of a training of the same kind."""
        self.model.load_state_dict(below(MODEL, state))
        for name, value in below(OPTIMISER, state).items():
            moment, _, index = name.rpartition(".")
            parameter = self.trained[int(index)]
            # Adam counts its steps on the host, in its own precision
            self.optimiser.state[parameter][moment] = value if moment == "step" else value.to(parameter)
        self.averaged = {name: value.to(self.inputs.device) for name, value in below(AVERAGE, state).items()}
        self.step, self._total = int(state["step"]), state["total"].to(self._total)
        self.shuffle.set_state(state["shuffle"])
        self.augmenter.generator.set_state(state["augmentation"])
        if self.private is not None:
            self.private.generator.set_state(state["noise"])


def _optimiser(trained: list[nn.Parameter], training: Ordinary) -> torch.optim.Optimizer:
    lr, decay = training.lr, training.weight_decay
    if training.optimiser == "sgd":
        return torch.optim.SGD(trained, lr, momentum=training.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if training.optimiser == "adamw" else torch.optim.Adam
    return kind(trained, lr, weight_decay=decay)


def relative_rate(schedule: Schedule, step: float, steps: int) -> float:
    """Return the learning rate after `step` of `steps` steps, relative to the first."""
    match schedule:
        case "constant":
            return 1.0
        case "cosine":
            return (1 + math.cos(math.pi * step / steps)) / 2
        case "step":
            return 0.1 ** (int(step >= steps / 2) + int(step >= steps * 3 / 4))
        case _:
            assert_never(schedule)
