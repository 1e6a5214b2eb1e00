"""The training objective of a shallow model, its gradient and its Hessian's products, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.deletion.spec import ShallowSpec

Parameters = dict[str, Tensor]
"""`layers.{l}.weight` and `layers.{l}.bias`: of the hidden layer, if there is one, and of the linear layer on top."""

FOURIER_SEED = 0
"""Draws the random Fourier features, which are public."""


def sizes(spec: ShallowSpec, inputs: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter for records of `inputs` numbers."""
    widths = [spec.units if spec.front == "fourier" else inputs, spec.outputs]
    if spec.front == "hidden":
        widths.insert(1, spec.units)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(len(widths) - 1):
        shapes[f"layers.{layer}.weight"] = (widths[layer + 1], widths[layer])
        shapes[f"layers.{layer}.bias"] = (widths[layer + 1],)
    return shapes


def flat(parameters: Parameters) -> Tensor:
    """Return parameters as one vector (p,)."""
    return torch.cat([value.flatten() for value in parameters.values()])


def named(spec: ShallowSpec, inputs: int, theta: Tensor) -> Parameters:
    """Return a vector (p,) as the parameters that it stands for."""
    shapes = sizes(spec, inputs)
    parts = theta.split([math.prod(shape) for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


@lru_cache(maxsize=8)
def fourier(spec: ShallowSpec, inputs: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the frequencies omega (units, inputs) and the phases b (units,) of random Fourier features, kept."""
    generator = torch.Generator().manual_seed(FOURIER_SEED)
    omega = torch.randn(spec.units, inputs, generator=generator, dtype=torch.float64) / spec.width
    phases = 2 * math.pi * torch.rand(spec.units, generator=generator, dtype=torch.float64)
    return omega.to(device), phases.to(device)


def features(spec: ShallowSpec, images: Tensor) -> Tensor:
    """Return what the first trained layer sees of images (n, C, H, W): (n, q) float64."""
    records = images.flatten(1).double()
    if spec.front != "fourier":
        return records
    omega, phases = fourier(spec, records.shape[1], records.device)
    return math.sqrt(2 / spec.units) * torch.cos(records @ omega.T + phases)


def answers(spec: ShallowSpec, labels: Tensor) -> Tensor:
    """Return labels (n,) as y (n, outputs) float64: one-hot, or the label itself of a regression."""
    return labels[:, None].double() if spec.outputs == 1 else F.one_hot(labels, spec.outputs).double()


def outputs(spec: ShallowSpec, parameters: Parameters, seen: Tensor) -> Tensor:
    """Return f (..., n, outputs) for features (..., n, q)."""
    top, bias = list(parameters.values())[-2:]
    return F.linear(hidden(spec, parameters, seen), top, bias)


def hidden(spec: ShallowSpec, parameters: Parameters, seen: Tensor) -> Tensor:
    """Return what the last layer sees (..., n, h): the features themselves, unless there is a hidden layer."""
    if spec.front != "hidden":
        return seen
    return torch.tanh(F.linear(seen, parameters["layers.0.weight"], parameters["layers.0.bias"]))


def mean(spec: ShallowSpec, predicted: Tensor) -> Tensor:
    """Return what y is compared with for outputs (..., C): the outputs, or the probabilities of a softmax."""
    return predicted if spec.loss == "squared" else predicted.softmax(-1)


def gradients(spec: ShallowSpec, parameters: Parameters, seen: Tensor, wanted: Tensor) -> Tensor:
    """Return the gradient (..., p) of the sum of the losses of n records, by back-propagation written down.

    Args:
        spec: the model.
        parameters: of the model.
        seen: (..., n, q) features of the records, differentiable.
        wanted: (..., n, C) their y.
    """
    top, inner = list(parameters.values())[-2], hidden(spec, parameters, seen)
    error = mean(spec, outputs(spec, parameters, seen)) - wanted
    parts = [error.mT @ inner, error.sum(-2)]
    if spec.front == "hidden":
        back = (error @ top) * (1 - inner.square())
        parts = [back.mT @ seen, back.sum(-2), *parts]
    lead = seen.ndim - 2
    return torch.cat([part.flatten(lead) for part in parts], -1)


def losses(spec: ShallowSpec, predicted: Tensor, wanted: Tensor) -> Tensor:
    """Return the losses (n,) of outputs (n, C) for y (n, C)."""
    if spec.loss == "squared":
        return (predicted - wanted).square().sum(1) / 2
    return predicted.logsumexp(1) - (predicted * wanted).sum(1)


@dataclass(frozen=True)
class Objective:
    """scale * sum of losses + (penalty / 2) ||theta||^2 as a function of theta (p,).

    Attributes:
        spec: the model.
        penalty: lambda.
        inputs: length of a record.
        seen: (n, q) features of the records.
        wanted: (n, C) their y.
        scale: weight of the sum of losses.
    """

    spec: ShallowSpec
    penalty: float
    inputs: int
    seen: Tensor
    wanted: Tensor
    scale: float = 1.0

    @classmethod
    def of(cls, spec: ShallowSpec, penalty: float, images: Tensor, labels: Tensor, scale: float = 1.0) -> Objective:
        """Return the objective on images (n, C, H, W) and their labels (n,)."""
        inputs = images[0].numel()
        return cls(spec, penalty, inputs, features(spec, images), answers(spec, labels), scale)

    def part(self, chosen: Tensor, penalty: float) -> Objective:
        """Return the objective on some of the records: their indices, or a mask (n,)."""
        return Objective(self.spec, penalty, self.inputs, self.seen[chosen], self.wanted[chosen], self.scale)

    def value(self, theta: Tensor) -> Tensor:
        """Return the objective, a scalar."""
        predicted = outputs(self.spec, named(self.spec, self.inputs, theta), self.seen)
        return self.scale * losses(self.spec, predicted, self.wanted).sum() + self.penalty / 2 * theta.square().sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """Return the gradient (p,)."""
        parameters = named(self.spec, self.inputs, theta)
        return self.scale * gradients(self.spec, parameters, self.seen, self.wanted) + self.penalty * theta

    def curvature(self, theta: Tensor, direction: Tensor) -> Tensor:
        """Return the Hessian's product with a direction (p,), by Pearlmutter's R-operator (1994) written down.

        A name that ends in `_r` is the derivative along the direction of what the name before it stands for.
        """
        spec, seen = self.spec, self.seen
        parameters, moved = (named(spec, self.inputs, vector) for vector in (theta, direction))
        (top, _), (top_r, bias_r) = (list(one.values())[-2:] for one in (parameters, moved))
        inner = hidden(spec, parameters, seen)
        slope = 1 - inner.square()
        inner_r = torch.zeros_like(inner)
        if spec.front == "hidden":
            inner_r = slope * F.linear(seen, moved["layers.0.weight"], moved["layers.0.bias"])
        share = mean(spec, outputs(spec, parameters, seen))
        error, error_r = share - self.wanted, inner_r @ top.T + inner @ top_r.T + bias_r
        if spec.loss == "cross-entropy":
            error_r = share * (error_r - (share * error_r).sum(1, keepdim=True))
        parts = [error_r.T @ inner + error.T @ inner_r, error_r.sum(0)]
        if spec.front == "hidden":
            back_r = (error_r @ top + error @ top_r) * slope - 2 * (error @ top) * inner * inner_r
            parts = [back_r.T @ seen, back_r.sum(0), *parts]
        return self.scale * torch.cat([part.flatten() for part in parts]) + self.penalty * direction

    def optimality(self, theta: Tensor) -> float:
        """Return ||gradient|| / (lambda ||theta||): 0 at a stationary point.

        Where the loss is convex, lambda is a lower bound on the Hessian's eigenvalues, so this figure bounds the
        relative distance of theta from the minimum.
        """
        return float(self.gradient(theta).norm() / (self.penalty * theta.norm()).clamp_min(1e-300))
