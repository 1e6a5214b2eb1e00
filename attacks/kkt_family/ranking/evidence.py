"""What speaks for a candidate beside size and agreement: its own equation, and how an image's gradients are spread.

Restarts also agree on blends of images whose neurons fire alike. A blend gives itself away twice: given the neurons at
which all candidates fire, its pixels do not follow from the weights; and a sum of images has gradients that are spread
more evenly than an image's. The mean of the restarts' matches of one image is as sharp as each match; the matches of a
blend differ in detail, and their mean is more even still. Oz et al. 2024 cluster the candidates of many restarts and
take a cluster's mean for the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.kkt_family.problem import Problem
from attacks.kkt_family.ranking.confidence import CHUNK
from attacks.optimisation.restarts import Restart
from victims.equations.adjoint import neuron_norms
from victims.equations.stationarity import CoefficientMap

RIDGE = 1e-3
"""Ridge of the least squares, relative to the median squared length of a candidate's errors."""
SMALLEST = 1e-3
"""Below this the consistency and the evenness count as this."""
EXPONENTS = (0.8, 0.6, -6.5, -9.5)
"""The exponents of confidence, consistency, evenness of the candidate, and evenness of its consensus.

They are the weights of a logistic regression of hits on the four logarithms, rounded (.79, .61, -6.47, -9.41), on the
13,072 candidates that `kkt` finds, by default and by `--variant graduated` with eight restarts, in a twin of
`cifar-mlp-500` which was trained on public images. `tests/benchmarks/selection.py` takes two twins and four restarts of
`graduated`, and prints .92, .51, -7.21 and -10.94, which rank the default's candidates as well (.29)."""
COPY = 0.7
"""The cosine in pixels from which a candidate counts as a copy of a surer one, chosen on the same twin."""


@torch.no_grad()
def consistency(problem: Problem, candidates: Tensor, coefficients: CoefficientMap, power: float) -> Tensor:
    """Return how far each candidate of one restart follows from the weights, given the neurons at which all fire.

    W1 = D_1' X is linear in the images once the errors D_1 are known (`victims.equations.network` has the letters). The
    least-squares solution is the candidate itself if its errors are independent of all others'; of candidates that fire
    alike it is a mixture. Neurons count by their relative errors, and a small ridge shows what is shared.

    Args:
        problem: the victim.
        candidates: (m, d), of one restart.
        coefficients: maps their outputs (m, C) to c (m, C).
        power: coordinates along direction k are divided by the singular value S_k to this power.

    Returns:
        (m,) the cosine between each candidate and its solution, at least `SMALLEST`.
    """
    network, space = problem.connected, problem.data_subspace
    inputs = candidates if problem.features is None else problem.network.features(candidates)
    inputs = inputs @ space.basis
    _, errors = problem.activations_and_errors(inputs, coefficients)
    norms = neuron_norms(network.weights[0], network.biases[0])
    return followed(inputs, errors[0], network.weights[0], norms, space.singular**power)


@torch.no_grad()
def followed(inputs: Tensor, errors: Tensor, weight: Tensor, norms: Tensor, scale: Tensor) -> Tensor:
    """Return the cosine between each candidate and the least-squares solution of W = D' X for X, given D: (m,).

    Args:
        inputs: (m, r) the candidates X.
        errors: (m, h) D.
        weight: (h, r) W.
        norms: (h,) by which each neuron's errors and weights are divided.
        scale: (r,) by which coordinates are divided before they are compared.

    Returns:
        (m,) cosines, at least `SMALLEST`, which is also the value for a candidate that fires nothing.
    """
    fired = (errors / norms).double()
    products = fired @ fired.T
    products += RIDGE * products.diagonal().median() * torch.eye(len(fired)).to(products)
    explained = fired @ (weight / norms[:, None]).double()
    # on the CPU `lstsq` returns 0 for a candidate that fires nothing; elsewhere it takes matrices of full rank alone
    solved = torch.linalg.lstsq(products.cpu(), explained.cpu()).solution
    cosines = F.cosine_similarity(solved.to(inputs) / scale, inputs / scale, dim=1)
    return cosines.nan_to_num(nan=0.0).clamp(min=SMALLEST)


