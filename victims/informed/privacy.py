"""Differential privacy: how much noise, and full-batch gradient descent with clipped gradients and noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from victims.errors import UserError
from victims.informed.networks import ACTIVATIONS, CHUNK, Parameters, forward, initial
from victims.informed.spec import (
    DenseSpec,
    Descent,
    GLMArchitecture,
    GLMSpec,
    InformedSpec,
    Newton,
    OutputPrivacy,
    SmallCNNSpec,
)
from victims.recipes import Privacy

Points = tuple[Tensor, Tensor]
EXAMPLES = 100
"""Records whose gradients by a convolutional network are held at once."""


def noise_multiplier(privacy: Privacy | OutputPrivacy, steps: int = 1) -> float:
    """Return the standard deviation, relative to the sensitivity, of the noise of each of some steps.

    Steps over all records compose to one Gaussian mechanism of sqrt(steps) times less noise, whose exact (epsilon,
    delta) is Balle and Wang's (2018).

    Raises:
        UserError: dp-accounting is not installed.
    """
    try:
        from dp_accounting import get_sigma_gaussian
    except ImportError:
        raise UserError("private victims need dp-accounting; pip install 'reconstruction-bench[privacy]'") from None
    with np.errstate(divide="ignore"):  # its search passes through noise of zero
        return float(get_sigma_gaussian(privacy.epsilon, privacy.delta)) * math.sqrt(steps)


def gaussian_privacy(spec: InformedSpec | GLMSpec) -> float | None:
    """Return mu such that a victim's training is mu-Gaussian differentially private; None if it is not private."""
    privacy = spec.training.privacy
    return None if privacy is None else 1 / noise_multiplier(privacy)


def output_deviation(architecture: GLMArchitecture, training: Newton, count: int, dimension: int) -> float:
    """Return the standard deviation of the noise on released parameters, 0 without privacy; arguments as below."""
    privacy = training.privacy
    if privacy is None:
        return 0.0
    reach = sensitivity(architecture, training.penalty(count), privacy, count, dimension)
    return reach * noise_multiplier(privacy)


def sensitivity(
    architecture: GLMArchitecture, penalty: float, privacy: OutputPrivacy, count: int, dimension: int
) -> float:
    """Return how far one record can move the optimum, whatever the others are.

    The objective is mu-strongly convex, so a record of gradient at most g moves the optimum by at most g / mu. With
    features in [0, 1] g is at most R = sqrt(d + 1), with several classes sqrt(2) R. A linear model's gradient is not
    bounded, but its optimum is, by sqrt(count) Y / (2 sqrt(mu)): the record's residual is then at most Y + R times
    that, and it moves the optimum by its residual times the largest a / (mu + a^2) for a <= R.

    Args:
        architecture: family and intercept; the regulariser must include the intercept.
        penalty: mu.
        privacy: holds Y, the bound on |y|.
        count: the number of records.
        dimension: d.
    """
    radius = math.sqrt(dimension + (architecture.intercept != "none"))
    if architecture.family == "linear":
        largest = privacy.label_bound * (1 + radius * math.sqrt(count) / (2 * math.sqrt(penalty)))
        reach = min(radius, math.sqrt(penalty))
        return largest * reach / (penalty + reach**2)
    return radius * (math.sqrt(2) if architecture.family == "multinomial" else 1) / penalty


