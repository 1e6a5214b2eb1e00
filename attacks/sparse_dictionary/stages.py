"""The stages of one attack: each takes more directions of the data subspace, and goes on from what others found."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attacks.base import AttackContext
from attacks.sparse_dictionary.neurons import Neurons
from attacks.sparse_dictionary.params import DifferencesParams
from attacks.sparse_dictionary.sparse import descend, distinct, independent, sparsity

REPORT_STEPS = 50
AGAIN = 0.2
"""The first step from what an earlier stage found, in units of `lr`."""


class Stages:
    """The stages of one attack, under the budget of its context, and the checkpoints that they go on from.

    Args:
        neurons: of the victim.
        params: the attack's parameters.
        ctx: the attack's context.

    Attributes:
        atoms: (k, d + 1), c_i [x_i, 1] up to a positive factor, of the stages that have ended.
        stage: (k,) the stage that found each.
        sparsity: the median `sparsity` of the atoms' codes in the last stage.
        spent: number of steps so far.
    """

    def __init__(self, neurons: Neurons, params: DifferencesParams, ctx: AttackContext) -> None:
        self.neurons, self.params, self.ctx = neurons, params, ctx
        empty = neurons.rows.new_zeros
        self.atoms, self.stage = empty(0, neurons.rows.shape[1]), empty(0, dtype=torch.long)
        self._duals, self._ended, self.spent, self.sparsity = empty(0, 0), 0, 0, float("nan")
        if state := ctx.resume():
            device = neurons.rows.device
            self.atoms, self.stage, self._duals = (state[key].to(device) for key in ("atoms", "stage", "duals"))
            self._ended, self.spent = int(state["ended"]), int(state["spent"])
            self.sparsity = float(state["sparsity"])
            ctx.generator.set_state(state["generator"])

    def run(self) -> None:
        """Run the remaining stages until the budget is spent; the first stage runs in any case, possibly shortened."""
        shares = sorted(self.params.shares)
        while self._ended < len(shares) and not (self._ended and self.ctx.expired(self.spent)):
            self._run(max(1, round(shares[self._ended] * self.neurons.rank)))
            self._ended += 1
            self.ctx.checkpoint(self._state)

    def agreement(self) -> Tensor:
        """Return each atom's largest cosine with another stage's atoms, its mean over the other stages: (k,).

        It is 0 if there is no other stage.
        """
        images = torch.nn.functional.normalize(self.atoms[:, :-1] * self.atoms[:, -1:].sign())
        stages = self.stage.unique()
        total = images.new_zeros(len(images))
        for stage in stages:
            nearest = (images @ images[self.stage == stage].T).amax(1)
            total += torch.where(self.stage == stage, 0.0, nearest)
        return total / max(len(stages) - 1, 1)

    def _run(self, directions: int) -> None:
        basis, differences = self.neurons.differences(directions, self.params.neighbours)
        if len(differences) < directions:
            return  # neurons that all lie on few points
        orthonormal, factor = torch.linalg.qr(differences)
        found = self._search(orthonormal, factor)
        self._duals = torch.linalg.solve_triangular(factor, found, upper=True)
        found = found[:, independent(found)]
        self.sparsity = float(sparsity(orthonormal, found).median())
        codes = orthonormal @ found
        normal = codes.T @ codes + self.params.ridge * torch.eye(codes.shape[1], device=codes.device)
        atoms = torch.linalg.solve(normal, codes.T @ differences) @ basis.T
        self.atoms = torch.cat([self.atoms, atoms])
        self.stage = torch.cat([self.stage, self.stage.new_full((len(atoms),), self._ended)])

    def _search(self, orthonormal: Tensor, factor: Tensor) -> Tensor:
        """Return sparse directions (r, m), the sparsest first, from differences and from what was found before.

        Args:
            orthonormal: Q (p, r) of the differences Q R.
            factor: R (r, r).
        """
        params, stepped = self.params, self._stepped(orthonormal)
        chosen = torch.randperm(len(orthonormal), generator=self.ctx.generator)[: params.starts]
        start = orthonormal[chosen.to(orthonormal.device)].T
        found = descend(orthonormal, start, params.steps, params.lr, stepped)
        if self._duals.numel():
            wider = self._duals.new_zeros(len(factor) - len(self._duals), self._duals.shape[1])
            start = factor @ torch.cat([self._duals, wider])
            again = descend(orthonormal, start, params.steps, AGAIN * params.lr, stepped)
            found = torch.cat([again, found], dim=1)
        return distinct(found, sparsity(orthonormal, found))

    def _stepped(self, orthonormal: Tensor) -> Callable[[Tensor], bool]:
        steps = (2 * len(self.params.shares) - 1) * self.params.steps

        def stepped(found: Tensor) -> bool:
            self.spent += 1
            if self.spent % REPORT_STEPS == 0:
                self.ctx.report(self.spent, steps, sparsity=float(sparsity(orthonormal, found).median()))
            return self.ctx.expired(self.spent)

        return stepped

    def _state(self) -> dict[str, Tensor]:
        counts = {"ended": torch.tensor(self._ended), "spent": torch.tensor(self.spent)}
        counts["sparsity"] = torch.tensor(self.sparsity, dtype=torch.float64)
        kept = {"atoms": self.atoms, "stage": self.stage, "duals": self._duals}
        return kept | counts | {"generator": self.ctx.generator.get_state()}
