"""A search and its rounds, as one restart: search, settle, replace, search again.

A round replaces the candidates that have found no image. Candidates settle first: they go on without the atomic norm,
and the wrong ones leave the spans. Those that stay keep their places and move slowly from then on; new candidates begin
beside them. The new ones face a smaller problem: W_1 less what is found, a sum over the missing images alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.kkt_family.coefficients import SMALL, coefficient_unit, rescaled_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import Start, StationaryPoint, coordinates_of, search
from attacks.optimisation.restarts import Restarts
from attacks.span_rounds.selection import outside, staying
from victims.equations.stationarity import CoefficientMap
from victims.files import below, under

SETTLE_STEPS = 150
"""Optimiser steps in which candidates settle."""
SETTLE_LR, KEPT_LR = 0.3, 0.1
"""Factors of the learning rates of candidates that settle, and of those that stay."""
PER_MISSING, FEWEST_NEW = 2.0, 0.6
"""A round has this many new candidates for each image that is missing, and no fewer than this many for each image."""
ALIVE = 0.1
"""A candidate whose term is smaller than this share of the median image's is given up when the others settle."""
BEGUN = "begun."
"""Prefix of the names of a checkpoint's tensors that say how a search of a round began."""


@dataclass(frozen=True)
class RoundSchedule:
    """How a restart goes on after its search.

    Attributes:
        count: number of rounds, each of which settles the candidates and searches again; they settle once more at the
            end.
        steps: optimiser steps of the search of a round.
        sparsity: cost of the atomic norm there.
        offset_price: of the gates' offsets, there and where candidates settle.
    """

    count: int
    steps: int
    sparsity: float
    offset_price: float

    def searches(self, first: SearchParams) -> list[SearchParams]:
        """Return the parameters of all searches, one after another: every second one settles."""
        if not self.count:
            return [first]
        update = {"first_alpha": None, "steps": SETTLE_STEPS, "sparsity": 0.0, "offset_price": self.offset_price}
        settling = first.model_copy(update=update)
        again = settling.model_copy(update={"steps": self.steps, "sparsity": self.sparsity})
        return [first, *[settling, again] * self.count, settling]


def search_in_rounds(
    problem: Problem, start: Start, params: SearchParams, rounds: RoundSchedule, restarts: Restarts
) -> tuple[StationaryPoint, CoefficientMap]:
    """Return the candidates of the last search, and the map from their outputs to their coefficients.

    Args:
        problem: the victim, fully connected.
        start: where the first search begins.
        params: hyperparameters of the first search.
        rounds: how it goes on.
        restarts: the restarts that this one belongs to, alone in its batch, with their budget and checkpoints.

    Raises:
        torch.OutOfMemoryError: as `search` does.
    """
    state, generator = restarts.unfinished, restarts.ctx.generator
    device = problem.network.weights[0].device
    searches, index = rounds.searches(params), 0
    begun = {name: value.to(device) for name, value in below(BEGUN, state).items()}
    if begun:
        index, start = int(state["index"]), _start(begun)
        generator.set_state(state["generator"])
    while True:
        done = sum(one.steps for one in searches[:index])
        held = {"index": torch.tensor(index), "generator": generator.get_state()} | under(BEGUN, begun) if begun else {}
        found, stopped = _search(problem, start, searches[index], done, restarts, held, state)
        index, state = index + 1, {}
        if stopped or index == len(searches) or restarts.expired(done + searches[index - 1].steps):
            return found, start.coefficients.at
        begun = _next(problem, found, start.coefficients.at, params, generator, settle=index % 2 == 1)
        start = _start(begun)


def _search(
    problem: Problem,
    start: Start,
    params: SearchParams,
    done: int,
    restarts: Restarts,
    held: dict[str, Tensor],
    state: dict[str, Tensor],
) -> tuple[StationaryPoint, bool]:
    """Return what one search finds after `done` steps of others, and whether it was stopped before its end.

    Args:
        problem: the victim.
        start: where it begins.
        params: its hyperparameters.
        done: number of steps of the searches before.
        restarts: what it reports to.
        held: what its checkpoints hold beside its own state.
        state: such a checkpoint, to go on from; empty to begin.
    """
    stopped = False

    def expired(step: int) -> bool:
        nonlocal stopped
        stopped = restarts.expired(done + step)
        return stopped

    def reached(step: int, found: Tensor) -> None:
        restarts.report(done + step, [problem.relative_residual(found[0], start.coefficients.at)])

    def checkpoint(now: Callable[[], dict[str, Tensor]]) -> None:
        restarts.checkpoint(lambda: held | now())

    (found,) = search(problem, [start], params, reached, expired, checkpoint, state)
    return found, stopped


def _start(begun: dict[str, Tensor]) -> Start:
    """Return the start that `_next` describes."""
    coefficients = rescaled_coefficients(begun["coefficients"], begun["coefficient_lr"])
    return Start(begun["coordinates"], coefficients, begun["lr"])


def _next(
    problem: Problem,
    found: StationaryPoint,
    coefficients: CoefficientMap,
    params: SearchParams,
    generator: torch.Generator,
    *,
    settle: bool,
) -> dict[str, Tensor]:
    """Return how the next search begins.

    Args:
        problem: the victim.
        found: the candidates of the search before.
        coefficients: maps their outputs to their coefficients.
        params: hyperparameters.
        generator: CPU generator of new candidates.
        settle: whether the next search settles the candidates; if not, those that stay are joined by new ones.

    Returns:
        coordinates (m, r), coefficients (m, C), and the factors (m,) of the learning rates of both.
    """
    coordinates = coordinates_of(found.candidates, problem.space, params.coordinate_power)
    activations, errors = problem.activations_and_errors(problem.space.coordinates(found.candidates), coefficients)
    c, images = errors[-1], problem.space.rank
    if settle:
        sizes = found.sizes * coordinates.norm(dim=1)
        largest = sizes.sort(descending=True).values[:images]
        stay, lr, new = (sizes >= ALIVE * largest.median()).nonzero().flatten(), SETTLE_LR, 0
    else:
        stay, lr = staying(outside(problem, activations, errors), coordinates, images), KEPT_LR
        new = round(max(FEWEST_NEW * images, PER_MISSING * (images - len(stay))))
    unit = coefficient_unit(problem.network.weights[0], len(stay) + new)
    fresh = params.init_scale * torch.randn(new, coordinates.shape[1], generator=generator).to(coordinates)
    guessed = SMALL * unit * torch.randn(new, c.shape[1], generator=generator).to(c)
    rates = torch.cat([torch.full((len(stay),), lr), torch.ones(new)]).to(coordinates)
    return {
        "coordinates": torch.cat([coordinates[stay], fresh]),
        "coefficients": torch.cat([c[stay], guessed]),
        "lr": rates,
        "coefficient_lr": unit * rates,
    }
