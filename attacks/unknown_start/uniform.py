"""What a training has added to weights whose start is unknown, but was drawn as torch draws it: uniformly.

`torch.nn.Linear` draws each weight from U(-b, b), b = 1 / sqrt(fan-in). A training on n images leaves

    W = c W(0) + L,

where L has rank n. W - L lies in the box [-c b, c b], whose ends are sharp: the weights that lie beyond an end, or near
it, tell more of L than the singular values of W do: these show the directions above (h d)^(1/4) c b / sqrt(3) alone
(Baik, Ben Arous & Peche 2005). L = A B S V' minimises

    mean_jk -log(1 - |W - L|_jk / (c b)) + lambda (||A||^2 + ||B||^2),

a barrier at the ends of the box and the nuclear norm of A B (Srebro, Rennie & Jaakkola 2004). V' are cosines and S the
amplitudes of natural images along them where W sees images, so that smooth directions cost less. c is read off the
median of |W - L|, which is c b / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from victims.equations.row_space import CosineSpace

STEPS = 150
LR = 0.1
"""Adam's learning rate, relative to the root mean square of the first direction's entries."""
RANK_DIVISOR = 5
"""L is sought among matrices of a rank of min(h, d) over this."""
PRICE = 3.0
"""Lambda, relative to the size of the barrier's gradient where W is nothing but its start. Chosen, with `STEPS`, `LR`
and the amplitudes' power, on the first training of `cifar-mlp-100-c10-sgd`."""
POWER = 0.5
"""Of the amplitudes of natural images."""
FIRST_EDGE, LAST_EDGE = 0.3, 0.01
"""In a share of the box at its ends, and beyond them, the barrier is a parabola and no logarithm. The share shrinks in
the first half of the steps."""
TINY = 5e-4
"""The size at which directions that do not stand above noise begin, relative to the first one."""
READ_EVERY = 10
"""Every so many steps c is read again."""
READ = 200_000
"""Weights at most of which c and the misfit are read."""
MISFIT, CHANCE = 0.02, 1.63
"""The misfit that an imperfect L may add to that of chance, whose 99% quantile for k weights is 1.63 / sqrt(k)."""


@dataclass(frozen=True)
class Added:
    """What was added to a start that was drawn uniformly.

    Attributes:
        added: L (h, d).
        decay: c, what is left of the start.
        misfit: the largest distance between the distribution of |W - L| / (c b) and the uniform one, in [0, 1].
        weights: the number of weights of which the misfit is read.
    """

    added: Tensor
    decay: float
    misfit: float
    weights: int

    @property
    def uniform(self) -> bool:
        """Whether W(0) may have been drawn uniformly: the misfit is hardly more than chance makes it (Kolmogorov)."""
        return self.misfit <= MISFIT + CHANCE / math.sqrt(self.weights)


