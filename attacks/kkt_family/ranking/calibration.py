"""The chance that a candidate shows a training image, as twins have taught it: a logistic regression with products.

What speaks for a candidate does not add up. Restarts that agree speak for it, but not where they agree too well: then
they share a blend. Squares and products of the factors say so; the sum of `attacks.kkt_family.ranking.evidence` cannot.
The factors are the evidence, in part after Oz et al. 2024, and the margin (Haim et al. 2022, eq. 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attacks.kkt_family.problem import Problem
from attacks.kkt_family.ranking.confidence import agreement
from attacks.kkt_family.ranking.evidence import SMALLEST, consensus, evenness
from attacks.kkt_family.search import coordinates_of
from attacks.optimisation.restarts import Restart
from victims.equations.losses import margins

FACTORS = ("size", "agreement", "consistency", "evenness", "evenness of the consensus", "margin")
"""The columns of `factors`."""
FARTHEST = 2.0
"""A margin farther than this from the others', relative to them, counts as this far."""
LIMIT = 4.0
"""Factors farther than this from their mean, in standard deviations, count as this far."""
LOGITS = (
    *(-2.44,),
    *(0.22, 0.48, 1.00, -0.64, -0.78, -0.30),
    *(0.02, 0.03, -0.18, 0.01, -0.05, 0.05),
    *(-0.13, 0.15, 0.23, -0.02, -0.03),
    *(0.43, 0.15, -0.14, 0.03),
    *(0.08, -0.28, 0.12),
    *(-0.06, -0.04),
    *(-0.01,),
)
"""The weights of `products`: of 1, of each factor, and of the products of each with itself and those behind it.

They are a logistic regression of hits, in which all attacks count alike, on the 19,536 candidates that `kkt` finds, by
default and by `--variant graduated`, in two twins of `cifar-mlp-500` which were trained on public images
(`tests/benchmarks/selection.py`)."""


@torch.no_grad()
def factors(
    problem: Problem, kept: Sequence[Restart], labels: Tensor, shape: tuple[int, int, int], power: float
) -> Tensor:
    """Return what speaks for or against each candidate of the restarts, (m, 6), the columns those of `FACTORS`.

    At a KKT point all training images that count have the same margin (Haim et al. 2022, eq. 6), and so the last column
    is how far a candidate's margin is from the median of the positive ones, relative to it; from 1 if none is positive.
    The others are logarithms.

    Args:
        problem: the victim.
        kept: the restarts, with their consistencies.
        labels: (m,) the classes of the candidates, one restart after another.
        shape: (C, H, W) of a candidate.
        power: coordinates along direction k are divided by the singular value S_k to this power.
    """
    candidates, sizes = (torch.cat([getattr(one, name) for one in kept]) for name in ("candidates", "sizes"))
    consistency = torch.cat([one.consistency for one in kept if one.consistency is not None])
    coordinates = coordinates_of(candidates, problem.space, power)
    counts = [len(one.sizes) for one in kept]
    agreed = agreement(coordinates, labels, counts) / max(len(counts) - 1, 1)
    shared = consensus(candidates, labels, len(kept))
    even, even_together = (evenness(images.reshape(-1, *shape)) for images in (candidates, shared))
    size = (sizes * coordinates.norm(dim=1)).clamp(min=torch.finfo(sizes.dtype).tiny)
    logarithms = [size.log()] + [one.clamp(min=SMALLEST).log() for one in (agreed, consistency, even, even_together)]
    outputs = problem.network.forward(candidates, torch.relu)
    own = margins(outputs[:, 0] if outputs.shape[1] == 1 else outputs, labels)
    usual = own[own > 0].median() if bool((own > 0).any()) else torch.ones_like(own[0])
    return torch.stack([*logarithms, (own / usual - 1).abs().clamp(max=FARTHEST)], 1)


def products(columns: Tensor) -> Tensor:
    """Return 1, the standardised factors (m, 6), and their squares and products: (m, 28).

    Factors are standardised over the candidates of the run, so that units and the number of steps do not matter. One
    that is the same for all is 0.
    """
    spread = columns.std(0, unbiased=False)
    standard = ((columns - columns.mean(0)) / torch.where(spread > 0, spread, 1)).clamp(-LIMIT, LIMIT)
    first, second = torch.triu_indices(columns.shape[1], columns.shape[1])
    return torch.cat([torch.ones_like(standard[:, :1]), standard, standard[:, first] * standard[:, second]], 1)


def calibrated(columns: Tensor) -> Tensor:
    """Return the chance (m,) in [0, 1] that each candidate with these factors (m, 6) shows a training image."""
    return (products(columns.double()) @ torch.tensor(LOGITS).to(columns).double()).sigmoid().float()
