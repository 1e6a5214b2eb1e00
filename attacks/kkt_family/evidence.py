"""What speaks for a candidate beside size and agreement: its own equation, and how an image's gradients are spread.

Restarts also agree on blends of images whose neurons fire alike. A blend gives itself away twice: given the neurons at
which all candidates fire, its pixels do not follow from the weights; and a sum of images has gradients that are spread
more evenly than an image's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.kkt_family.problem import Problem
from victims.equations.adjoint import neuron_norms
from victims.equations.stationarity import CoefficientMap

RIDGE = 1e-3
"""Ridge of the least squares, relative to the median squared length of a candidate's errors."""
SMALLEST = 1e-3
"""Below this the consistency and the evenness count as this."""
EXPONENTS = (0.5, 2.5, -17.0)
"""Those of confidence, consistency and evenness.

They are the weights of a logistic regression of hits on the three logarithms, rounded (.54, 2.58, -17.1), on the 6,368
candidates that `kkt` finds in a twin of `cifar-mlp-500` which was trained on public images
(`tests/benchmarks/selection.py`)."""
COPY = 0.7
"""The cosine in pixels from which a candidate counts as a copy of a surer one, chosen on the same twin."""


@torch.no_grad()
def consistency(problem: Problem, candidates: Tensor, coefficients: CoefficientMap, power: float) -> Tensor:
    """Return how far each candidate of one restart follows from the weights, given the neurons at which all fire.

    W1 = D_1' X is linear in the images once the errors D_1 are known (`victims.equations.network` has the letters).
    Its least-squares solution returns a candidate whose errors no others' make up; one of several candidates that fire
    alike comes back mixed with them. Neurons count by their relative errors, and a small ridge shows what is shared.

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
    gates: list[Tensor] = []

    def relu(before: Tensor) -> Tensor:
        gates.append((before > 0).to(before))
        return before.relu()

    chosen = coefficients(network.forward(inputs, relu))
    errors, _ = network.back_propagate(chosen, lambda layer, error: error * gates[layer])
    norms = neuron_norms(network.weights[0], network.biases[0])
    fired = (errors[0] / norms).double()
    products = fired @ fired.T
    products += RIDGE * products.diagonal().median() * torch.eye(len(fired)).to(products)
    explained = fired @ (network.weights[0] / norms[:, None]).double()
    # on the CPU `lstsq` returns 0 for a candidate that fires nothing; elsewhere it takes matrices of full rank alone
    solved = torch.linalg.lstsq(products.cpu(), explained.cpu()).solution
    scale = space.singular**power
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


def evidence(confidence: Tensor, consistencies: Tensor, images: Tensor) -> Tensor:
    """Return confidence (m,) times consistency (m,) and evenness of images (m, C, H, W), to their exponents: (m,)."""
    factors = (confidence, consistencies, evenness(images))
    powers = [factor.double() ** exponent for factor, exponent in zip(factors, EXPONENTS, strict=True)]
    return torch.stack(powers).prod(0).float()


def copies_last(sure: Tensor, candidates: Tensor, labels: Tensor | None) -> Tensor:
    """Return the confidence with which a list begins that shows each image once: (m,) float32, negative for copies.

    Whoever reads the list from the top meets different images first, each by the candidate that is surest of it; the
    copies follow, in their order. A copy of a copy is none.

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
