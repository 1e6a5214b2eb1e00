"""The neurons of layer 1 as points that are sums over the training images, and the pairs that lie near each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.network import Network
from victims.equations.row_space import data_rank

KINDS = 2
"""Directions of W2 that matter: of the neurons with positive and with negative outgoing weights."""
WEAK = 0.1
"""Share of the neurons, those of the smallest r, whose rows are too noisy once divided by it."""
ROUNDING = 2.0**-20
"""Points nearer to each other than this share of their length differ by rounding to float32."""


@dataclass(frozen=True)
class Neurons:
    """The rows of layer 1.

    Attributes:
        rows: (h, d + 1), [w_j, b_j] / r_j.
        strong: (k,) index of the neurons whose r_j is not small.
        basis: (d + 1, R) orthonormal, right singular vectors of [W1, b1], the largest first.
        rank: number of those that belong to the data; half of all if there is no gap, at most h / 2.
    """

    rows: Tensor
    strong: Tensor
    basis: Tensor
    rank: int

    @classmethod
    def of(cls, network: Network) -> Neurons:
        """Return the neurons of a fully connected network whose first layer has biases, in float32.

        Raises:
            ValueError: its first layer has no biases.
        """
        weight, bias = network.weights[0].double(), network.biases[0]
        if bias is None:
            raise ValueError("the first layer has no biases")
        joined = torch.cat([weight, bias.double()[:, None]], dim=1)
        shown = torch.linalg.svd(network.weights[1].double(), full_matrices=False)[2][:KINDS]
        size = shown.norm(dim=0)
        _, singular, directions = torch.linalg.svd(joined, full_matrices=False)
        rank = data_rank(singular, *joined.shape)
        most = len(joined) // 2
        return cls(
            rows=(joined / size.clamp_min(torch.finfo(size.dtype).tiny)[:, None]).float(),
            strong=(size >= size.quantile(WEAK)).nonzero()[:, 0],
            basis=directions.T.float(),
            rank=max(1, min(rank, most) if 0 < rank < len(singular) else min(len(singular) // 2, most)),
        )

    def differences(self, directions: int, neighbours: int) -> tuple[Tensor, Tensor]:
        """Return the basis (d + 1, r) of the first directions, and the differences (p, r) of near neurons, of length 1.

        Two strong neurons are near if one is among the nearest `neighbours` of the other on this basis. Neurons that
        lie on one point, but for rounding, have no difference.
        """
        basis = self.basis[:, :directions]
        points = (self.rows @ basis)[self.strong]
        # Not by a product of matrices, which rounds the distances of near points away.
        distance = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
        distance.fill_diagonal_(math.inf)
        near = distance.topk(min(neighbours, len(points) - 1), largest=False).indices
        one = torch.arange(len(points), device=near.device)[:, None].expand_as(near)
        pairs = torch.stack([torch.minimum(one, near), torch.maximum(one, near)], dim=-1).flatten(0, 1).unique(dim=0)
        apart = points[pairs[:, 0]] - points[pairs[:, 1]]
        length = apart.norm(dim=1, keepdim=True)
        return basis, (apart / length)[length[:, 0] > ROUNDING * points.norm(dim=1)[pairs[:, 0]]]
