"""Records that were deleted together, told apart by the spans of their gradient.

The gradient of the first trained layer is a sum of k outer products b_j (phi_j, 1)': what the layer saw of each record
lies in the span of its k first right singular vectors, and each back-propagated error in that of the left ones. The
error is a function of the record and its class, so that few records are in both.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import least_squares
from torch import Tensor

from victims.deletion.objective import Parameters, answers, flat, gradients, hidden, mean, outputs
from victims.deletion.spec import ShallowSpec

SWEEPS = 4
"""How often each of the chosen candidates may be exchanged."""


def spanned(
    spec: ShallowSpec, parameters: Parameters, gradient: Parameters, records: int, labels: Tensor, guesses: Tensor
) -> Tensor:
    """Return what the first layer saw of candidate records (c, q), each one in both spans as nearly as can be.

    Args:
        spec: the model.
        parameters: of the model at which the gradient is taken.
        gradient: of the summed losses of the deleted records, by parameter name.
        records: k, their number.
        labels: (c,) the candidates' classes.
        guesses: (c, q) what the layer may have seen; each search begins at its guess's projection onto the span.
    """
    layer = torch.cat([gradient["layers.0.weight"], gradient["layers.0.bias"][:, None]], 1)
    left, _, right = torch.linalg.svd(layer, full_matrices=False)
    left, right = left[:, :records], right[:records]
    found = []
    for label, guess in zip(labels, guesses, strict=True):
        wanted = torch.eye(spec.outputs, dtype=guess.dtype)[label]

        def outside(point: np.ndarray, wanted: Tensor = wanted) -> np.ndarray:
            seen = torch.from_numpy(point) @ right
            error = _error(spec, parameters, seen[:-1], wanted)
            return torch.cat([error - left @ (left.T @ error), seen[-1:] - 1]).numpy()

        start = right @ torch.cat([guess, guess.new_ones(1)])
        found.append((torch.from_numpy(least_squares(outside, start.numpy()).x) @ right)[:-1])
    return torch.stack(found)


def explaining(
    spec: ShallowSpec, parameters: Parameters, gradient: Parameters, seen: Tensor, labels: Tensor, records: int
) -> Tensor:
    """Return the k candidates (k,) whose gradients add up to the deleted one, found by exchanging one for another.

    Args:
        spec: the model.
        parameters: of the model at which the gradient is taken.
        gradient: of the summed losses of the deleted records, by parameter name.
        seen: (c, q) what the first layer saw of the candidates.
        labels: (c,) their classes.
        records: k.
    """
    parts = gradients(spec, parameters, seen[:, None], answers(spec, labels)[:, None])
    products, with_wanted = parts @ parts.T, parts @ flat(gradient)
    chosen: list[int] = []
    for place in [*range(records)] * SWEEPS:
        rest = chosen[:place] + chosen[place + 1 :]
        others = products[:, rest].sum(1)
        gap = products.diagonal() - 2 * with_wanted + 2 * others
        gap[rest] = torch.inf
        chosen = [*rest[:place], int(gap.argmin()), *rest[place:]]
    return torch.tensor(chosen)


def _error(spec: ShallowSpec, parameters: Parameters, seen: Tensor, wanted: Tensor) -> Tensor:
    """Return the error (h,) that is back-propagated to the first trained layer, for what it saw (q,) and y (C,)."""
    error = mean(spec, outputs(spec, parameters, seen)) - wanted
    if spec.front != "hidden":
        return error
    top = list(parameters.values())[-2]
    return (error @ top) * (1 - hidden(spec, parameters, seen).square())
