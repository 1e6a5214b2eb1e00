"""What is done to a trained network before it leaves the house: noise, rounding, clipped answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from victims.defences.spec import Answers, ClippedOutputs, Defence, Noise, NoisyOutputs, RoundedOutputs, Rounding
from victims.errors import UserError

INT8 = 127
"""The largest integer of the symmetric 8-bit range."""


def degraded(tensor: Tensor, defences: Sequence[Defence], generator: torch.Generator) -> Tensor:
    """Return a parameter tensor as it is released, of the same shape and dtype; only noise and rounding change it.

    Args:
        tensor: a parameter of one network, of any shape.
        defences: in the order in which they are applied.
        generator: draws the noise.
    """
    for defence in defences:
        if isinstance(defence, Noise):
            deviation = defence.strength * tensor.norm() / tensor.numel() ** 0.5
            tensor = tensor + deviation * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        elif isinstance(defence, Rounding):
            tensor = _rounded(tensor, defence)
    return tensor


def _rounded(tensor: Tensor, defence: Rounding) -> Tensor:
    if defence.strength != "int8":
        return tensor.to(getattr(torch, defence.strength)).to(tensor.dtype)
    row = tuple(range(1, tensor.ndim))  # a vector has one scale: (h,) is one row of h
    largest = tensor.abs().amax(row, keepdim=True) if row else tensor.abs().amax()
    scale = largest.clamp_min(torch.finfo(tensor.dtype).tiny) / INT8
    return (tensor / scale).round() * scale


def noise_seed(weights_sha256: str) -> int:
    """Return the seed of the noise on weights of that hex SHA-256, so that what is released can be made again."""
    return int(weights_sha256[:8], 16)


def require_released(name: str, weights: dict[str, Any]) -> None:
    """Check that rounding has left every weight finite.

    Raises:
        UserError: a weight is beyond the largest number of the format.
    """
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise UserError(f"victim {name}: a weight is too large for the format that it is rounded to; take bfloat16")


def answered(outputs: Tensor, defences: Sequence[Defence], generator: torch.Generator) -> Tensor:
    """Return the answers to queries: the outputs under the defences, of the same shape.

    Args:
        outputs: (m,) for one logit, or (..., m, C).
        defences: of the victim.
        generator: draws the noise of answers; on the CPU.
    """
    for defence in defences:
        if isinstance(defence, ClippedOutputs):
            largest = outputs.abs() if outputs.ndim == 1 else outputs.abs().amax(-1, keepdim=True)
            outputs = outputs * (defence.strength / largest).clamp(max=1)
        elif isinstance(defence, RoundedOutputs):
            outputs = outputs.round(decimals=defence.strength)
        elif isinstance(defence, NoisyOutputs):
            drawn = torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)
            outputs = outputs + defence.strength * drawn.to(outputs.device)
        elif isinstance(defence, Answers):
            outputs = _probabilities(outputs) if defence.strength == "probabilities" else _labels(outputs)
    return outputs


def _probabilities(outputs: Tensor) -> Tensor:
    """Return the probability of class 1, (m,) or (..., m, 1), where there is one logit, else of each, (..., m, C)."""
    return outputs.sigmoid() if _single(outputs) else outputs.softmax(-1)


def _single(outputs: Tensor) -> bool:
    """Say whether there is one logit."""
    return outputs.ndim == 1 or outputs.shape[-1] == 1


def _labels(outputs: Tensor) -> Tensor:
    """Return 1 for the class that is predicted and 0 for the others, of the shape and type of the outputs."""
    if _single(outputs):
        return (outputs > 0).to(outputs)
    return torch.nn.functional.one_hot(outputs.argmax(-1), outputs.shape[-1]).to(outputs)