def evenness(images: Tensor) -> Tensor:
    """Return mean |g| / root mean g^2 of the gradients g of each image (m, C, H, W), its channels averaged: (m,).

    It is .8 for Gaussian noise and less the more an image is made of edges and plain surfaces (Krishnan, Tay, Fergus
    2011, *Blind deconvolution using a normalized sparsity measure*, eq. 1). 1 for rows of a table, which have no
    gradients, and for an image without any.
    """
    if images.shape[2] == 1:
        return torch.ones(len(images)).to(images)
    grey = images.mean(1)
    across, down = grey.diff(dim=2).flatten(1), grey.diff(dim=1).flatten(1)
    gradients = torch.cat([across, down], 1)
    spread = gradients.abs().mean(1) / gradients.square().mean(1).sqrt()
    return spread.nan_to_num(nan=1.0).clamp(min=SMALLEST)


def consensus(candidates: Tensor, labels: Tensor | None, restarts: int) -> Tensor:
    """Return the mean direction (m, d) of each candidate and its most similar one of every other restart, by cosine.

    Args:
        candidates: (m, d), the restarts one after another, equally many each.
        labels: (m,) the classes of the candidates, None if they have none; matches are of the same class.
        restarts: their number; one alone is its own consensus.
    """
    directions = F.normalize(candidates, dim=1)
    classes = torch.zeros(len(candidates), device=candidates.device) if labels is None else labels
    summed = torch.zeros_like(directions)
    for found, given in zip(directions.chunk(restarts), classes.chunk(restarts), strict=True):
        parts = zip(directions.split(CHUNK), classes.split(CHUNK), strict=True)
        alike = [(part @ found.T).masked_fill(own[:, None] != given, -2).argmax(1) for part, own in parts]
        summed += found[torch.cat(alike)]
    return summed / restarts


def evidence(
    confidence: Tensor, consistencies: Tensor, images: Tensor, labels: Tensor | None = None, restarts: int = 1
) -> Tensor:
    """Return the product (m,) of what speaks for each candidate, to the `EXPONENTS`.

    Args:
        confidence: (m,) >= 0.
        consistencies: (m,) from `consistency` or `followed`.
        images: (m, C, H, W) the candidates, the restarts one after another.
        labels: (m,) their classes, None if they have none.
        restarts: their number.
    """
    agreed = consensus(images.flatten(1), labels, restarts).view_as(images)
    factors = (confidence, consistencies, evenness(images), evenness(agreed))
    powers = [factor.double() ** exponent for factor, exponent in zip(factors, EXPONENTS, strict=True)]
    return torch.stack(powers).prod(0).float()


def ranked(
    confidence: Tensor, kept: Sequence[Restart], images: Tensor, labels: Tensor | None, *, copies_count: bool
) -> Tensor:
    """Return the confidence (m,) in all candidates of the restarts, with the evidence if their ranking asks for it.

    Args:
        confidence: (m,) >= 0, the confidence without the evidence.
        kept: the restarts; if none has a consistency, the confidence is returned as it is.
        images: (m, C, H, W) their candidates, one restart after another.
        labels: (m,) the classes of the candidates, None if they have none.
        copies_count: whether copies of a surer candidate keep their place.
    """
    consistencies = [one.consistency for one in kept if one.consistency is not None]
    if not consistencies:
        return confidence
    sure = evidence(confidence, torch.cat(consistencies), images, labels, len(kept))
    return sure if copies_count else copies_last(sure, images.flatten(1), labels)


def copies_last(sure: Tensor, candidates: Tensor, labels: Tensor | None) -> Tensor:
    """Return a confidence (m,) that puts copies of a surer candidate behind all others, with negative values.

    A list in the order of this confidence begins with different images, each shown by its surest candidate; the copies
    follow, in their old order. A candidate that resembles only copies is not a copy.

    Args:
        sure: (m,) > 0, the confidence in each candidate.
        candidates: (m, d).
        labels: (m,) the classes of the candidates, None if they have none; a copy is of the same class.
    """
    directions = F.normalize(candidates, dim=1)
    classes = torch.zeros(len(sure), device=sure.device) if labels is None else labels
    copy = torch.zeros(len(sure), dtype=torch.bool, device=sure.device)
    for first in sure.argsort(descending=True, stable=True).tolist():
        if not copy[first]:
            alike = (directions @ directions[first] > COPY) & (classes == classes[first])
            alike[first] = False
            copy |= alike & (sure <= sure[first])
    return torch.where(copy, sure - 2 * sure.max(), sure)
