"""How well the start of an ordinary training is told from the released weights alone, where it was drawn uniformly.

    python tests/benchmarks/start_estimate.py DIR

prints, for W1 of each victim, what is left of its start (c), the estimate of c, and the error of two estimates of
L = W1 - c W1(0), relative to ||L||: the best of any rank by squares, and that of `kkt-delta --variant uniform`; and the
share of the training images' energy that lies in the directions of the latter, in which candidates are sought.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from trained import trained

from attacks.known_start.params import LEFT_OUT
from attacks.unknown_start.uniform import StartSeparation
from victims.equations.row_space import CosineSpace
from victims.ordinary.difference import difference

VICTIMS = (("cifar-mlp-100-c10-sgd", 0), ("cifar-mlp-100-c10-sgd", 5), ("cifar-mlp-100-c10-adamw", 3))


def main() -> None:
    """Print the errors."""
    for name, seed in VICTIMS:
        victim = trained(name, Path(sys.argv[1]), seed)
        assert victim.start is not None
        weight = victim.model.state_dict()["layers.0.weight"]
        known = difference(weight, victim.start["layers.0.weight"])
        added = weight - known.decay * victim.start["layers.0.weight"]
        left, singular, right = torch.linalg.svd(weight, full_matrices=False)
        # the squares of L, less those that the first directions explain, plus those that they add
        along = ((left.T @ added) * right).sum(1)
        squares = added.square().sum() + (singular.square() - 2 * singular * along).cumsum(0)
        found = StartSeparation(weight, CosineSpace.of(victim.input_shape, weight)).run(
            lambda: False, lambda step: None
        )
        missed = float((found.added - added).norm() / added.norm())
        by_squares = float((squares.min().clamp(min=0) / added.square().sum()).sqrt())
        estimate = difference(weight, (weight - found.added) / found.decay)
        basis = estimate.basis(estimate.holding(1 - LEFT_OUT)).float()
        images = torch.from_numpy(victim.split.inputs).flatten(1)
        held = float(((images @ basis).square().sum(1) / images.square().sum(1)).mean())
        told = (
            f"c {known.decay:.3f}, estimated {found.decay:.3f}",
            f"by squares {by_squares:.2f}, by the box {missed:.2f}",
            f"{basis.shape[1]} directions hold {held:.2f} of the images' energy",
        )
        sys.stdout.write(f"{victim.spec.name} | {' | '.join(told)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
