"""Deflation: a search in rounds, each of which stays apart from the images that the ones before have found."""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.base import AttackContext
from attacks.feature_span.params import ConvSpanParams
from attacks.feature_span.search import SpanSearch
from attacks.optimisation.one_cycle import REPORT_STEPS
from attacks.optimisation.restarts import SEARCH
from victims.equations.network import Network
from victims.equations.row_space import RowSpace
from victims.files import below, under

PER_DIRECTION = 3
"""Candidates of a round for each direction of the span, unless their number is given."""


class Deflation:
    """The rounds of one attack, under the budget of its context, and the checkpoints that they go on from.

    Args:
        network: the victim, whose first layers are convolutions.
        span: the span of the features that the layer behind them shows.
        params: the attack's parameters.
        ctx: the attack's context.

    Attributes:
        candidates: number of candidates of a round, m.
        images: (k, d) candidates of the rounds that have ended.
        outside: (k,) the share of their features outside the span.
        known: (j, r) signatures of those that were accepted.
        spent: number of steps so far.
    """

    def __init__(self, network: Network, span: RowSpace, params: ConvSpanParams, ctx: AttackContext) -> None:
        self.network, self.span, self.params, self.ctx = network, span, params, ctx
        self.candidates = params.candidates or PER_DIRECTION * span.rank
        empty = span.basis.new_zeros
        self.images, self.outside, self.known = empty(0, network.inputs), empty(0), empty(0, span.rank)
        self.spent = self._ended = 0
        self._unfinished: dict[str, Tensor] = {}
        if state := ctx.resume():
            self.images, self.outside, self.known = (state[key].to(empty(0)) for key in ("images", "outside", "known"))
            self._ended = int(state["ended"])
            ctx.generator.set_state(state["generator"])
            self._unfinished = below(SEARCH, state)

    def run(self) -> None:
        """Run the remaining rounds until the budget is spent; the first round runs in any case, possibly shortened."""
        params = self.params
        while self._ended < params.rounds and not (self._ended and self.ctx.expired(self._ended * params.steps)):
            begun = self.ctx.generator.get_state()
            drawn = torch.randn(self.candidates, self.network.inputs, generator=self.ctx.generator)
            search = SpanSearch(self.network, self.span, drawn * params.init_scale, self.known, params)
            self._descend(search, begun)
            with torch.no_grad():
                found = search.images()
                shares, signatures = search.features_of(found)
            self.images, self.outside = torch.cat([self.images, found]), torch.cat([self.outside, shares])
            self.known = torch.cat([self.known, signatures[shares < params.accepted]])
            self._ended += 1

    def _descend(self, search: SpanSearch, begun: Tensor) -> None:
        """Run the steps of a round that are left; `begun` is the state of the generator at its start."""
        steps, rounds = self.params.steps, self.params.rounds

        def state() -> dict[str, Tensor]:
            kept = {"images": self.images, "outside": self.outside, "known": self.known, "generator": begun}
            return kept | under(SEARCH, search.cycle.state()) | {"ended": torch.tensor(self._ended)}

        done = search.cycle.restore(self._unfinished) if self._unfinished else 0
        self._unfinished = {}
        self.spent = self._ended * steps + done
        for step in range(done + 1, steps + 1):
            if self.ctx.expired(self.spent):
                return
            search.step()
            self.spent += 1
            if step % REPORT_STEPS == 0 or step == steps:
                with torch.no_grad():
                    share = float(search.features_of(search.images())[0].median())
                self.ctx.report(self.spent, rounds * steps, outside=share)
            self.ctx.checkpoint(state)