def train_privately(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    fixed: Points,
    extra: Points,
    start: Parameters | None,
    seeds: Sequence[int],
    device: torch.device,
    report: Callable[[int, int], None],
) -> Parameters:
    """Train k networks by differentially private gradient descent; arguments as for `training.train_many`.

    Every step adds the clipped gradients of all records, noise of each network's own seed, and divides by the number of
    records (Abadi et al. 2016, with all records in every batch).
    """
    privacy = training.privacy
    assert privacy is not None
    deviation = privacy.clip * noise_multiplier(privacy, training.epochs)
    images, labels = (part.to(device) for part in fixed)
    shared = torch.vmap(partial(clipped_sum, architecture, privacy.clip), in_dims=(0, None, None))
    own = torch.vmap(partial(clipped_sum, architecture, privacy.clip))
    size = CHUNK if isinstance(architecture, DenseSpec) else 1
    trained: list[Parameters] = []
    for first in range(0, len(seeds), size):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds[first : first + size]]
        starts = [initial(architecture, images.shape[1:], own) if start is None else start for own in generators]
        parameters = {name: torch.stack([network[name] for network in starts]).to(device) for name in starts[0]}
        secrets = [part[first : first + size, None].to(device) for part in extra]
        velocity = {name: torch.zeros_like(value) for name, value in parameters.items()}
        for _ in range(training.epochs):
            known, secret = shared(parameters, images, labels), own(parameters, *secrets)
            for name, value in parameters.items():
                noise = torch.stack([torch.randn(value.shape[1:], generator=generator) for generator in generators])
                gradient = (known[name] + secret[name] + deviation * noise.to(device)) / (len(labels) + 1)
                velocity[name] = training.momentum * velocity[name] + gradient
            parameters = {name: value - training.lr * velocity[name] for name, value in parameters.items()}
        trained.append(parameters)
        report(first + len(generators), len(seeds))
    return {name: torch.cat([part[name] for part in trained]) for name in trained[0]}


def clipped_sum(
    architecture: DenseSpec | SmallCNNSpec, clip: float, parameters: Parameters, images: Tensor, labels: Tensor
) -> Parameters:
    """Return the sum over records of the gradient of each one's loss, scaled down to a norm of at most `clip`.

    Args:
        architecture: the network.
        clip: C.
        parameters: the parameters of one network.
        images: (n, C, H, W).
        labels: (n,).
    """
    if isinstance(architecture, DenseSpec):
        return _clipped_sum_dense(architecture, clip, parameters, images, labels)

    def loss(weights: Parameters, image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(forward(architecture, weights, image[None]), label[None])

    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), chunk_size=EXAMPLES)(parameters, images, labels)
    scale = _scale(clip, sum(value.flatten(1).square().sum(1) for value in each.values()))
    return {name: torch.einsum("n,n...->...", scale, value) for name, value in each.items()}


def _clipped_sum_dense(
    architecture: DenseSpec, clip: float, parameters: Parameters, images: Tensor, labels: Tensor
) -> Parameters:
    """Return the same without holding any record's gradient.

    A record's gradient by a layer's weight is the outer product of the gradient by the layer's output and its input,
    so its norm is the product of theirs, and the scaled sum is one matrix product (Goodfellow 2015).
    """
    depth = len(parameters) // 2
    weights = [parameters[f"layers.{layer}.weight"] for layer in range(depth)]
    biases = [parameters[f"layers.{layer}.bias"] for layer in range(depth)]

    def loss(shifts: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        inputs = [images.flatten(1)]
        for layer in range(depth):
            output = F.linear(inputs[-1], weights[layer], biases[layer]) + shifts[layer]
            inputs.append(output if layer == depth - 1 else ACTIVATIONS[architecture.activation](output))
        return F.cross_entropy(inputs[-1], labels, reduction="sum"), inputs[:-1]

    zeros = [images.new_zeros(len(labels), len(bias)) for bias in biases]
    deltas, inputs = torch.func.grad(loss, has_aux=True)(zeros)
    pairs = list(zip(deltas, inputs, strict=True))
    scale = _scale(clip, sum(delta.square().sum(1) * (entered.square().sum(1) + 1) for delta, entered in pairs))
    summed: Parameters = {}
    for layer, (delta, entered) in enumerate(pairs):
        scaled = delta * scale[:, None]
        summed |= {f"layers.{layer}.weight": scaled.T @ entered, f"layers.{layer}.bias": scaled.sum(0)}
    return summed


def _scale(clip: float, squares: Tensor | int) -> Tensor:
    """Return min(1, clip / norm) for squared norms (n,)."""
    return (clip * torch.as_tensor(squares).clamp_min(1e-24).rsqrt()).clamp(max=1)
