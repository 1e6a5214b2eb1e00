"""The equation of the difference: what was added to layer 1 is a sum of gradients on the way.

With theta_t the network on its way from the start to the end of the training,

    W1 - c W1(0) = sum_i (sum_t D_ti) x_i',    b1 - c b1(0) = sum_i sum_t D_ti,

where D_ti is the error that is back-propagated to layer 1 for image i, from coefficients c_ti on the outputs; and
for layer 2, with the activations of layer 1 in the place of the images. It is exact for gradient descent where
theta_t is where the steps were taken; the attack knows the two ends and takes points between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attacks.kkt_family.ranking.evidence import followed
from attacks.known_start.no_image import STILL
from victims.equations.adjoint import neuron_norms
from victims.equations.gates import smooth_gate_relu
from victims.equations.network import Network
from victims.ordinary import LEAST_COSINE
from victims.ordinary.difference import Difference, difference


@dataclass(frozen=True)
class Equation:
    """The difference of layer 1 on the coordinates of its span, and the networks on the way.

    Attributes:
        found: what the two ends show.
        basis: (d, r) orthonormal, where images are searched.
        singular: (r,) singular values of the difference along it.
        weight: (h, r) W1 - c W1(0) on the basis.
        bias: (h,) b1 - c b1(0); None where layer 1 has no bias.
        second: (h_2, h) W2 - c W2(0).
        networks: the network at each point of the way, on the basis.
        ends: the networks at the start and at the end, on pixels.
    """

    found: Difference
    basis: Tensor
    singular: Tensor
    weight: Tensor
    bias: Tensor | None
    second: Tensor
    networks: tuple[Network, ...]
    ends: tuple[Network, Network]

    @classmethod
    def of(cls, start: Network, end: Network, found: Difference, rank: int, points: Sequence[float]) -> Equation:
        """Return the equation of a training between two networks.

        Args:
            start: the network at the beginning.
            end: the released network.
            found: the difference of their first layers.
            rank: the number of directions of the difference that are searched.
            points: shares of the way from start to end, in [0, 1].
        """
        like = end.weights[0]
        basis = found.basis(rank).to(like)
        biases = start.biases[0], end.biases[0]
        added = None if biases[0] is None or biases[1] is None else biases[1] - found.decay * biases[0]
        return cls(
            found,
            basis,
            found.singular[:rank].to(like),
            (like - found.decay * start.weights[0]) @ basis,
            added,
            end.weights[1] - found.decay * start.weights[1],
            tuple(interpolated(start, end, point).on_coordinates(basis) for point in points),
            (start, end),
        )

    @property
    def rank(self) -> int:
        """The number of directions, r."""
        return self.basis.shape[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an input."""
        shape = self.ends[1].input_shape
        assert shape is not None
        return shape

    @cached_property
    def error_basis(self) -> Tensor:
        """(h, r) orthonormal: the span of the columns of the difference, where the sum of every image's errors lies."""
        columns: Tensor = torch.linalg.qr(self.weight.double()).Q
        return columns.to(self.weight).contiguous()

    def terms(self, inputs: Tensor, coefficients: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
        """Return what candidates make up, with smooth gates: sum_t D_ti (m, h), and of layer 2 the whole sum (h_2, h).

        Args:
            inputs: (m, r).
            coefficients: (T, m, C) on the outputs, at each point.
            alpha: sharpness of the gates.
        """
        pairs = zip(self.networks, coefficients, strict=True)
        passed = [back_propagated(network, inputs, c, alpha) for network, c in pairs]
        seconds = [errors[1].T @ activations for errors, activations in passed]
        return torch.stack([errors[0] for errors, _ in passed]).sum(0), torch.stack(seconds).sum(0)

    def second_unexplained(self, left: Tensor) -> Tensor | float:
        """Return the squares of what is left of layer 2's difference, relative to it; 0 where that layer did not move.

        Args:
            left: (h_2, h).
        """
        return left.square().sum() / self.second.square().sum() if self.second_moved else 0.0

    @cached_property
    def second_moved(self) -> bool:
        """Whether layer 2 was trained."""
        start, end = self.ends
        return not torch.equal(start.weights[1], end.weights[1])

    def consistency(self, inputs: Tensor, errors: Tensor) -> Tensor:
        """Return how far each candidate follows from the difference, (m,), given the errors of all candidates.

        See `attacks.kkt_family.ranking.evidence.consistency`; coordinates are compared as the confidence of that family
        does.

        Args:
            inputs: (m, r).
            errors: (m, h) summed over the points.
        """
        return followed(inputs, errors, self.weight, neuron_norms(self.weight, self.bias), self.singular.sqrt())


def checked_difference(start: Network, end: Network) -> Difference:
    """Return what the training added to layer 1.

    Raises:
        ValueError: the start is of another shape, is the released network itself, or is not where its training began.
    """
    shapes = [[tuple(weight.shape) for weight in network.weights] for network in (start, end)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the start has weights {shapes[0]}, the released network {shapes[1]}")
    if all(torch.equal(*pair) for pair in zip(start.weights, end.weights, strict=True)):
        raise ValueError(STILL)
    found = difference(end.weights[0], start.weights[0])
    if not found.shows_images and found.cosine < LEAST_COSINE:
        largest, middle, least = (f"{float(found.singular[at]):.3g}" for at in (0, len(found.singular) // 2, -1))
        raise ValueError(
            f"the start is wrong: W1 - {found.decay:.3g} W1(0) has full rank {len(found.singular)} (singular values "
            f"{largest}, {middle} in the middle, {least} at the end), and outside of its first directions the cosine "
            f"of W1 and W1(0) is {found.cosine:.3f}"
        )
    return found


def interpolated(start: Network, end: Network, share: float) -> Network:
    """Return the network at a share in [0, 1] of the straight way from start to end."""
    weights = tuple(torch.lerp(*pair, share) for pair in zip(start.weights, end.weights, strict=True))
    pairs = zip(start.biases, end.biases, strict=True)
    biases = tuple(None if a is None or b is None else torch.lerp(a, b, share) for a, b in pairs)
    return Network(weights, biases)


def back_propagated(
    network: Network, inputs: Tensor, coefficients: Tensor, alpha: float
) -> tuple[list[Tensor], Tensor]:
    """Return gradients (..., m, h_l) of sum_j c_ij Phi_j(x_i) by pre-activations, and layer 1's activations (m, h_1).

    Args:
        network: fully connected, with a hidden layer.
        inputs: (m, r).
        coefficients: (..., m, C).
        alpha: sharpness of the gates sigmoid(alpha z).
    """
    gates, activations = list[Tensor](), list[Tensor]()

    def smooth(pre_activation: Tensor) -> Tensor:
        gates.append(torch.sigmoid(alpha * pre_activation))
        activations.append(smooth_gate_relu(pre_activation, alpha))
        return activations[-1]

    network.forward(inputs, smooth)
    errors, _ = network.back_propagate(coefficients, lambda layer, ungated: ungated * gates[layer])
    return errors, activations[0]