class StartSeparation:
    """The descent that separates L from a start drawn uniformly.

    Args:
        weight: W (h, d).
        space: of the images that W sees; None where it sees activations.
        decay: c, where it is known; None to read it off W.

    Attributes:
        left: A (h, r).
        right: B (r, d).
        scale: S (d,), of mean square 1.
        half_width: c b, a scalar tensor.
        price: lambda.
    """

    def __init__(self, weight: Tensor, space: CosineSpace | None, decay: float | None = None) -> None:
        self.weight, self.space = weight, space
        self.known = decay is not None
        self.bound = 1 / math.sqrt(weight.shape[1])
        self.half_width = (
            torch.full_like(weight[0, 0], decay * self.bound) if decay is not None else 2 * self._median(weight)
        )
        self.scale = weight.new_ones(weight.shape[1]) if space is None else space.amplitudes(POWER)
        h, d = weight.shape
        noise = float(self.scale.max()) * math.sqrt(h) + float(self.scale.norm())
        self.price = PRICE * noise / weight.numel() / float(self.half_width)
        self.left, self.right = self._begun(max(1, min(h, d) // RANK_DIVISOR))
        first = (self.left[:, 0], self.right[0])
        sizes = [float(one.detach().square().mean().sqrt()) for one in first]
        self.cycle = OneCycle([([self.left], LR * sizes[0]), ([self.right], LR * sizes[1])], STEPS)

    def run(self, expired: Callable[[], bool], report: Callable[[int], None]) -> Added:
        """Return what the descent finds at its end, or when the budget is spent.

        Args:
            expired: asked before every step whether to end there.
            report: called every few steps with their number.
        """
        for step in range(STEPS):
            if expired():
                break
            self._step(step)
            if (step + 1) % REPORT_STEPS == 0:
                report(step + 1)
        rest = (self.weight - self.added()).flatten()
        shares = (rest[:: len(rest) // READ + 1].abs() / self.half_width).sort().values
        ranks = torch.arange(1, len(shares) + 1, device=shares.device) / len(shares)
        misfit = float((shares.clamp(max=1) - ranks).abs().max())
        return Added(self.added(), float(self.half_width) / self.bound, misfit, len(shares))

    @torch.no_grad()
    def added(self) -> Tensor:
        """Return L (h, d)."""
        return self.left @ self._rows()

    @torch.no_grad()
    def gradients(self, edge: float) -> tuple[Tensor, Tensor]:
        """Return the gradients of the objective by A (h, r) and by B (r, d).

        Args:
            edge: share of the box, at its ends, where the barrier is a parabola.
        """
        rows = self._rows()
        shares = (self.weight - self.left @ rows) / self.half_width
        room = 1 - shares.abs()
        slope = torch.where(room > edge, 1 / room.clamp(min=edge), (2 * edge - room) / edge**2)
        slope = torch.copysign(slope, shares) / (shares.numel() * self.half_width)
        by_rows = self.left.T @ slope
        by_right = by_rows if self.space is None else self.space.coordinates(by_rows)
        return (
            2 * self.price * self.left - slope @ rows.T,
            2 * self.price * self.right - by_right * self.scale,
        )

    def _step(self, step: int) -> None:
        if not self.known and step % READ_EVERY == 0:
            self.half_width = 2 * self._median(self.weight - self.added())
        edge = max(LAST_EDGE, FIRST_EDGE * (1 - 2 * step / STEPS))
        self.left.grad, self.right.grad = self.gradients(edge)
        self.cycle.step()

    def _rows(self) -> Tensor:
        """Return B S V' (r, d)."""
        scaled = self.right * self.scale
        return scaled if self.space is None else self.space.inputs(scaled)

    def _median(self, rest: Tensor) -> Tensor:
        """Return the median of the absolute values of W - L, a scalar tensor."""
        values = rest.flatten()
        return values[:: len(values) // READ + 1].abs().median()

    def _begun(self, rank: int) -> tuple[Tensor, Tensor]:
        """Return A (h, r) and B (r, d) at the start: the directions that stand above noise, shrunk, the others tiny.

        The shrinkage is that of Gavish and Donoho 2017, eq. 7, for the squared error.
        """
        h, d = self.weight.shape
        left, singular, right = torch.linalg.svd(self.weight, full_matrices=False)
        noise = self.half_width.square() / 3
        squares = singular.square()
        shrunk = ((squares - noise * (h + d)).square() - 4 * noise.square() * h * d).clamp(min=0).sqrt() / singular
        above = squares > noise * (math.sqrt(h) + math.sqrt(d)) ** 2
        sizes = torch.where(above, shrunk, torch.zeros_like(shrunk)).clamp(min=TINY * float(singular[0])).sqrt()[:rank]
        rows = sizes[:, None] * right[:rank]
        rows = rows if self.space is None else self.space.coordinates(rows)
        begun = left[:, :rank] * sizes, rows / self.scale
        return begun[0].contiguous().requires_grad_(), begun[1].contiguous().requires_grad_()
