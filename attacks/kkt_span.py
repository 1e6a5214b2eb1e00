"""Reconstruction in the spans that the weights show, for networks of several outputs (beyond Buzaglo et al. 2023).

The equation is the same as for `kkt-general`; the spans are `victims.equations.spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from attacks.base import AttackContext, Reconstruction, VictimView
from attacks.kkt_family.attack import Begin
from attacks.kkt_family.params import FAST_RANGES
from attacks.kkt_general import KKTGeneral, KKTGeneralParams
from attacks.search_space import Range
from victims.frozen_model import omitted_if_default

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.kkt_family.problem import Problem
    from attacks.optimisation.restarts import Restart, Restarts
    from attacks.span_rounds.rounds import RoundSchedule
    from victims.spec import VictimSpec


class KKTSpanParams(KKTGeneralParams):
    """Parameters of `kkt-span`: those of `kkt-general`, with free coefficients in the fast solver.

    Attributes:
        rounds: number of searches after the first, in which the candidates that keep to the spans stay and the others
            begin anew; see `attacks.span_rounds.rounds`. The confidence is then how far a candidate keeps to the spans,
            times the agreement of the other restarts, unless `ranking` asks for more than agreement.
        round_steps: optimiser steps of each of them.
        round_sparsity: `sparsity` there.
        round_offset_price: `offset_price` there, and where candidates settle.
    """

    rounds: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    round_steps: Annotated[PositiveInt, omitted_if_default(500)] = 500
    round_sparsity: Annotated[NonNegativeFloat, omitted_if_default(0.02)] = 0.02
    round_offset_price: Annotated[NonNegativeFloat, omitted_if_default(0.0)] = 0.0
    method: Literal["row-space"] = "row-space"
    coefficients: Literal["free"] = "free"
    restarts: PositiveInt = 1
    steps: PositiveInt = 2500
    lr: PositiveFloat = 0.1
    lambda_lr: PositiveFloat = 0.01
    alpha: PositiveFloat = 35.0
    coordinate_power: NonNegativeFloat = 0.5
    signal_span: NonNegativeFloat = 0.15
    activation_span: NonNegativeFloat = 0.45

    @field_validator("rounds")
    @classmethod
    def _ranked_by_agreement(cls, value: int, info: ValidationInfo) -> int:
        """Refuse other rankings of several restarts with rounds, which end with different numbers of candidates."""
        if value and info.data.get("restarts", 1) > 1 and info.data.get("ranking", "agreement") != "agreement":
            raise PydanticCustomError("ranking", "with rounds, several restarts are ranked by agreement: leave ranking")
        return value

    @property
    def after_search(self) -> RoundSchedule:
        """How a restart goes on after its search."""
        from attacks.span_rounds.rounds import RoundSchedule

        return RoundSchedule(self.rounds, self.round_steps, self.round_sparsity, self.round_offset_price)

    @property
    def steps_of_a_restart(self) -> int:
        """The number of steps of all searches of a restart."""
        return sum(one.steps for one in self.after_search.searches(self))


class KKTSpan(KKTGeneral):
    """`kkt-general`, where each candidate pays for leaving the spans that the weights show.

    If layer 2 shows no span of activations, candidates pay for their back-propagated errors alone. That is so with one
    output, where `kkt-general` reconstructs more images, and where training stopped while much of the start was left.
    """

    name = "kkt-span"
    summary = "kkt-general, whose candidates' errors and activations stay in the spans that W1 and W2 show"
    paper = "after Buzaglo et al. 2023; span checks after Petrov et al. 2024 (DAGER), Dimitrov et al. 2024 (SPEAR)"
    version = 2
    Params = KKTSpanParams
    params: KKTSpanParams
    candidates_per_direction = 1.4
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "rounds": {"rounds": 6},
        # Longer rounds, in which gates may be what they are on the ReLU's kink.
        "kinks": {"rounds": 6, "round_steps": 1000, "round_offset_price": 1e-6, "products": "bfloat16"},
        # Gates that sharpen, alike for neurons of all norms; they bear higher prices and take fewer steps.
        "graduated": {
            "steps": 1000,
            "first_alpha": 5.0,
            "gate_power": 1.0,
            "signal_span": 0.3,
            "activation_span": 1.0,
            "products": "bfloat16",
        },
    }
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        name: FAST_RANGES
        | {
            "sparsity": Range(0, 0.2),
            "signal_span": Range(0.01, 10, log=True),
            "activation_span": Range(0.01, 10, log=True),
        }
        for name in ("", "rounds", "kinks", "graduated")
    }

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search in the spans; a flag says which of them the weights do not show. Without any there are no rounds."""
        import torch

        from attacks.kkt_family.problem import Problem

        problem = Problem.of(view, ctx.device, getattr(torch, self.params.dtype))
        spans = problem.spans(1.0, 1.0)
        if self.params.rounds and not (problem.space.gap and (spans.errors or spans.activations)):
            found = KKTSpan(self.params.model_copy(update={"rounds": 0})).reconstruct(view, ctx)
            unseen = "the weights show no span: searched without rounds"
            return replace(found, resolved=found.resolved | {"rounds": 0}, flags=(*found.flags, unseen))
        found = super().reconstruct(view, ctx)
        if spans.activations or not (spans.errors and self.params.activation_span):
            return found
        return replace(found, flags=(*found.flags, "W2 shows too few activations: errors alone have a price"))

    def _per_batch(self, m: int, ctx: AttackContext) -> int:
        """Return the number of restarts in a batch: 1 with rounds, after which numbers of candidates differ."""
        return 1 if self.params.rounds else super()._per_batch(m, ctx)

    def _fast(
        self, problem: Problem, begins: Sequence[Callable[[], Begin]], m: int, restarts: Restarts
    ) -> list[Restart]:
        """Return the restarts of one batch, each with its rounds."""
        if not self.params.rounds:
            return super()._fast(problem, begins, m, restarts)
        from attacks.span_rounds.rounds import search_in_rounds
        from attacks.span_rounds.selection import outside
        from victims.training.hardware import products_in

        params, (begin,) = self.params, begins
        with products_in(params.products):
            start = self._start(problem, begin, m, restarts.ctx.generator)
            found, coefficients = search_in_rounds(problem, start, params, params.after_search, restarts)
        ended = self._ended(problem, found.candidates, found.sizes, coefficients)
        if ended.consistency is not None:
            return [ended]
        fired = problem.activations_and_errors(problem.space.coordinates(found.candidates), coefficients)
        return [replace(ended, consistency=1 - outside(problem, *fired) / 2)]

    def _ranking(
        self, problem: Problem, kept: Sequence[Restart], labels: Tensor | None, shape: tuple[int, int, int]
    ) -> Tensor:
        """Return the confidence (m,): after rounds, the share in the spans times the other restarts' agreement."""
        import torch

        from attacks.kkt_family.ranking.confidence import agreement
        from attacks.kkt_family.search import coordinates_of

        inside = [one.consistency for one in kept if one.consistency is not None]
        if not (self.params.rounds and self.params.ranking == "agreement" and inside):
            return super()._ranking(problem, kept, labels, shape)
        candidates = torch.cat([one.candidates for one in kept])
        coordinates = coordinates_of(candidates, problem.space, self.params.coordinate_power)
        return (torch.cat(inside) * agreement(coordinates, labels, [len(one) for one in inside])).float()

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline convolutions, and offsets in the rounds where there are no gates."""
        if victim.architecture.kind == "conv":
            other = "kkt-conv" if victim.architecture.outputs == 1 else "conv-span"
            return f"its first layer is a convolution: use {other}"
        if self.params.round_offset_price and victim.architecture.kind == "mlp" and not victim.architecture.hidden:
            return "round_offset_price prices gates, and it has no hidden layer: set round_offset_price=0"
        return super().supports(victim)
