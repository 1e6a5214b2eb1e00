"""Which candidates of a search are images, by the spans of `victims.equations.spans`.

A search makes leaving the spans, and many candidates, costly, so that wrong candidates keep to the spans, too. Once
candidates are free to leave, only one whose errors and activations are an image's has no reason to leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.kkt_family.problem import Problem
from victims.equations.spans import share_outside

COPY = 0.55
"""The cosine of coordinates from which a candidate counts as a copy of a better one."""
FARTHEST = 1.5
"""A candidate that stays leaves the spans by at most this many times as much as the median of the n best."""


def outside(problem: Problem, activations: Sequence[Tensor], errors: Sequence[Tensor]) -> Tensor:
    """Return how far each candidate leaves the spans that the weights show: (m,), from 0 to 2.

    It is the share of the energy of its back-propagated error D_1(x_i) outside of the columns of W_1, plus the share of
    the energy of its activations A_1(x_i) outside of the rows of W_2; a span that is not shown adds 0.

    Args:
        problem: the victim.
        activations: A_1 (m, h_1) to A_{L-1}, from `Problem.activations_and_errors`.
        errors: D_1 (m, h_1) to D_L, likewise.
    """
    spans, left = problem.spans(1.0, 1.0), torch.zeros_like(errors[0][:, 0])
    for span, layers in ((spans.errors, errors), (spans.activations, activations)):
        if span is not None:
            left = left + share_outside(layers[0] @ span.basis, layers[0])
    return left


def staying(left: Tensor, coordinates: Tensor, images: int) -> Tensor:
    """Return the indices of the candidates that stay, the best first: at most one for each image, and no copies.

    Args:
        left: (m,) how far each leaves the spans.
        coordinates: (m, r), in which images are unlike one another.
        images: the number of training images, as far as W_1 shows it.
    """
    directions = F.normalize(coordinates, dim=1)
    best: list[int] = []
    for index in left.argsort(stable=True).tolist():
        if len(best) == images:
            break
        if not best or float((directions[best] @ directions[index]).max()) < COPY:
            best.append(index)
    chosen = torch.tensor(best, device=left.device)
    return chosen[left[chosen] <= FARTHEST * left[chosen].median()]
