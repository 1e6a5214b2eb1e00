"""The state of a training, the figures of a step, and the protocol of a training algorithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from victims.equations.architectures import ReLUNetwork
from victims.files import below, under

MODEL = "model."
"""Prefix of the names of the network's tensors in a checkpoint."""


@dataclass
class TrainState:
    """A network in training, on the coordinates of its data's span if it is fully connected.

    Attributes:
        model: the network.
        outside_norm: Frobenius norm of the initial W1 outside the span, at its initial scale.
        outside_scale: scalar tensor, the factor by which rescaling has multiplied that part.
        velocity: running averages, one tensor for each parameter; empty for algorithms without momentum.
        step: number of steps done.
    """

    model: ReLUNetwork
    outside_norm: float
    outside_scale: Tensor
    velocity: list[Tensor] = field(default_factory=list)
    step: int = 0

    @torch.no_grad()
    def residual(self) -> float:
        """Return the stationarity residual, in [0, 1]: the share of theta that the averaged steps do not explain.

        At a stationary point theta lies along the sum of the samples' gradients. Those of single steps jump where a
        pre-activation is on the kink of its ReLU; `velocity`, their average over the points nearby, is an element of
        the Goldstein subdifferential (1977), and the residual is the sine of its angle with theta.
        """
        parameters = list(self.model.parameters())
        along = sum((one * step).sum() for one, step in zip(parameters, self.velocity, strict=True))
        outside = self.outside_norm * self.outside_scale
        cosine = along / norm(self.velocity) / torch.sqrt(norm(parameters) ** 2 + outside**2)
        return math.sqrt(1 - min(max(float(cosine), 0.0), 1.0) ** 2)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state's tensors by name, for a checkpoint."""
        named = under(MODEL, self.model.state_dict())
        named |= {f"velocity.{index}": value for index, value in enumerate(self.velocity)}
        return named | {"outside_scale": self.outside_scale, "step": torch.tensor(self.step)}

    def load(self, named: dict[str, Tensor]) -> None:
        """Take the state from a checkpoint's tensors; one that does not fit changes nothing.

        Raises:
            ValueError: a tensor is missing, or of another shape.
        """
        for name, value in self.tensors().items():
            if name not in named or named[name].shape != value.shape:
                raise ValueError(f"the checkpoint has no {name} of shape {tuple(value.shape)}")
        self.model.load_state_dict(below(MODEL, named))
        self.velocity = [named[f"velocity.{i}"].to(v) for i, v in enumerate(self.velocity)]
        self.outside_scale = named["outside_scale"].to(self.outside_scale)
        self.step = int(named["step"])


class Figures(NamedTuple):
    """The mean loss, a scalar tensor, and the margins (k,) of the samples that a step used."""

    loss: Tensor
    margins: Tensor


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of several tensors taken together, a scalar tensor."""
    total: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(tensor) for tensor in tensors]))
    return total


class Algorithm(Protocol):
    """One training algorithm: a step count and a step."""

    steps: int

    def start(self, state: TrainState) -> None:
        """Allocate the tensors that the algorithm keeps in the state."""

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Advance by one step on inputs (n, ...) and class indices (n,), and return the figures before it."""
