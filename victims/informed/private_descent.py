"""Differentially private gradient descent: the clipped gradients of a batch, and noise, at every step.

The training is that of Abadi et al. 2016; Hayes et al. 2023 attack its trace, the noisy sums of clipped gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.devices.upload import uploaded
from victims.informed.networks import ACTIVATIONS, CHUNK, LabelledImages, Parameters, forward, initial
from victims.informed.privacy import noise_multiplier
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

EXAMPLES = 100
"""Records whose gradients by a convolutional network are held at once."""


@dataclass(frozen=True)
class Trained:
    """Networks that were trained privately.

    Attributes:
        parameters: (k, ...) by name.
        trace: (k, epochs, ...) by name, on the CPU: of each step the sum of the batch's clipped gradients and the
            noise; empty if it was not kept.
    """

    parameters: Parameters
    trace: Parameters


class PrivateDescent:
    """The algorithm A with privacy, on one fixed set (Abadi et al. 2016).

    Every step sums the clipped gradients of a batch, adds noise N(0, deviation^2), and divides by the mean number of
    records in a batch. A batch holds all records, or each with the probability q (Poisson sampling); which known
    records a batch holds is public.

    Args:
        architecture: the architecture of the networks.
        training: the algorithm; it must be private.
        images: (n, C, H, W) of the fixed set, on the device of training.
        labels: (n,) its classes.
    """

    def __init__(
        self, architecture: DenseSpec | SmallCNNSpec, training: Descent, images: Tensor, labels: Tensor
    ) -> None:
        assert training.privacy is not None
        self.training, self.clip, self.rate = training, training.privacy.clip, training.sampling_rate
        self.images, self.labels = images, labels
        self.deviation = self.clip * noise_multiplier(training.privacy, training.epochs)
        self.divisor = (len(labels) + 1) * (self.rate or 1)
        self.sampled = None if self.rate is None else _sampled(training, self.rate, len(labels))
        summed = partial(clipped_sum, architecture, self.clip)
        self._shared, self.own = torch.vmap(summed, in_dims=(0, None, None)), torch.vmap(summed)

    def known(self, parameters: Parameters, step: int) -> Parameters:
        """Return the sum of the clipped gradients of the known records of a batch.

        Args:
            parameters: of k networks, (k, ...) by name.
            step: counted from 0.

        Returns:
            (k, ...) by name.
        """
        if self.sampled is None:
            summed: Parameters = self._shared(parameters, self.images, self.labels)
            return summed
        chosen = uploaded(self.sampled[step].nonzero()[:, 0], self.images.device)
        if not len(chosen):
            return {name: torch.zeros_like(value) for name, value in parameters.items()}
        few: Parameters = self._shared(parameters, self.images[chosen], self.labels[chosen])
        return few

    def advance(
        self, parameters: Parameters, velocity: Parameters, summed: Parameters
    ) -> tuple[Parameters, Parameters]:
        """Return parameters and velocity after a step with a noisy sum of gradients; all are (k, ...) by name."""
        after = {name: self.training.momentum * velocity[name] + summed[name] / self.divisor for name in parameters}
        return {name: value - self.training.lr * after[name] for name, value in parameters.items()}, after

    def takes_part(self, generators: Sequence[torch.Generator]) -> Tensor | None:
        """Draw whether each network's own record is in its batch, (k,) in {0, 1}; None where all records are."""
        if self.rate is None:
            return None
        drawn = torch.stack([torch.rand((), generator=one) for one in generators])
        return uploaded((drawn < self.rate).to(self.images.dtype), self.images.device)


