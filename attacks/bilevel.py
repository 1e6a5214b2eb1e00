"""Bilevel reconstruction: images on which training would end at the released weights (Runkel et al. 2024, eq. 2).

The equation, ||theta* - theta(x)||^2 and its gradient, is `attacks.implicit.hypergradient.hypergradient`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import (
    AttackContext,
    DivergedError,
    Knowledge,
    Reconstruction,
    VictimView,
    declined_unless_binary,
)
from attacks.implicit.params import ImplicitParams
from attacks.optimisation.initialisation import InitialisedAttack, InitialisedParams, balanced_labels, initial
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.implicit.hypergradient import Hypergradient
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

MOST_HIDDEN = 1
"""The most hidden layers of a victim: every step trains it again."""
DAMPING = 1e-2
"""Damping of the lower level where its minimum is not unique and none is set."""


class BilevelParams(ImplicitParams, InitialisedParams):
    """Parameters of `bilevel`.

    Attributes:
        init: the start of the images; see `attacks.optimisation.initialisation`.
        init_scale: standard deviation of the normal noise, half the width of the uniform one.
        mixture: (l1, l2) of the start "mixture".
        labels: "balanced" fixes them in the proportion of the classes, "learnt" makes each target sigmoid(u) with u
            optimised beside the images, from the balanced labels.
        optimizer: optimiser of the upper level, "lbfgs", or "momentum" for gradient descent with momentum 0.9.
        steps: upper-level iterations.
        lr: step of "momentum"; "lbfgs" finds its own.
        sharpness: b of softplus(b z) / b, in the place of the ReLU; see `attacks.implicit.training_problem`.
        damping: damping of the lower level, see `attacks.implicit.hypergradient`. None for no damping where the minimum
            is unique (an affine victim with weight decay), and for 0.01 elsewhere, which a flag of the row says.
    """

    init: Literal["normal", "uniform", "truth", "partition", "mixture"] = "uniform"
    labels: Literal["balanced", "learnt"] = "balanced"
    optimizer: Literal["lbfgs", "momentum"] = "lbfgs"
    steps: PositiveInt = 100
    lr: PositiveFloat = 0.5
    sharpness: PositiveFloat = 50.0
    damping: NonNegativeFloat | None = None


class Bilevel(InitialisedAttack[BilevelParams]):
    """Moves n images until training on them ends at the released weights, differentiating through the training.

    The upper level is ||theta* - theta(x)||^2, the lower level the victim's own training problem; see
    `attacks.implicit`. The lower level starts at the released weights, and afterwards where it last ended: of several
    minima that chooses one near theta*. A candidate's confidence is the size of its multiplier,
    |t_i - sigmoid(Phi(x_i))| / (n (wd + damping)), its share in theta*.
    """

    name = "bilevel"
    summary = "images on which training ends at the released weights, by implicit differentiation"
    paper = "Runkel et al. 2024, Training Data Reconstruction: Privacy due to Uncertainty?"
    needs = frozenset(
        {Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE, Knowledge.N, Knowledge.WEIGHT_DECAY}
    )
    Params = BilevelParams

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline victims that are no binary classifiers, and deep ones: every step trains the victim again."""
        if (reason := declined_unless_binary(victim)) is not None:
            return reason
        if victim.architecture.kind == "mlp" and len(victim.architecture.hidden) > MOST_HIDDEN:
            return "solves the training problem at every step: for affine and one-hidden-layer victims"
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network that is at no minimum of its training problem."""
        return exposure.start_remains if exposure.hidden else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the images that minimise the distance, found from one start.

        The coefficients are s_i / (n (wd + damping)), s_i = t_i - sigmoid(Phi(x_i)); the confidence is their size.

        Raises:
            UserError: the victim has no weight decay, and damping is 0.
            DivergedError: a hypergradient is not finite.
        """
        import torch

        from attacks.implicit.hypergradient import hypergradient
        from attacks.implicit.training_problem import TrainingProblem
        from attacks.optimisation.descent import descend
        from victims.equations.network import Network

        params = self.params
        released = Network.of(view.weights, view.architecture.input_shape, ctx.device, torch.float64)
        problem = TrainingProblem(released, view.weight_decay, params.sharpness)
        unique = view.weight_decay > 0 and released.depth == 1
        damping = params.damping if params.damping is not None else 0.0 if unique else DAMPING
        if not damping and not view.weight_decay:
            raise UserError("damping=0: without weight decay the training problem has no minimum; set damping above 0")
        labels = balanced_labels(view.n, view.class_balance)
        images = initial(params, view, labels, ctx.generator).flatten(1).to(released.weights[0])
        n, d = images.shape
        solution, worst, evaluations = released, _Worst(), 0
        learnt = params.labels == "learnt"
        fixed = labels.to(images)

        def evaluate(point: torch.Tensor) -> tuple[float, torch.Tensor]:
            nonlocal solution, evaluations
            inputs, targets = point[: n * d].view(n, d), point[n * d :].sigmoid() if learnt else fixed
            found = hypergradient(problem, released, solution, inputs, targets, params, damping)
            evaluations += 1
            gradient = found.inputs.flatten()
            if learnt:
                gradient = torch.cat([gradient, found.targets * targets * (1 - targets)])
            if not (math.isfinite(found.distance) and bool(gradient.isfinite().all())):
                raise DivergedError(f"the hypergradient is not finite after {evaluations} evaluations")
            solution = found.solution
            worst.see(found)
            return found.distance, gradient

        def report(step: int, distance: float) -> None:
            ctx.report(step, params.steps, distance=distance)

        start = torch.cat([images.flatten(), 2 * (2 * fixed - 1)]) if learnt else images.flatten()
        point, distance = descend(evaluate, start, params.optimizer, params.steps, params.lr, report, ctx.expired)
        inputs = point[: n * d].view(n, d)
        targets = point[n * d :].sigmoid() if learnt else fixed
        slopes = targets - problem.outputs(problem.flat(released), inputs).sigmoid()
        coefficients = slopes / (n * (view.weight_decay + damping))
        return Reconstruction(
            candidates=inputs.reshape(n, *view.architecture.input_shape).float(),
            labels=(targets > 0.5).long(),
            coefficients=coefficients.float(),
            confidence=coefficients.abs().float(),
            loss=distance,
            grad_evals=evaluations,
            flags=worst.flags(params, None if unique else damping),
        )


class _Worst:
    """The largest errors of the lower level in any evaluation, for the row's flags."""

    def __init__(self) -> None:
        self.gradient = self.residual = self.added = 0.0

    def see(self, found: Hypergradient) -> None:
        """Take the errors of one evaluation into account."""
        self.gradient = max(self.gradient, found.relative_gradient)
        self.residual = max(self.residual, found.residual)
        self.added = max(self.added, found.added)

    def flags(self, params: BilevelParams, damping: float | None) -> tuple[str, ...]:
        """Return a flag for every tolerance that was missed; `damping` is None if the lower level needs none."""
        flags = []
        if damping is not None:
            flags.append(f"lower-level minimum not unique: damped by {damping:g}")
        if self.gradient > params.lower_tolerance:
            flags.append(f"lower level stopped at relative gradient {self.gradient:.2g}")
        if self.residual > params.inverse_tolerance:
            flags.append(f"inverse-Hessian product stopped at relative residual {self.residual:.2g}")
        if self.added:
            flags.append(f"Hessian not positive: {self.added:.2g} added to its diagonal")
        return tuple(flags)
