"""A training's state between two steps, and the gradients that two such states tell.

SGD (Polyak 1964, as torch has it) and Adam (Kingma and Ba 2015, Algorithm 1; Loshchilov and Hutter 2019 for AdamW) keep

    m_t = beta m_(t-1) + (1 - d) g_t,        d = 0 for SGD, d = beta for Adam,

and step by theta_t - theta_(t-1) = -lr (s_t m_t + lambda theta_(t-1)), s_t = 1 for SGD and, entry by entry,
s_t = 1 / ((1 - beta^t) (sqrt(v_t / (1 - beta_2^t)) + eps)) for Adam; lambda is the decay where it is decoupled. Over
the steps between two states S = sum_t m_t follows from how far the weights moved, for lr and v_t change little in an
epoch, and as sum_t m_(t-1) = S + m_before - m_after,

    (1 - d) sum_t g_t = (1 - beta) S - beta (m_before - m_after).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from victims.files import below, under

WEIGHTS, FIRST_MOMENT, SECOND_MOMENT = "weights.", "first.", "second."
"""Prefixes of the names of a packed state's tensors."""


@dataclass(frozen=True)
class Checkpoint:
    """What a training goes on from.

    Attributes:
        weights: theta by name, with the network's statistics.
        first: m by parameter name; parameters that are not trained are absent.
        second: v likewise; empty for SGD.
        steps: t, steps done.
        lr: learning rate of the last step.
        decay: lambda where it is decoupled, as AdamW's is; 0 where it is in the gradient, and then in m too.
        betas: beta and beta_2; the latter is 0 for SGD.
        epsilon: eps; 0 for SGD.
    """

    weights: dict[str, Tensor]
    first: dict[str, Tensor]
    second: dict[str, Tensor]
    steps: int
    lr: float
    decay: float
    betas: tuple[float, float]
    epsilon: float

    def packed(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        numbers = torch.tensor([self.steps, self.lr, self.decay, *self.betas, self.epsilon], dtype=torch.float64)
        moments = under(FIRST_MOMENT, self.first) | under(SECOND_MOMENT, self.second)
        return {**under(WEIGHTS, self.weights), **moments, "numbers": numbers}

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor]) -> Checkpoint:
        """Return the state that `packed` made tensors of."""
        steps, lr, decay, beta, beta_2, epsilon = tensors["numbers"].tolist()
        weights, first, second = (dict(below(part, tensors)) for part in (WEIGHTS, FIRST_MOMENT, SECOND_MOMENT))
        return cls(weights, first, second, int(steps), lr, decay, (beta, beta_2), epsilon)

    def copy(self) -> Checkpoint:
        """Return a state that shares no tensor with this one."""
        return self.unpacked({name: value.clone() for name, value in self.packed().items()})

    def scale(self, name: str) -> Tensor:
        """Return 1 / s_t of a parameter, entry by entry; one number for SGD."""
        if name not in self.second:
            return torch.ones((), dtype=torch.float64)
        beta, beta_2 = self.betas
        root = (self.second[name].double() / (1 - beta_2**self.steps)).sqrt()
        return (root + self.epsilon) * (1 - beta**self.steps)


def summed_gradients(before: Checkpoint, after: Checkpoint) -> dict[str, Tensor]:
    """Return sum_t g_t of the steps between two states, up to a factor that all parameters share.

    It is by parameter name, of the parameter's shape, float64. The weight decay is in g_t where it is not decoupled.

    Raises:
        ValueError: no step lies between them, or they are of different trainings.
    """
    steps = after.steps - before.steps
    if steps <= 0 or before.first.keys() != after.first.keys() or before.betas != after.betas:
        raise ValueError("the second state is not a later one of the same training")
    lr, beta = (before.lr + after.lr) / 2, after.betas[0]
    found = {}
    for name, m in after.first.items():
        begun, ended = before.weights[name].double(), after.weights[name].double()
        moved = (begun - ended) / lr - after.decay * steps * (begun + ended) / 2
        means = moved * (before.scale(name) + after.scale(name)) / 2
        found[name] = (1 - beta) * means - beta * (before.first[name].double() - m.double())
    return found
