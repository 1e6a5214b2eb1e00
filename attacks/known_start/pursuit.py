"""The search for images whose features span a last layer's update: with candidates to spare, pruned, and renewed.

From n random candidates L-BFGS ends where some stand between two images, or show one with the wrong sign, and none of
the others can take their place. With candidates to spare another one finds that image; the one that is stuck then adds
least, and is pruned. The steps are those of CoSaMP (Needell and Tropp 2009): merge, prune, fit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attacks.base import AttackContext, DivergedError
from attacks.known_start.params import ProjectionParams
from attacks.known_start.projection_loss import ProjectionLoss
from victims.training.lbfgs import lbfgs

CHUNK = 100
"""Iterations after which L-BFGS begins anew; there the search can be checkpointed."""
SETTLED = 0.99
"""A chunk that leaves more than this share of the loss is the last one of its stage."""
REPORT = 10


class Pursuit:
    """Rounds of two stages each, one with candidates to spare and one without, until the update is spanned.

    Args:
        projection: the loss.
        size: (m, d), the number of candidates that are kept and the number of their pixels.
        params: hyperparameters.
        ctx: budget, randomness and checkpoints; its last checkpoint is gone on from.

    Attributes:
        best: (m, d) candidates with the smallest loss of all stages without spare ones.
        loss: the loss at `best`.
        spent: evaluations of the loss and its gradient.
    """

    def __init__(
        self, projection: ProjectionLoss, size: tuple[int, int], params: ProjectionParams, ctx: AttackContext
    ) -> None:
        self.projection, self.size, self.params, self.ctx = projection, size, params, ctx
        self.spare = math.ceil(params.surplus * size[0])
        self.best, self.loss = projection.learnt.new_zeros(0, size[1]), math.inf
        self.current, self.stage, self.done, self.spent = self.best, 0, 0, 0
        if state := ctx.resume():
            self.best, self.current = (state[name].to(projection.learnt) for name in ("best", "current"))
            self.stage, self.done, self.spent = (int(state[name]) for name in ("stage", "done", "spent"))
            self.loss = float(state["loss"])
            ctx.generator.set_state(state["generator"])

    def run(self) -> None:
        """Search until the update is spanned, all rounds are over, or the budget is spent.

        Raises:
            DivergedError: no loss is finite.
        """
        while self.stage < 2 * self.params.rounds and self.loss > self.params.spanned and not self.ctx.stopped:
            if self.stage % 2 == 0 and self.done == 0:
                lacking = self.size[0] + self.spare - len(self.best)
                drawn = torch.randn(lacking, self.size[1], generator=self.ctx.generator)
                self.current = torch.cat([self.best, self.params.pixel_size * drawn.to(self.best)])
            self._chunk(self.params.steps if self.stage % 2 == 0 else self.params.steps // 2)
            self.ctx.checkpoint(self._state)
        if not math.isfinite(self.loss):
            raise DivergedError("the share of the update that is left unexplained is not finite")

    def _chunk(self, limit: int) -> None:
        """Go on for a chunk of the stage's iterations, and end the stage if that was its last one."""
        losses = list[float]()

        def evaluate(flat: Tensor) -> tuple[float, Tensor]:
            loss, gradient = self.projection.evaluate(flat.view_as(self.current).to(self.current))
            losses.append(loss)
            self.spent += 1
            return loss, gradient.double().flatten()

        def done() -> bool:
            if self.spent % REPORT == 0:
                self.ctx.report(min(self.spent, self.steps), self.steps, unexplained=min(self.loss, losses[-1]))
            return losses[-1] <= self.params.spanned or self.ctx.expired(self.spent)

        steps = min(CHUNK, limit - self.done)
        if steps > 0 and not self.ctx.expired(self.spent):
            found = lbfgs(evaluate, self.current.double().flatten(), steps, done)
            self.current = found.view_as(self.current).to(self.current)
        self.done += CHUNK
        settled = not losses or not min(losses) < SETTLED * losses[0] or min(losses) <= self.params.spanned
        if self.done >= limit or settled or self.ctx.stopped:
            self._end()

    def _end(self) -> None:
        """Prune the spare candidates, keep the others if they are the best so far, and begin the next stage."""
        if len(self.current) > self.size[0]:
            self.current = self.projection.pruned(self.current, self.size[0])
        if self.stage % 2 or self.ctx.stopped:
            loss, _ = self.projection.evaluate(self.current)
            if loss < self.loss:
                self.best, self.loss = self.current, loss
        self.stage, self.done = self.stage + 1, 0

    @property
    def steps(self) -> int:
        """The largest number of iterations of all rounds together."""
        return self.params.rounds * (self.params.steps + self.params.steps // 2)

    def _state(self) -> dict[str, Tensor]:
        counts = {name: torch.tensor(getattr(self, name)) for name in ("stage", "done", "spent")}
        loss = torch.tensor(self.loss, dtype=torch.float64)
        return {
            "best": self.best,
            "current": self.current.clone(),  # after a stage without spare candidates it may be the best
            "loss": loss,
            "generator": self.ctx.generator.get_state(),
            **counts,
        }
