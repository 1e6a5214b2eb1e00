"""A network beside whose first layer a low-rank update is trained: which errors of an image the update lets into W1.

With W1 = W1(0) + B A (Hu et al. 2022, LoRA, eq. 3) a step moves A by B' D x', for errors D of an image x in layer 1,
and so W1 by B B' D x', if B is taken for what it is at the end of the training, which began with B = 0. With B = U S V'
that makes the errors of all images alike, along its few largest directions; divided by S^2 they are D in the directions
U, and noise in the smallest. They are compared in between: S^(-3/2) U' of what W1 holds with S^(1/2) U' of the
network's errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attacks.independent_components.tail import Tailed
from victims.equations.network import Network

SMALLEST = 1e-3
"""Directions of B with a smaller singular value, relative to the largest, are left out."""


@dataclass(frozen=True)
class Adapted:
    """A network at one point of the way, and what an update lets through.

    Attributes:
        network: the layers.
        inwards: (h, k) U S^(1/2), by which errors are compared.
    """

    network: Network | Tailed
    inwards: Tensor

    @property
    def outputs(self) -> int:
        """C, the number of outputs."""
        return self.network.outputs

    def on_coordinates(self, basis: Tensor) -> Adapted:
        """Return it on coordinates c of inputs x = basis c, for a basis (d, r)."""
        return replace(self, network=self.network.on_coordinates(basis))

    def answers(self, candidates: Tensor) -> Tensor:
        """Return the outputs (m, C) for candidates (m, r)."""
        if isinstance(self.network, Tailed):
            return self.network.answers(candidates)
        return self.network.forward(candidates, torch.relu)


def let_through(up: Tensor) -> tuple[Tensor, Tensor]:
    """Return U S^(1/2) for errors of a network, and U S^(-3/2) for what W1 holds, each (h, k), float64.

    Args:
        up: B (h, r).
    """
    left, sizes, _ = torch.linalg.svd(up.double(), full_matrices=False)
    kept = int((sizes > SMALLEST * sizes[0]).sum())
    left, sizes = left[:, :kept], sizes[:kept]
    return left * sizes**0.5, left / sizes**1.5