def train_privately(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    fixed: LabelledImages,
    extra: LabelledImages,
    start: Parameters | None,
    seeds: Sequence[int],
    device: torch.device,
    report: Callable[[int, int], None],
    *,
    traced: bool = False,
) -> Trained:
    """Train k networks, each with noise of its own seed.

    Args:
        architecture: as for `training.train_many`, likewise the others.
        training: the algorithm A; it must be private.
        fixed: the n records that they share.
        extra: the k records that tell them apart.
        start: the initial network that they share; None if each draws its own.
        seeds: (k,) for each network the seed of its own randomness.
        device: the device to compute on.
        report: called with the number of networks that are trained, and the number of all.
        traced: whether to keep the trace.
    """
    problem = PrivateDescent(architecture, training, *(part.to(device) for part in fixed))
    size = CHUNK if isinstance(architecture, DenseSpec) else 1
    chunks: list[Trained] = []
    for first in range(0, len(seeds), size):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds[first : first + size]]
        shape = fixed[0].shape[1:]
        starts = [initial(architecture, shape, own) if start is None else start for own in generators]
        parameters = {name: torch.stack([network[name] for network in starts]).to(device) for name in starts[0]}
        secrets = extra[0][first : first + size, None].to(device), extra[1][first : first + size, None].to(device)
        chunks.append(_descend(problem, parameters, secrets, generators, traced))
        report(first + len(generators), len(seeds))
    return Trained(_joined([chunk.parameters for chunk in chunks]), _joined([chunk.trace for chunk in chunks]))


def _descend(
    problem: PrivateDescent,
    parameters: Parameters,
    secrets: LabelledImages,
    own: Sequence[torch.Generator],
    traced: bool,
) -> Trained:
    """Train k networks from `parameters` (k, ...), each with a secret record (1, C, H, W) and randomness of its own."""
    velocity = {name: torch.zeros_like(value) for name, value in parameters.items()}
    kept: list[Parameters] = []
    for step in range(problem.training.epochs):
        takes_part = problem.takes_part(own)
        known, secret = problem.known(parameters, step), problem.own(parameters, *secrets)
        summed: Parameters = {}
        for name, value in parameters.items():
            drawn = torch.stack([torch.randn(value.shape[1:], generator=one) for one in own])
            noise = uploaded(drawn, value.device)
            part = secret[name] if takes_part is None else torch.einsum("k,k...->k...", takes_part, secret[name])
            summed[name] = known[name] + part + problem.deviation * noise
        if traced:
            kept.append({name: value.cpu() for name, value in summed.items()})
        parameters, velocity = problem.advance(parameters, velocity, summed)
    return Trained(parameters, {name: torch.stack([one[name] for one in kept], 1) for name in parameters if kept})


def _joined(parts: Sequence[Parameters]) -> Parameters:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _sampled(training: Descent, rate: float, known: int) -> Tensor:
    """Return which known records a step's batch has, (epochs, known) bool on the CPU, drawn from the public seed."""
    assert training.order_seed is not None
    generator = torch.Generator().manual_seed(training.order_seed)
    return torch.rand(training.epochs, known, generator=generator) < rate


def clipped_gradients(
    architecture: DenseSpec | SmallCNNSpec, clip: float, parameters: Parameters, images: Tensor, labels: Tensor
) -> Parameters:
    """Return each record's gradient, scaled down to a norm of at most `clip`, (n, ...) by name.

    Args:
        architecture: the network.
        clip: C.
        parameters: the parameters of one network.
        images: (n, C, H, W).
        labels: (n,).
    """
    each, scale = _gradients(architecture, clip, parameters, images, labels)
    return {name: torch.einsum("n,n...->n...", scale, value) for name, value in each.items()}


def clipped_sum(
    architecture: DenseSpec | SmallCNNSpec, clip: float, parameters: Parameters, images: Tensor, labels: Tensor
) -> Parameters:
    """Return the sum of the records' clipped gradients, by name; arguments as above."""
    if isinstance(architecture, DenseSpec):
        return _clipped_sum_dense(architecture, clip, parameters, images, labels)
    each, scale = _gradients(architecture, clip, parameters, images, labels)
    return {name: torch.einsum("n,n...->...", scale, value) for name, value in each.items()}


def _gradients(
    architecture: DenseSpec | SmallCNNSpec, clip: float, parameters: Parameters, images: Tensor, labels: Tensor
) -> tuple[Parameters, Tensor]:
    """Return each record's gradient, (n, ...) by name, and the factor (n,) that clips it."""

    def loss(weights: Parameters, image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(forward(architecture, weights, image[None]), label[None])

    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), chunk_size=EXAMPLES)(parameters, images, labels)
    return each, _scale(clip, sum(value.flatten(1).square().sum(1) for value in each.values()))


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
