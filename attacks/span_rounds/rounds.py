"""A search and its rounds, as one restart: search, settle, replace, search again.

A round replaces what the search before has not found. Candidates settle first: they go on without the atomic norm, and
the wrong ones leave the spans. Those that stay keep their places and move slowly from then on; others begin anew beside
them. What they look for is then a smaller problem: W_1 less what is found, of as many images as are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.kkt_family.coefficients import SMALL, coefficient_unit, paced_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.restarts import Restarts, below, under
from attacks.kkt_family.search import Found, Start, coordinates_of, search
from attacks.span_rounds.selection import outside, staying
from victims.equations.stationarity import CoefficientMap

SETTLE_STEPS = 150
SETTLE_PACE = 0.3
KEPT_PACE = 0.1
"""Factors of the learning rates of candidates that settle, and of those that stay."""
PER_MISSING, FEWEST_NEW = 2.0, 0.6
"""A round has this many new candidates for each image that is missing, and no fewer than this many for each image."""
ALIVE = 0.1
"""A candidate whose term is smaller than this share of the median image's is given up when the others settle."""
BEGUN = "begun."
"""Prefix of the names of a checkpoint's tensors that say how a phase began."""


@dataclass(frozen=True)
class Rounds:
    """How a restart goes on after its search.

    Attributes:
        count: number of rounds, each of which settles the candidates and searches again; they settle once more at the
            end.
        steps: optimiser steps of the search of a round.
        sparsity: cost of the atomic norm there.
    """

    count: int
    steps: int
    sparsity: float

    @property
    def more_steps(self) -> int:
        """The number of steps after those of the first search."""
        return self.count * (SETTLE_STEPS + self.steps) + SETTLE_STEPS if self.count else 0

    def phases(self, first: SearchParams) -> list[SearchParams]:
        """Return the parameters of the searches, one after another: every second one settles."""
        plain = {"first_alpha": None}
        settling = first.model_copy(update=plain | {"steps": SETTLE_STEPS, "sparsity": 0.0})
        again = first.model_copy(update=plain | {"steps": self.steps, "sparsity": self.sparsity})
        return [first, *[settling, again] * self.count, settling]


def search_in_rounds(
    problem: Problem,
    start: Start,
    params: SearchParams,
    rounds: Rounds,
    restarts: Restarts,
) -> tuple[Found, CoefficientMap]:
    """Return the candidates of the last search, and the map from their outputs to their coefficients.

    Args:
        problem: the victim, fully connected.
        start: where the first search begins.
        params: hyperparameters of the first search; the others have `rounds.steps` and `rounds.sparsity`.
        rounds: how it goes on.
        restarts: the restarts that this one belongs to, alone in its batch, with their budget and checkpoints.
    """
    state, generator = restarts.unfinished, restarts.ctx.generator
    index = int(state["phase"]) if state else 0
    begun = below(BEGUN, state)
    if begun:
        start = _paced(begun["coordinates"], begun["coefficients"], begun["pace"])
        generator.set_state(state["generator"])
    phases = rounds.phases(params)
    done, stopped = sum(phase.steps for phase in phases[:index]), False
    while True:
        held = {"phase": torch.tensor(index), "generator": generator.get_state()} | under(BEGUN, begun)
        coefficients = start.coefficients.at

        def checkpoint(now: Callable[[], dict[str, Tensor]], held: dict[str, Tensor] = held) -> None:
            restarts.checkpoint(lambda: held | now())

        def expired(step: int, done: int = done) -> bool:
            nonlocal stopped
            stopped = restarts.expired(done + step)
            return stopped

        def reached(step: int, found: Tensor, done: int = done, at: CoefficientMap = coefficients) -> None:
            restarts.report(done + step, [problem.relative_residual(found[0], at)])

        (found,) = search(problem, [start], phases[index], reached, expired, checkpoint, state)
        done, index, state = done + phases[index].steps, index + 1, {}
        if stopped or index == len(phases) or restarts.expired(done):
            return found, coefficients
        begun = _next(problem, found, coefficients, params, generator, settle=index % 2 == 1)
        start = _paced(begun["coordinates"], begun["coefficients"], begun["pace"])


def _paced(coordinates: Tensor, chosen: Tensor, pace: Tensor) -> Start:
    """Return the start of a search from candidates (m, r) with coefficients (m, C), whose learning rates have paces."""
    return Start(coordinates, paced_coefficients(chosen, pace[:, 1]), pace[:, 0])


def _next(
    problem: Problem,
    found: Found,
    coefficients: CoefficientMap,
    params: SearchParams,
    generator: torch.Generator,
    *,
    settle: bool,
) -> dict[str, Tensor]:
    """Return how the next search begins: coordinates (m, r), coefficients (m, C), and the paces (m, 2) of both."""
    coordinates = coordinates_of(found.candidates, problem.space, params.coordinate_power)
    inputs = found.candidates @ problem.space.basis
    _, errors = problem.fired(inputs, coefficients)
    chosen, images, weight = errors[-1], problem.space.rank, problem.network.weights[0]
    if settle:
        sizes = found.sizes * coordinates.norm(dim=1)
        largest = sizes.sort(descending=True).values[:images]
        stay, rate, new = (sizes > ALIVE * largest.median()).nonzero().flatten(), SETTLE_PACE, 0
    else:
        stay, rate = staying(outside(problem, inputs, coefficients), coordinates, images), KEPT_PACE
        new = round(max(FEWEST_NEW * images, PER_MISSING * (images - len(stay))))
    unit = coefficient_unit(weight, len(stay) + new)
    fresh = params.init_scale * torch.randn(new, coordinates.shape[1], generator=generator).to(coordinates)
    guessed = SMALL * unit * torch.randn(new, chosen.shape[1], generator=generator).to(chosen)
    rates = torch.cat([torch.full((len(stay),), rate), torch.ones(new)]).to(coordinates)
    return {
        "coordinates": torch.cat([coordinates[stay], fresh]),
        "coefficients": torch.cat([chosen[stay], guessed]),
        "pace": torch.stack([rates, unit * rates], 1),
    }
