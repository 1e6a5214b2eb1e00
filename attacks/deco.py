"""Reconstruction by gradient matching: images at which the training problem is stationary at the released weights.

The equation, eq. 3 of Runkel et al. 2024, is `victims.equations.adjoint.StationarityResidual` with coefficients tied to
the loss (`attacks.kkt_family.coefficients.tied_coefficients`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from attacks.base import (
    AttackContext,
    DivergedError,
    Knowledge,
    Reconstruction,
    VictimView,
    declined_unless_binary,
)
from attacks.optimisation.initialisation import InitialisedAttack, InitialisedParams, balanced_labels, initial

if TYPE_CHECKING:
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec


class DecoParams(InitialisedParams):
    """Parameters of `deco`.

    Attributes:
        init: the start of the images; see `attacks.optimisation.initialisation`.
        init_scale: standard deviation of the normal noise, half the width of the uniform one.
        mixture: (l1, l2) of the start "mixture".
        optimizer: "lbfgs", or "momentum" for gradient descent with momentum 0.9.
        steps: iterations.
        lr: step of "momentum"; "lbfgs" finds its own.
        alpha: sharpness of the gates that stand for the ReLU's derivative.
    """

    init_scale: PositiveFloat = 1.0
    optimizer: Literal["lbfgs", "momentum"] = "lbfgs"
    steps: PositiveInt = 200
    lr: PositiveFloat = 1.0
    alpha: PositiveFloat = 100.0


class Deco(InitialisedAttack[DecoParams]):
    """Minimises ||grad_theta E(x, y; theta*)||^2 over n images with balanced labels (Runkel et al. 2024, eq. 3).

    With weight decay the gradient is wd theta* - (1/n) sum_i s_i grad Phi(x_i), s_i = t_i - sigmoid(Phi(x_i)). It is
    the stationarity residual of `kkt` times wd, with multipliers s_i / (n wd) that the images determine. The loss is
    that residual, ||R||^2 / ||theta*||^2; a candidate's confidence is the size of its multiplier.
    """

    name = "deco"
    summary = "images at which the training loss with weight decay has no gradient at the released weights"
    paper = "Runkel et al. 2024, Training Data Reconstruction: Privacy due to Uncertainty?; Buzaglo et al. 2023"
    needs = frozenset(
        {Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE, Knowledge.N, Knowledge.WEIGHT_DECAY}
    )
    Params = DecoParams
    # 0.01 is the scale of the lowest residual on faces-mlp-20-256-wd; the paper's untuned start is N(0, 1)
    variants: ClassVar[dict[str, dict[str, Any]]] = {"tuned": {"init_scale": 0.01}}

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline victims that are no binary classifiers, or without weight decay."""
        if (reason := declined_unless_binary(victim)) is not None:
            return reason
        if not victim.weight_decay:
            return "without weight decay any confidently classified images have no gradient; kkt's form is for these"
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network that is at no minimum of its training problem."""
        return exposure.start_remains if exposure.hidden else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Minimise the residual from one start."""
        import torch

        from attacks.kkt_family.coefficients import tied_coefficients
        from attacks.optimisation.descent import descend
        from victims.equations.adjoint import StationarityResidual, Weighting
        from victims.equations.network import Network

        params = self.params
        network = Network.of(view.weights, view.architecture.input_shape, ctx.device, torch.float64)
        squares = network.layer_square_norms()
        shares = tuple(float(square / sum(squares)) for square in squares)
        residual = StationarityResidual(network, Weighting.uniform(network, shares))
        labels = balanced_labels(view.n, view.class_balance)
        images = initial(params, view, labels, ctx.generator).flatten(1).to(network.weights[0])
        factors = torch.full_like(images[:, 0], 1 / (len(labels) * view.weight_decay))
        tied = tied_coefficients("cross-entropy", labels.to(ctx.device), factors).at
        evaluations = 0

        def evaluate(point: torch.Tensor) -> tuple[float, torch.Tensor]:
            nonlocal evaluations
            evaluations += 1
            inputs = point.view_as(images)
            value, gradient = residual(inputs, tied, params.alpha)
            if not (math.isfinite(float(value)) and bool(gradient.isfinite().all())):
                raise DivergedError(f"the residual is not finite after {evaluations} evaluations")
            return float(value), gradient.flatten()

        def report(step: int, value: float) -> None:
            ctx.report(step, params.steps, residual=value)

        point, value = descend(
            evaluate, images.flatten(), params.optimizer, params.steps, params.lr, report, ctx.expired
        )
        inputs = point.view_as(images)
        coefficients = tied(network.forward(inputs, torch.relu).requires_grad_())[:, 0].detach()
        return Reconstruction(
            candidates=inputs.reshape(-1, *view.architecture.input_shape).float(),
            labels=labels,
            coefficients=coefficients.float(),
            confidence=coefficients.abs().float(),
            loss=value,
            grad_evals=evaluations,
        )
