"""A low-rank update beside a known layer, whose own start is guessed: what lies along that start is no image.

Hu et al. 2022 (LoRA, eq. 3) train W1 = W1(0) + B A, with B = 0 and a random A(0) (r, d) at the start. Plain gradients
move A by sums of images, A = A(0) + N X, so

    W1 - W1(0) = B A(0) + B N X,

and projected along the rows of A(0) it is B N X, of images that lose what lies along those rows: r / d of their squares
on average. For images that is filled in: of all that differ along A(0) the projection leaves the smoothest
(`attacks.unknown_start.smoothness`). A(0) is drawn from an integer: by the right one its rows lie far more in the span
of W1 - W1(0) than random rows do.

Behind convolutions features are in the place of the images; they are not smooth, and nothing is filled in. Where the
convolutions have updates too, the starts of theirs were drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from scipy.stats import beta
from torch import Tensor, nn

from attacks.context import AttackContext
from attacks.unknown_start import NO_UPDATE
from attacks.unknown_start.smoothness import Shape, smooth_directions, smoothest
from victims.equations.network import Network
from victims.ordinary.adaptation import drawn_down
from victims.ordinary.difference import Difference, difference
from victims.ordinary.seeds import FALSE_ALARM
from victims.ordinary.update import adapter_rank

ROWS = 8
"""Rows of A(0) that are drawn for every seed."""

NORMAL = 3.0
"""Kurtosis of normal numbers."""

Shapes = tuple[tuple[int, int], ...]
"""(h, d) of layers that have an update, in their order; the last is the one whose A(0) is drawn."""
Draw = Callable[[int, int, Shapes, torch.Generator], Tensor]
"""Of rows, the rank, shapes and a generator: the first rows (k, d) of A(0)."""


def _own(rows: int, rank: int, shapes: Shapes, generator: torch.Generator) -> Tensor:
    """Return what `victims.ordinary.adaptation` draws."""
    *before, (_, inputs) = shapes
    torch.empty(sum(rank * d for _, d in before), dtype=torch.float64).uniform_(generator=generator)
    return drawn_down(rows, inputs, generator)


def _peft(rows: int, rank: int, shapes: Shapes, generator: torch.Generator) -> Tensor:
    """Return what peft.get_peft_model draws after torch.manual_seed (peft 0.21, `LoraLayer`).

    For each layer it makes two layers A and B, whose own starts use numbers up, and then draws A as torch starts a
    layer.
    """
    *before, (neurons, inputs) = shapes
    used = sum(2 * rank * d + h * rank for h, d in before) + rank * inputs + neurons * rank
    torch.empty(used).uniform_(generator=generator)
    drawn = torch.empty(rows, inputs)
    return nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator)


DRAWS: dict[str, Draw] = {"this suite": _own, "peft": _peft}
"""Ways to draw A(0), by who draws so."""


@dataclass(frozen=True)
class AdapterGuess:
    """The seed by whose draws A(0) lies in the span of a layer's difference.

    Attributes:
        seed: the integer.
        drawn_by: a name of `DRAWS`.
        share: of the squares of its first rows, the part in that span.
        threshold: the share that seeds without the right one exceed with probability `FALSE_ALARM`.
    """

    seed: int
    drawn_by: str
    share: float
    threshold: float


def guess_adapter(
    span: Tensor,
    shapes: Shapes,
    rank: int,
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda done: None,
    expired: Callable[[], bool] = lambda: False,
) -> AdapterGuess | None:
    """Return the first seed whose draws lie too much in a span for chance, None if none does.

    Of j random rows in d dimensions the share of squares in k of them has nearly the distribution Beta(j k / 2,
    j (d - k) / 2), exactly for normal entries.

    Args:
        span: (k, d) orthonormal rows, the span of W1 - W1(0).
        shapes: of the layers with an update, up to that one.
        rank: r of the update.
        seeds: which to try.
        progress: told how many seeds are done.
        expired: asked before every seed but the first whether to try no more.
    """
    (k, d), rows = span.shape, min(ROWS, rank)
    tried = len(seeds) * len(DRAWS)
    if k >= d or not tried:
        return None
    threshold = float(beta.isf(FALSE_ALARM / tried, rows * k / 2, rows * (d - k) / 2))
    generator = torch.Generator()
    for done, seed in enumerate(seeds):
        if done and expired():
            break
        for name, draw in DRAWS.items():
            drawn = draw(rows, rank, shapes, generator.manual_seed(seed)).float()
            share = float((drawn @ span.T).square().sum() / drawn.square().sum())
            if share > threshold:
                return AdapterGuess(seed, name, share, threshold)
        progress(done + 1)
    return None


@dataclass(frozen=True)
class Apart:
    """A released network whose W1 - W1(0) is projected along the rows of A(0).

    Attributes:
        network: all its layers.
        rank: r of the update, the most directions that are left.
        up: B (h, r), as it follows from W1 - W1(0) and A(0), of which A has kept most.
        shape: (C, H, W) of the images that W1 takes; None behind convolutions.
    """

    network: Network
    rank: int
    up: Tensor
    shape: Shape | None

    def directions(self, found: Difference, images: int | None) -> tuple[int, str]:
        """Return how many directions of its W1 - W1(0) to search, and how they were had, in words.

        All before a gap count, and without a gap those above noise, at most r. After Adam, which scales the entries of
        a gradient each by its own factor, r directions come before the gap, of which the last are noise: of mixtures of
        images those up to the last that is smooth count.

        Args:
            found: W1 - W1(0).
            images: n, None to read the number off the weights.
        """
        if images is not None:
            return min(images, found.rank, self.rank), ""
        if self.shape is not None and _moved_alike(self.up):
            return smooth_directions(
                found.directions[: self.rank], self.shape
            ), ", those that are smooth: n is not shown"
        if found.shows_images:
            return min(found.rank, self.rank), ""
        return min(found.above_noise, self.rank), ", those that stand above noise: n is not shown"


def _moved_alike(up: Tensor) -> bool:
    """Say whether an optimiser such as Adam moved B (h, r): its entries are then of more equal size than normal ones.

    Sums of gradients are of less equal size: many neurons have next to no errors.
    """
    squares = up.double().square()
    return float(squares.square().mean() / squares.mean().square()) < NORMAL


def without_adapter_start(
    start: Network,
    end: Network,
    seeds: int,
    ctx: AttackContext,
    before: Shapes = (),
    shape: Shape | None = None,
) -> tuple[Apart | None, tuple[str, ...]]:
    """Return the released network with its low-rank update taken apart, and flags on how the start of that was had.

    It is None where there is no low-rank update, or where no seed drew its start.

    Args:
        start: the network before the update.
        end: the released network, with the update added.
        seeds: how many seeds are tried, from 0 on.
        ctx: for progress and budget.
        before: shapes of convolutions before the network that have an update too.
        shape: (C, H, W) of the images that W1 takes; None behind convolutions.
    """
    rank = adapter_rank(start, end)
    if rank is None:
        return None, (NO_UPDATE,)
    weight = start.weights[0]
    shapes = (*before, (weight.shape[0], weight.shape[1]))
    found = difference(end.weights[0], weight)
    span = found.directions[: found.rank].float().cpu()
    tried = 0

    def progress(done: int) -> None:
        nonlocal tried
        tried = done
        ctx.progress(done, seeds)

    guess = guess_adapter(span, shapes, rank, range(seeds), progress, lambda: ctx.expired(0))
    update = f"a low-rank update of rank {rank}"
    if guess is None:
        return None, (f"{update}: no seed below {tried} drew its start",)
    generator = torch.Generator().manual_seed(guess.seed)
    drawn = DRAWS[guess.drawn_by](rank, rank, shapes, generator)
    added = end.weights[0].double() - weight.double()
    begun = drawn.double().to(added.device)
    projected = weight.double() + smoothest(added, begun, shape)
    up = torch.linalg.lstsq(begun.T, added.T).solution.T
    told = (
        f"{update}: seed {guess.seed} drew its start as {guess.drawn_by} does: {guess.share:.3f} of its squares lie in "
        f"the span; threshold {guess.threshold:.3f} for {seeds} seeds"
    )
    network = replace(end, weights=(projected.to(weight), *end.weights[1:]))
    return Apart(network, rank, up.to(weight), shape), (told,)
