"""Reconstruction by training again from a known start: candidates whose training ends at the released weights."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from attacks.base import Knowledge, Reconstruction, VictimView
from attacks.kkt_delta import KKTDelta
from attacks.known_start.params import KKTDeltaParams, ResolvedParams
from attacks.search_space import Range
from victims.frozen_model import omitted_if_default

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.known_start.equation import Equation
    from attacks.optimisation.restarts import Restarts
    from victims.spec import VictimSpec


class ReplayParams(KKTDeltaParams):
    """Parameters of `replay`: those of `kkt-delta`, whose candidates it starts from, and of its own search.

    Attributes:
        start: as of `kkt-delta`; training cannot be run again from a start that is an estimate.
        crops: none, and no flips: every step is on the candidates as they are.
        replay_steps: optimiser steps of the search through the training; each costs about as much as four runs of the
            `most` training steps.
        most: largest number of training steps that are run again; of the later ones only the weight decay is applied.
        replay_lr: Adam's learning rate of the coordinates of the candidates, relative to their root mean square at the
            start.
        weight_lr: Adam's learning rate of the logits of the candidates' weights in a batch.
        replay_alpha: sharpness of the gates of the training.
    """

    start: Literal["known", "guess"] = "known"
    crops: Annotated[Literal[0], omitted_if_default(0)] = 0
    flips: Annotated[Literal[False], omitted_if_default(False)] = False
    replay_steps: PositiveInt = 80
    most: PositiveInt = 100
    replay_lr: PositiveFloat = 0.15
    weight_lr: PositiveFloat = 0.1
    replay_alpha: PositiveFloat = 30.0

    def resolved(self, images: int, moved: float) -> ResolvedParams:
        """Return the parameters of `kkt-delta` with what is None read off the weights."""
        shared = self.model_dump(include=set(KKTDeltaParams.model_fields))
        return KKTDeltaParams(**shared).resolved(images, moved)

    def of_replay(self, images: int, moved: float) -> ResolvedParams:
        """Return the parameters of the search through the training."""
        own = {"steps": self.replay_steps, "lr": self.replay_lr, "coefficient_lr": self.weight_lr}
        return self.resolved(images, moved).model_copy(update=own | {"alpha": (self.replay_alpha, self.replay_alpha)})


class Replay(KKTDelta):
    """Minimises ||A(candidates) - theta|| from the candidates of `kkt-delta`, where A is the victim's own training.

    The order of the batches is not known: every step of A is on the weighted mean of all candidates. Theta_t is where
    the candidates lead, and no longer on the straight way from start to end.
    """

    name = "replay"
    version = 1
    summary = "kkt-delta's candidates, moved until training from the known start ends at the released weights"
    paper = "beyond Buzaglo et al. 2023; unrolling after Tian et al. 2025 (SimuDy)"
    needs = KKTDelta.needs | {Knowledge.TRAINING}
    Params = ReplayParams
    params: ReplayParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {"seed": {"start": "guess"}}
    audits: ClassVar[tuple[str, ...]] = ()
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": {
            "replay_lr": Range(0.01, 0.5, log=True),
            "weight_lr": Range(0.01, 1, log=True),
            "replay_alpha": Range(5, 100, log=True),
        },
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline what is not trained by SGD alone, from end to end, on the cross-entropy of several classes."""
        training, architecture = victim.training, victim.architecture
        if training.kind != "ordinary":
            return "how it was trained is not a recipe of torch.optim that can be run again"
        if training.optimiser != "sgd" or training.clip or training.privacy or training.stop_loss:
            return "for SGD without clipping, privacy or early stop"
        if training.last_layers is not None or training.lora_rank is not None:
            return "for trainings of all layers"
        if victim.loss != "cross-entropy" or getattr(architecture, "outputs", 1) < 2:
            return "for the cross-entropy of several classes"
        if getattr(architecture, "biases", "every") != "every":
            return "for networks with a bias in every layer"
        return super().supports(victim)

    def _refined(
        self, pooled: Reconstruction, view: VictimView, equation: Equation, restarts: Restarts
    ) -> Reconstruction:
        """Return the candidates of `kkt-delta` after the search; their confidence is their weight in the batches.

        Where no training was run again, or it diverged, the loss is infinite: `kkt-delta` has another objective.
        """
        from attacks.known_start.polish import Polish
        from attacks.known_start.ranking import ranked
        from attacks.known_start.unrolled_training import UnrolledTraining
        from attacks.optimisation.restarts import Restart
        from victims.recipes import Ordinary

        training, (start, end), ctx = view.training, equation.ends, restarts.ctx
        assert isinstance(training, Ordinary)
        if ctx.stopped:
            return replace(pooled, loss=math.inf)
        params = self.params.of_replay(equation.rank, float(equation.found.singular.norm() / start.weights[0].norm()))
        again = UnrolledTraining.of(
            start.on_coordinates(equation.basis), training, equation.rank, self.params.most, self.params.replay_alpha
        )
        search = Polish(equation, end, again, pooled.candidates.flatten(1).to(end.weights[0]), params)
        spent = params.steps

        def report(step: int, residual: float) -> None:
            ctx.report(restarts.spent + step, restarts.spent + params.steps, residual=residual)

        def expired(step: int) -> bool:
            nonlocal spent
            if over := ctx.expired(restarts.spent + step):
                spent = step
            return over

        ended = search.run(report, expired, restarts.checkpoint_after, restarts.after)
        if not math.isfinite(ended.residual):
            lost = "the search through the training diverged: the candidates are those of kkt-delta"
            return replace(pooled, loss=math.inf, grad_evals=restarts.spent + spent, flags=(*pooled.flags, lost))
        labels: Tensor = search.targets.argmax(1)
        candidates = ended.candidates.reshape(pooled.candidates.shape).float()
        follows = None if self.params.ranking == "span" else search.consistency()
        found_again = Restart(ended.candidates, ended.weights, ended.residual, follows)
        return replace(
            pooled,
            candidates=candidates,
            labels=labels,
            confidence=ranked([found_again], candidates, self.params.ranking, labels),
            loss=ended.residual,
            grad_evals=restarts.spent + spent,
            flags=(*pooled.flags, f"W1 - c W1(0) missed by {ended.residual:.3f} of it when trained again"),
        )
