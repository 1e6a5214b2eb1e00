"""What a kernel machine answers, as the sums of kernels that the equation is about."""

from __future__ import annotations

import torch
from torch import Tensor

from victims.kernel.spec import Model

LEAST = 1e-12
"""Probabilities are clipped to [LEAST, 1 - LEAST]."""
SUMS = 0.05
"""Rounded probabilities sum to 1 within this."""


def may_be_probabilities(answers: Tensor) -> bool:
    """Say whether answers (q, C) could be the probabilities of C classes, or (q, 1) of one of two."""
    inside = bool(((answers >= 0) & (answers <= 1)).all())
    return inside and (answers.shape[1] == 1 or bool(((answers.sum(1) - 1).abs() < SUMS).all()))


def are_labels(answers: Tensor) -> bool:
    """Say whether answers are zeros and ones."""
    return bool(((answers == 0) | (answers == 1)).all())


def kernel_sums(model: Model, answers: Tensor, probabilities: bool) -> Tensor:
    """Return answers (q, C) as values (q, C) float64: sums of kernels, up to what the answers have lost.

    A density is the exponential of its logarithm, up to a factor that is the same for all queries and outputs. Of
    probabilities the logarithms are taken, less their mean over the classes, which the softmax has lost. Labels, and
    probabilities of densities, whose logarithms are no sums, give none.

    Args:
        model: what the machine is.
        answers: what it answered.
        probabilities: whether the answers are probabilities; a few answers alone do not show it.
    """
    values = answers.double()
    if probabilities:
        kept = values.clamp(LEAST, 1 - LEAST)
        if values.shape[1] == 1:
            return torch.logit(kept)
        logs = kept.log()
        return logs - logs.mean(1, keepdim=True)
    return values.exp() if model == "density" else values
