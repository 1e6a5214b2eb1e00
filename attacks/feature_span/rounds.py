"""Rounds of a search: each stays apart from the images that the ones before have found."""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.base import AttackContext
from attacks.feature_span.search import Prices, SpanSearch
from victims.equations.network import Network
from victims.equations.row_space import RowSpace

REPORT_STEPS = 20
OF_SEARCH = "search."
"""Prefix of the names of a checkpoint's tensors that belong to the round in progress."""


class Rounds:
    """The rounds of one attack, under the budget of its context, and the checkpoints that they go on from.

    Args:
        network: the victim, whose first layer is a convolution.
        span: the span of the features that layer 2 shows.
        prices: what candidates pay.
        ctx: the attack's context.

    Attributes:
        images: (k, d) candidates of the rounds that have ended.
        outside: (k,) the share of their features outside the span.
        known: (j, r) signatures of those that were accepted.
        spent: number of steps so far.
    """

    def __init__(self, network: Network, span: RowSpace, prices: Prices, ctx: AttackContext) -> None:
        self.network, self.span, self.prices, self.ctx = network, span, prices, ctx
        empty = span.basis.new_zeros
        self.images, self.outside, self.known = empty(0, network.inputs), empty(0), empty(0, span.rank)
        self.spent = self._ended = 0
        self._unfinished: dict[str, Tensor] = {}
        if state := ctx.resume():
            self.images, self.outside, self.known = (state[key].to(empty(0)) for key in ("images", "outside", "known"))
            self._ended = int(state["ended"])
            ctx.generator.set_state(state["generator"])
            of_search = {key: value for key, value in state.items() if key.startswith(OF_SEARCH)}
            self._unfinished = {key.removeprefix(OF_SEARCH): value for key, value in of_search.items()}

    def run(self, rounds: int, steps: int, m: int, *, lr: float, init_scale: float, accepted: float) -> None:
        """Run the rounds that are left, each of m candidates and as many steps; at least one, if shortened.

        Args:
            rounds: number of rounds.
            steps: number of steps of a round.
            m: number of candidates of a round.
            lr: Adam's highest learning rate.
            init_scale: standard deviation of the start's coordinates.
            accepted: largest share outside the span of a candidate that later rounds stay apart from.
        """
        while self._ended < rounds and not (self._ended and self.ctx.expired(self._ended * steps)):
            begun = self.ctx.generator.get_state()
            start = torch.randn(m, self.network.inputs, generator=self.ctx.generator) * init_scale
            search = SpanSearch(self.network, self.span, start, self.known, self.prices, lr, steps)
            self._descend(search, begun, steps, rounds * steps)
            with torch.no_grad():
                found = search.images()
                shares, signatures = search.features_of(found)
            self.images, self.outside = torch.cat([self.images, found]), torch.cat([self.outside, shares])
            self.known = torch.cat([self.known, signatures[shares < accepted]])
            self._ended += 1

    def _descend(self, search: SpanSearch, begun: Tensor, steps: int, total: int) -> None:
        """Run the steps of a round that are left; `begun` is the state of the generator at its start."""

        def state() -> dict[str, Tensor]:
            kept = {"images": self.images, "outside": self.outside, "known": self.known, "generator": begun}
            of_search = {f"{OF_SEARCH}{key}": value for key, value in search.cycle.state().items()}
            return kept | of_search | {"ended": torch.tensor(self._ended)}

        done = search.cycle.restore(self._unfinished) if self._unfinished else 0
        self._unfinished = {}
        for step in range(done + 1, steps + 1):
            self.spent = self._ended * steps + step - 1
            if self.ctx.expired(self.spent):
                return
            search.step()
            self.spent += 1
            if step % REPORT_STEPS == 0 or step == steps:
                with torch.no_grad():
                    share = float(search.features_of(search.images())[0].median())
                self.ctx.report(self.spent, total, outside=share)
            self.ctx.checkpoint(state)
