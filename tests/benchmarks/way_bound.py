"""What the equation of `kkt-delta` leaves unexplained at the truth: the training images with their best coefficients.

    python tests/benchmarks/way_bound.py DIR

prints ||W1 - c W1(0) - sum_i D_i x_i'|| / ||W1 - c W1(0)||, biases beside the weights, for points on the straight way
and for the snapshots that a training released. What a search leaves below that, it has made up.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from trained import trained

from attacks.known_start.equation import Equation, checked_difference
from victims.equations.network import Network

VICTIMS = ("cifar-mlp-100-c10-finetuned", "cifar-mlp-300-c10-finetuned")
SNAPSHOTS = ("cifar-mlp-100-c10-sgd-snapshots", "cifar-mlp-300-c10-sgd-snapshots")
STRAIGHT = ((0.5,), (0.1, 0.5, 0.9))
ITERATIONS = 150


def bound(equation: Equation, inputs: Tensor) -> float:
    """The relative residual of layer 1 at inputs (n, r) with the coefficients (T, n, C) that leave least of it.

    The coefficients solve a linear least-squares problem, for gates are open or shut; conjugate gradients solve it.
    """
    passed = []
    for network in equation.networks:
        passed.append((network, gates_of(network, inputs)))

    def made(coefficients: Tensor) -> tuple[Tensor, Tensor]:
        errors = torch.stack(
            [
                network.back_propagate(one, partial(through, gates))[0][0]
                for (network, gates), one in zip(passed, coefficients, strict=True)
            ]
        ).sum(0)
        return errors.T @ inputs, errors.sum(0)

    bias = equation.bias if equation.bias is not None else torch.zeros(len(equation.weight))
    shape = (len(passed), len(inputs), len(equation.networks[0].weights[-1]))
    adjoint = torch.func.vjp(made, torch.zeros(shape))[1]
    left: tuple[Tensor, ...] = (equation.weight, bias)
    whole = sum(float(part.square().sum()) for part in left)
    (gradient,) = adjoint(left)
    direction, size = gradient, gradient.square().sum()
    for _ in range(ITERATIONS):
        step = made(direction)
        length = size / sum(part.square().sum() for part in step)
        left = tuple(part - length * moved for part, moved in zip(left, step, strict=True))
        (gradient,) = adjoint(left)
        before, size = size, gradient.square().sum()
        direction = gradient + (size / before) * direction
    return math.sqrt(sum(float(part.square().sum()) for part in left) / whole)


def gates_of(network: Network, inputs: Tensor) -> list[Tensor]:
    """Return which units each hidden layer opens for inputs (n, r), the first layer first."""
    gates: list[Tensor] = []

    def kept(ungated: Tensor) -> Tensor:
        gates.append((ungated > 0).to(ungated))
        return ungated.relu()

    network.forward(inputs, kept)
    return gates


def through(gates: list[Tensor], layer: int, ungated: Tensor) -> Tensor:
    """Return the errors that the gates of a layer let pass."""
    return ungated * gates[layer]


def main() -> None:
    """Print the bounds."""
    for name in (*VICTIMS, *SNAPSHOTS):
        victim = trained(name, Path(sys.argv[1]))
        assert victim.start is not None
        shape = victim.split.inputs.shape[1:]
        start, end = (Network.of(state, shape) for state in (victim.start, victim.model.state_dict()))
        found = checked_difference(start, end)
        inputs = torch.from_numpy(victim.split.inputs).flatten(1)
        equations = {str(points): Equation.of(start, end, found, found.rank, points) for points in STRAIGHT}
        straight = equations[str(STRAIGHT[0])]
        if victim.earlier:
            true = tuple(Network.of(state, shape).on_coordinates(straight.basis) for state in victim.earlier)
            equations["snapshots"] = replace(straight, networks=true)
        for label, equation in equations.items():
            sys.stdout.write(f"{name} | {label} | {bound(equation, inputs @ equation.basis):.2f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
