"""What a first layer holds of the training images: their span, and the sum of errors times images in it.

It is what a whole training has added, where Kariyappa et al. 2023 have one aggregated gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attacks.independent_components.adapted import Adapted, let_through
from attacks.independent_components.errors import Explaining
from attacks.known_start.equation import checked_difference, interpolated
from attacks.known_start.no_image import adapted
from attacks.unknown_start.adapter import Apart
from victims.equations.network import Network
from victims.equations.row_space import row_span
from victims.ordinary.difference import last_gap, rounding_of
from victims.ordinary.update import low_rank

UNMOVED = 1e-6
"""Biases that moved by less, relative to the weights, say nothing: a batch normalisation lets no common error pass."""


@dataclass(frozen=True)
class UpdateSpan:
    """The rows of L = sum_i D_i x_i' (after Kariyappa et al. 2023, who take a gradient), and what is known beside.

    Attributes:
        basis: (r, d) orthonormal rows that span the images.
        added: L (h, d).
        bias: (h,) sum_i D_i; None where it is not known, or not used.
        network: where signs are told: the start, whose neurons most steps of a training from scratch had, or the end;
            None where nothing tells them.
        way: where errors are taken on the straight way from the start to the end: the middle and the end, or other
            points that a caller chooses; the end alone where the start is not known.
        flag: how n was had.
    """

    basis: Tensor
    added: Tensor
    bias: Tensor | None
    network: Explaining | None
    way: tuple[Explaining, ...]
    flag: str

    @classmethod
    def added_to(
        cls,
        start: Network,
        end: Network,
        images: int | None,
        way: Sequence[Explaining] | None = None,
        apart: Apart | None = None,
    ) -> UpdateSpan:
        """Return what a training has added to its start.

        Args:
            start: the network at the beginning.
            end: the released network.
            images: n, None to read it off the weights.
            way: the network that tells signs, and then those that explain errors; None for the start, the middle of the
                straight way, and its end.
            apart: the end, where it is that of a low-rank update which was taken apart; None elsewhere.

        Raises:
            ValueError: the start is of another shape, is the released network itself, or is not where its training
                began.
        """
        found = checked_difference(start, end)
        shows = found.rank if found.shows_images else found.above_noise
        rank = min(images or shows, len(found.directions))
        shown = "" if images or found.shows_images else ", those that stand above noise: n is not shown"
        if apart is not None:
            rank, shown = apart.directions(found, images)
        elif low := low_rank(start, end, found):
            shown = f"; {adapted(low)}"
        like, biases = end.weights[0], (start.biases[0], end.biases[0])
        added, bias = like - found.decay * start.weights[0], None
        if biases[0] is not None and biases[1] is not None:
            moved = biases[1] - found.decay * biases[0]
            bias = moved if moved.norm() > UNMOVED * added.norm() else None
        at_start, *later = way or (start, interpolated(start, end, 0.5), end)
        return cls(
            found.directions[:rank].to(like),
            added,
            bias,
            at_start,
            tuple(later),
            f"start decayed to {found.decay:.4g}, {rank} directions{shown}",
        )

    def through_update(self, up: Tensor) -> UpdateSpan:
        """Return it with errors as a low-rank update lets them into W1 (`attacks.independent_components.adapted`).

        Args:
            up: B (h, r) of the update.
        """
        of_network, of_layer = (one.to(self.added) for one in let_through(up))
        assert self.network is not None
        networks = [one.network if isinstance(one, Adapted) else one for one in (self.network, *self.way)]
        at_start, *later = (Adapted(one, of_network) for one in networks)
        return replace(self, added=of_layer.T @ self.added, bias=None, network=at_start, way=tuple(later))

    @classmethod
    def of_update(cls, mean: Tensor, images: int | None) -> UpdateSpan:
        """Return what the gradients for A of a low-rank update hold, whose errors B mixes, so that nothing tells signs.

        Args:
            mean: their mean (r, d).
            images: n, None to read it off the mean.
        """
        _, singular, directions = torch.linalg.svd(mean.double(), full_matrices=False)
        shows, gap = last_gap(singular, rounding_of(mean))
        rank = min(images or shows, len(directions))
        shown = "" if images or gap > 1 else ": n is not shown"
        flag = f"{rank} directions of the gradients of a low-rank update{shown}"
        return cls(directions[:rank].to(mean), mean, None, None, (), flag)

    @classmethod
    def held_by(cls, end: Network, images: int | None, explaining: Explaining | None = None) -> UpdateSpan | None:
        """Return what the weights alone hold, None where they show no end of the images' span.

        Biases are left out: a recipe may not decay them, and they then add up to nothing.

        Args:
            end: the released network.
            images: n, None to read it off the weights.
            explaining: what explains errors at the end; None for the network itself.
        """
        weight = end.weights[0]
        if images is None:
            space = row_span(weight)
            if not space.gap:
                return None
            basis = space.basis.T
        else:
            basis = torch.linalg.svd(weight.double(), full_matrices=False).Vh[:images].to(weight)
        network = explaining or end
        flag = f"W1 taken for what was added, {len(basis)} directions"
        return cls(basis.contiguous(), weight, None, network, (network,), flag)
