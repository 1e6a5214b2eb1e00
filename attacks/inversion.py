"""Naive model inversion: inputs with the largest output for a class (Haim et al. 2022, 5.4; Fredrikson et al. 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, VictimView
from attacks.optimisation.initialisation import InitialisedParams, balanced_labels, initial
from victims.frozen_model import omitted_if_default

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from victims.spec import VictimSpec

Interval = tuple[PositiveFloat, PositiveFloat]
PIXELS = (-1.0, 1.0)
"""Pixels of [0, 1] less their mean lie in it."""
MOMENTUM = 0.9
BATCH = 1000


class InversionParams(InitialisedParams):
    """Parameters of `inversion`.

    Attributes:
        candidates: number of starts; their classes are in the proportions of the training set.
        init: the start of the candidates; see `attacks.optimisation.initialisation`.
        init_scale: standard deviation of the normal noise, or half the width of the uniform one, times a draw from
            `scale_range`.
        mixture: (l1, l2) of the start "mixture".
        objective: of the class that a candidate is given, its "logit" (Haim et al.; with several classes the log of
            its odds) or its "probability" (Fredrikson et al., MIFace).
        steps: optimiser steps, gradient descent with momentum 0.9.
        lr: learning rate, times a draw from `lr_range`.
        scale_range: each start draws the factor of its `init_scale` log-uniformly from it.
        lr_range: range of the factor of `lr`; the defaults of both are the ranges of Haim et al.
        total_variation: weight of the mean absolute difference of neighbouring pixels.
        threshold: a candidate stops once its class has this probability; 1 for never.
        access: "weights" differentiates the network; "logits" asks for outputs alone and estimates the gradient by
            finite differences along random directions.
        directions: black-box only: pairs of queries a step and candidate.
        difference: black-box only: length of a difference, relative to the square root of the number of pixels.
        pixels: range of a pixel in the victim's input space. The default holds all pixels of [0, 1] less a mean; those
            that are also divided by a scale may lie outside.
    """

    candidates: PositiveInt = 4000
    init_scale: PositiveFloat = 1.0
    objective: Literal["logit", "probability"] = "logit"
    steps: PositiveInt = 100
    lr: PositiveFloat = 1.0
    scale_range: Interval = (1e-6, 1.0)
    lr_range: Interval = (1e-5, 1.0)
    total_variation: NonNegativeFloat = 0.0
    threshold: PositiveFloat = 1.0
    access: Literal["weights", "logits"] = "weights"
    directions: PositiveInt = 20
    difference: PositiveFloat = 1e-3
    pixels: Annotated[tuple[float, float], omitted_if_default(PIXELS)] = PIXELS

    @model_validator(mode="after")
    def _ranges_rise(self) -> InversionParams:
        if self.pixels[0] >= self.pixels[1]:
            raise ValueError("the range of a pixel is (low, high)")
        if self.scale_range[0] > self.scale_range[1] or self.lr_range[0] > self.lr_range[1]:
            raise ValueError("a range is (low, high)")
        return self


class Inversion(Attack[InversionParams]):
    """Climbs the victim's own output for a class from thousands of starts, inside the box of `pixels`.

    It is the paper's baseline: it finds what the network takes for the class, which need not be what it was trained on.
    """

    name = "inversion"
    summary = "naive model inversion: inputs with the largest output for a class"
    paper = "Haim et al. 2022, Section 5.4; Fredrikson et al. 2015"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE})
    Params = InversionParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # MIFace's published rate and cost, but from noise: from its zero image all candidates of a class are one.
        "miface": {
            "objective": "probability",
            "candidates": 100,
            "steps": 1000,
            "lr": 0.1,
            "lr_range": (1.0, 1.0),
            "threshold": 0.99,
        },
        "black-box": {"access": "logits", "candidates": 100},
    }
    audits = ("", "black-box")

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, with logits instead of weights in the black box, and those that its start needs."""
        needs = self.needs | self.params.start_needs()
        return needs if self.params.access == "weights" else needs - {Knowledge.WEIGHTS} | {Knowledge.LOGITS}

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline regressions, which have no classes, and the weights of a kernel machine; the network may be any."""
        if victim.architecture.kind == "kernel" and self.params.access == "weights":
            return "the weights of a kernel machine are its training images; --variant black-box asks for its answers"
        return None if victim.loss == "cross-entropy" else f"it is a regression ({victim.loss}), which has no classes"

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Optimise all candidates, `BATCH` at a time."""
        import torch

        params = self.params
        labels = balanced_labels(params.candidates, view.class_balance)
        scales = _log_uniform(params.scale_range, len(labels), ctx.generator)
        rates = params.lr * _log_uniform(params.lr_range, len(labels), ctx.generator)
        starts = initial(params, view, labels, ctx.generator)
        if params.init in ("normal", "uniform"):
            starts = starts * scales[:, None, None, None]
        climb = self._ascent(view, ctx)
        batches = range(0, len(labels), BATCH)
        climbed: list[tuple[Tensor, Tensor, int]] = []
        for batch, first in enumerate(batches):
            before = batch * params.steps
            if climbed and ctx.expired(before):
                break

            def report(step: int, probability: float, before: int = before) -> None:
                ctx.progress(before + step, len(batches) * params.steps, probability=probability)

            def expired(step: int, before: int = before) -> bool:
                return ctx.expired(before + step)

            part = slice(first, first + BATCH)
            images, given = starts[part].to(ctx.device), labels[part].to(ctx.device)
            climbed.append(self._optimise(climb, images, given, rates[part].to(images), report, expired))
        found = torch.cat([images for images, _, _ in climbed])
        logits = torch.cat([values for _, values, _ in climbed])
        per_candidate = 2 * params.directions if params.access == "logits" else 1
        return Reconstruction(
            candidates=found,
            labels=labels[: len(found)],
            confidence=logits.float(),
            loss=float(-logits.mean()),
            grad_evals=sum(steps for _, _, steps in climbed) * per_candidate,
        )

    def _optimise(
        self,
        climb: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        images: Tensor,
        labels: Tensor,
        rates: Tensor,
        report: Callable[[int, float], None],
        expired: Callable[[int], bool],
    ) -> tuple[Tensor, Tensor, int]:
        """Return the climbed images (m, C, H, W), the logits (m,) of the classes given to them, and the steps taken."""
        import torch

        params, taken = self.params, 0
        velocity, rates = torch.zeros_like(images), rates[:, None, None, None]
        for step in range(params.steps):
            if expired(step):
                break
            taken += 1
            logits, ascent = climb(images, labels)
            probabilities = logits.sigmoid()
            if params.objective == "probability":
                ascent = ascent * (probabilities * (1 - probabilities))[:, None, None, None]
            if params.total_variation:
                ascent = ascent - params.total_variation * _variation_gradient(images)
            velocity = MOMENTUM * velocity + ascent
            going = (probabilities < params.threshold) | (params.threshold >= 1)
            moved = (images + rates * velocity).clamp(*params.pixels)
            images = torch.where(going[:, None, None, None], moved, images)
            if step % 10 == 0 or step == params.steps - 1:
                report(step + 1, float(probabilities.mean()))
        return images, climb(images, labels)[0], taken

    def _ascent(self, view: VictimView, ctx: AttackContext) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the function from images and classes to the classes' logits and their gradients in the images."""
        import torch

        from victims.devices.upload import uploaded
        from victims.equations.losses import soft_margins

        params = self.params
        if params.access == "weights":
            network = view.architecture.build()
            network.load_state_dict(view.weights)

            def differentiated(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
                images = images.detach().requires_grad_()
                logits = soft_margins(network(images), labels)
                (gradient,) = torch.autograd.grad(logits.sum(), images)
                return logits.detach(), gradient

            return differentiated

        def estimated(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            """Mean over directions u of (f(x + h u) - f(x - h u)) / 2h u, whose expectation is the gradient."""
            pixels = images[0].numel()
            step = params.difference * math.sqrt(pixels)
            gradient = torch.zeros_like(images)
            for _ in range(params.directions):
                drawn = torch.randn(images.shape, generator=ctx.generator)
                direction = uploaded(drawn.to(images.dtype), images.device)
                direction = direction / direction.flatten(1).norm(dim=1)[:, None, None, None]
                ahead, behind = (soft_margins(view.logits(images + h * direction), labels) for h in (step, -step))
                rise = (ahead - behind) / (2 * step)
                gradient += rise[:, None, None, None] * direction * (pixels / params.directions)
            return soft_margins(view.logits(images), labels), gradient

        return estimated


def _log_uniform(limits: tuple[float, float], count: int, generator: torch.Generator) -> Tensor:
    """Return draws (count,) whose logarithm is uniform between the limits'."""
    import torch

    low, high = math.log(limits[0]), math.log(limits[1])
    return (low + (high - low) * torch.rand(count, generator=generator)).exp()


def _variation_gradient(images: Tensor) -> Tensor:
    """Return the gradient (m, C, H, W) of each image's mean absolute difference of neighbouring pixels."""
    import torch

    images = images.detach().requires_grad_()
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean((1, 2, 3))
    right = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    (gradient,) = torch.autograd.grad((down + right).sum(), images)
    return gradient
