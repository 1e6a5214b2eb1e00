"""The stretches of a training that an attack looks at: the weights at the beginning and at the end of each.

Most have one: from the start to the release. Of several checkpoints each two that follow one another make a stretch, of
several releases each three, or the only two, of averages each four. A stretch shows its own views of the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from torch import Tensor

from attacks.context import AttackContext
from attacks.knowledge import VictimView
from attacks.unknown_start import NO_CHECKPOINTS, NO_MOMENTUM, NO_SNAPSHOTS
from attacks.unknown_start.momentum import NO_MEAN, before_a_step
from attacks.unknown_start.releases import averaged, without_past
from attacks.unknown_start.start import initial_weights
from victims.equations.checkpoint import Checkpoint, summed_gradients

STAYED = "the first fully connected layer had no gradient between the two checkpoints"
ALONG_MOMENTUM = "a step along the optimiser's momentum taken for the training"
ALONG_SUM = "the sum of the gradients between two checkpoints taken for the training"
BETWEEN = "what two releases differ by taken for the training"
BETWEEN_THREE = "what three releases differ by taken for the training, of the first difference this share taken off"
BETWEEN_AVERAGES = (
    "what four averaged releases differ by taken for the training, of the second and the first difference these shares"
    " taken off"
)

Start = Literal["known", "guess", "momentum", "snapshots", "checkpoints"]


@dataclass(frozen=True)
class Stretch:
    """A part of a training.

    Attributes:
        begun: the weights at its beginning by parameter name; None if they cannot be told.
        ended: the weights at its end by parameter name.
        flags: how the beginning was had, or why not.
    """

    begun: dict[str, Tensor] | None
    ended: dict[str, Tensor]
    flags: tuple[str, ...]


def stretches(view: VictimView, ctx: AttackContext, start: Start, seeds: int) -> tuple[Stretch, ...]:
    """Return the stretches that a way to have the start leads to, one or more, in the order of the training.

    Args:
        view: what the attack knows.
        ctx: for progress and budget.
        start: "momentum" takes a step before the end, along the optimiser's running mean; "snapshots" the former of two
            weights on the way, or of each three, of averages each four, a step before the last, along what they tell
            without the past; "checkpoints" a step before the second of two states, along the sum of the gradients
            between them; others are those of `initial_weights`.
        seeds: how many seeds are tried, from 0 on.

    Raises:
        ValueError: the victim has no one start to tell, no momentum, no earlier release, or no two checkpoints of one
            training.
    """
    ctx.resume()  # what was spent before an interruption counts
    match start:
        case "momentum":
            if view.momentum is None:
                raise ValueError(NO_MOMENTUM)
            before, ended = before_a_step(view.weights, view.momentum), view.weights
            return (Stretch(before, ended, (ALONG_MOMENTUM if before else NO_MEAN,)),)
        case "snapshots":
            return _between_releases(view.snapshots)
        case "checkpoints":
            return _between_checkpoints(view.checkpoints)
        case _:
            begun, flags = initial_weights(view, ctx, start, seeds)
            return (Stretch(begun, view.weights, flags),)


def _between_releases(releases: Sequence[dict[str, Tensor]]) -> tuple[Stretch, ...]:
    if len(releases) < 2:
        raise ValueError(NO_SNAPSHOTS)
    if len(releases) == 2:
        return (Stretch(releases[0], releases[1], (BETWEEN,)),)
    several = 4 if len(releases) > 3 and averaged(releases[-4:]) else 3
    flag = BETWEEN_THREE if several == 3 else BETWEEN_AVERAGES
    found = []
    for end in range(several, len(releases) + 1):
        few = releases[end - several : end]
        begun, shares = without_past(few)
        said = f"{flag}: {', '.join(f'{share:.3f}' for share in shares)}" if begun else BETWEEN
        found.append(Stretch(begun or few[-2], few[-1], (said,)))
    return tuple(found)


def _between_checkpoints(states: Sequence[Checkpoint]) -> tuple[Stretch, ...]:
    if len(states) < 2:
        raise ValueError(NO_CHECKPOINTS)
    found = ((before_a_step(later.weights, summed_gradients(one, later)), later) for one, later in pairwise(states))
    return tuple(Stretch(begun, later.weights, (ALONG_SUM if begun else STAYED,)) for begun, later in found)
