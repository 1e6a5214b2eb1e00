"""Records that were deleted together, told apart by the spans of their gradient.

The gradient of the first trained layer is a sum of k outer products b_j (phi_j, 1)': what the layer saw of each record
lies in the span of its k first right singular vectors, and each back-propagated error in the span of the k first left
ones. The error is a function of the record and its class, and few records lie in both spans.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import least_squares
from scipy.special import softmax
from torch import Tensor

from victims.deletion.objective import Parameters, answers, flat, gradients
from victims.deletion.spec import ShallowSpec

EVALUATIONS = 50
"""Largest number of evaluations of the search for one candidate, which has k unknowns."""
SWEEPS = 4
"""How often each of the chosen candidates may be exchanged."""


def spanned(
    spec: ShallowSpec, parameters: Parameters, gradient: Parameters, records: int, labels: Tensor, guesses: Tensor
) -> Tensor:
    """Return what the first layer saw of candidate records (c, q), each as close to both spans as possible.

    Args:
        spec: the model.
        parameters: of the model at which the gradient is taken.
        gradient: of the summed losses of the deleted records, by parameter name.
        records: k, their number.
        labels: (c,) the candidates' classes.
        guesses: (c, q) what the layer may have seen; each search begins at its guess's projection onto the span.
    """
    device = guesses.device  # the searches are scipy's, of k unknowns each
    gradient, parameters = ({name: value.cpu() for name, value in one.items()} for one in (gradient, parameters))
    labels, guesses = labels.cpu(), guesses.cpu()
    layer = torch.cat([gradient["layers.0.weight"], gradient["layers.0.bias"][:, None]], 1)
    left, _, right = torch.linalg.svd(layer, full_matrices=False)
    right = right[:records]
    outside = (torch.eye(len(left), dtype=left.dtype) - left[:, :records] @ left[:, :records].T).numpy()
    of_point = (parameters["layers.0.weight"] @ right[:, :-1].T).numpy()  # (h, k): the first layer, on the span
    top, units = list(parameters.values())[-2].numpy(), [value.numpy() for value in parameters.values()]

    def residual(point: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        first = of_point @ point + units[1]
        inner = np.tanh(first) if spec.front == "hidden" else first
        predicted = top @ inner + units[-1] if spec.front == "hidden" else first
        error = (predicted if spec.loss == "squared" else softmax(predicted)) - wanted
        if spec.front == "hidden":
            error = (error @ top) * (1 - inner**2)
        return np.append(outside @ error, point @ ones - 1)

    ones = right[:, -1].numpy()
    starts = torch.cat([guesses, guesses.new_ones(len(guesses), 1)], 1) @ right.T
    answers_of = np.eye(spec.outputs)[labels.numpy()]
    found = [
        least_squares(residual, start, args=(wanted,), max_nfev=EVALUATIONS).x
        for start, wanted in zip(starts.numpy(), answers_of, strict=True)
    ]
    seen: Tensor = torch.from_numpy(np.stack(found)) @ right[:, :-1]
    return seen.to(device)


def explaining(
    spec: ShallowSpec, parameters: Parameters, gradient: Parameters, seen: Tensor, labels: Tensor, records: int
) -> Tensor:
    """Return the k candidates (k,) whose gradients add up to the deleted one, found by exchanging one for another.

    The indices are on the CPU.

    Args:
        spec: the model.
        parameters: of the model at which the gradient is taken.
        gradient: of the summed losses of the deleted records, by parameter name.
        seen: (c, q) what the first layer saw of the candidates.
        labels: (c,) their classes.
        records: k.
    """
    parts = gradients(spec, parameters, seen[:, None], answers(spec, labels)[:, None])
    products, with_wanted = (parts @ parts.T).cpu(), (parts @ flat(gradient)).cpu()
    chosen: list[int] = []
    for place in [*range(records)] * SWEEPS:
        rest = chosen[:place] + chosen[place + 1 :]
        others = products[:, rest].sum(1)
        gap = products.diagonal() - 2 * with_wanted + 2 * others
        gap[rest] = torch.inf
        chosen = [*rest[:place], int(gap.argmin()), *rest[place:]]
    return torch.tensor(chosen)
