"""The search: queries are asked and counted, and images explain the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.base import Reconstruction
from attacks.kernel_queries.descent import step
from attacks.kernel_queries.equation import Answers, Fit
from attacks.kernel_queries.transform import are_labels, kernel_sums, may_be_probabilities
from attacks.kernel_queries.width import read_width
from victims.kernel.spec import Kernel, Model

DAMPING = 0.1
"""The damping of the first step, relative to the curvature."""
FORETOLD = 1e-8
"""The images are found if they leave less than this share of the kept answers, the newest among them,
unexplained, by coefficients that are solved for with all of them."""
BATCH = 4096
"""Queries that are sent at once."""


@dataclass(frozen=True)
class Setting:
    """What a search looks for, and what it may ask.

    Attributes:
        model: what the machine is.
        kernel: its kernel's family.
        shape: (C, H, W) of an image.
        candidates: images that are looked for.
        kept: how many of the last queries are explained at a time.
        each: queries a round.
        most: queries in all.
        pixels: range of a pixel; None for any, and then about 1.
        width: the kernel's inverse width; None if it is to be found.
    """

    model: Model
    kernel: Kernel
    shape: tuple[int, int, int]
    candidates: int
    kept: int
    each: int
    most: int
    pixels: tuple[float, float] | None
    width: float | None


class Search:
    """A search in float64, from random images.

    Args:
        setting: what it looks for.
        answer: what the victim answers to inputs (q, C, H, W).
        generator: draws starts and queries.
        device: where to compute.
        state: of an interrupted search, to go on from; empty to begin.
    """

    def __init__(
        self,
        setting: Setting,
        answer: Callable[[Tensor], Tensor],
        generator: torch.Generator,
        device: torch.device,
        state: dict[str, Tensor],
    ) -> None:
        self.setting, self._answer, self._generator, self._device = setting, answer, generator, device
        self.done = self.asked = self.products = 0
        self.damping, self.foretold, self._maybe_probabilities = DAMPING, False, True
        low, high = setting.pixels or (0.0, 1.0)
        self._low, self._range = low, high - low
        if state:
            self._restore(state)
            return
        size = math.prod(setting.shape)
        self._points = self._low + 0.3 * self._range * self._uniform(setting.candidates, size)
        self._queries, self._answers = self._points[:0], torch.zeros(0, 1)
        width = setting.width
        if width is None:
            span = self._range * math.sqrt(size)
            width = read_width(self._asked, self._sums, setting.kernel, size, span, generator)
        self._log_gamma = torch.tensor(width, dtype=torch.float64, device=device).log()

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self._generator, dtype=torch.float64).to(self._device)

    def _asked(self, queries: Tensor) -> Tensor:
        """Ask queries (q, d), count them, and return the answers (q, C) in float64 on the search's device."""
        parts = [self._answer(part.reshape(-1, *self.setting.shape)) for part in queries.float().split(BATCH)]
        self.asked += len(queries)
        answers = torch.cat(parts).double().reshape(len(queries), -1).to(self._device)
        self._maybe_probabilities = self._maybe_probabilities and may_be_probabilities(answers)
        return answers

    def _sums(self, answers: Tensor) -> Tensor:
        """Return the values (q, C) of answers (q, C); see `kernel_sums`.

        Answers are taken for probabilities if all answers so far could be probabilities and these are not all labels.
        """
        return kernel_sums(self.setting.model, answers, self._maybe_probabilities and not are_labels(answers))

    def ask(self, spread: float | None) -> None:
        """Ask a round of queries: around the candidates, or all over the box if `spread` is None."""
        count = min(self.setting.each, self.setting.most - self.asked)
        if count <= 0:
            return
        points = self._points
        if spread is None:
            queries = self._low + self._range * self._uniform(count, points.shape[1])
        else:
            noise = torch.randn(count, points.shape[1], generator=self._generator, dtype=torch.float64)
            around = torch.arange(count, device=self._device) % len(points)
            queries = points[around] + spread * self._range * noise.to(self._device)
        queries = queries.float().double()  # as they are sent
        answers = self._asked(queries)
        kept = self.setting.kept
        self._queries = torch.cat([self._queries, queries])[-kept:]
        self._answers = torch.cat([self._answers.to(answers).expand(-1, answers.shape[1]), answers])[-kept:]
        self._fit = None
        self.foretold = spread is not None and self.fit.loss < FORETOLD

    _fit: Fit | None = None

    @property
    def fit(self) -> Fit:
        """The equation at the images so far."""
        if self._fit is None:
            values = self._sums(self._answers)
            answers = Answers(self.setting.kernel, self._queries, values, constant=self.setting.model != "density")
            self._fit = Fit(answers, self._points, self._log_gamma)
        return self._fit

    def advance(self, iterations: int, expired: Callable[[], bool]) -> None:
        """Take one step."""
        fit, self.damping, products = step(
            self.fit.answers,
            self.fit,
            self.damping,
            self.setting.pixels,
            self.setting.width is None,
            iterations,
            expired,
        )
        self._fit, self._points, self._log_gamma = fit, fit.points, fit.log_gamma
        self.products += products
        self.done += 1

    def settle(self, images: int, steps: int, iterations: int, expired: Callable[[], bool]) -> None:
        """Keep the `images` candidates with the largest coefficients, and take up to `steps` more steps with them.

        All candidates are kept where they do not explain the answers, or where the reduced set does not.
        """
        if self.fit.loss >= FORETOLD:
            return
        kept = self.fit.coefficients.norm(dim=1).topk(min(images, len(self._points))).indices.sort().values
        fit, damping, box = Fit(self.fit.answers, self._points[kept], self._log_gamma), DAMPING, self.setting.pixels
        for _ in range(steps):
            if expired():
                break
            fit, damping, products = step(
                fit.answers, fit, damping, box, self.setting.width is None, iterations, expired
            )
            self.products += products
        if fit.loss < FORETOLD:
            self._fit, self._points, self._log_gamma = fit, fit.points, fit.log_gamma

    def state(self) -> dict[str, Tensor]:
        """Return all that the search goes on from."""
        numbers = torch.tensor([self.done, self.asked, self.products, self._maybe_probabilities], dtype=torch.int64)
        return {
            "points": self._points,
            "log_gamma": self._log_gamma,
            "queries": self._queries.float(),
            "answers": self._answers,
            "numbers": numbers,
            "damping": torch.tensor(self.damping, dtype=torch.float64),
            "generator": self._generator.get_state(),
        }

    def _restore(self, state: dict[str, Tensor]) -> None:
        self._points, self._log_gamma, self._answers = (
            state[name].to(self._device) for name in ("points", "log_gamma", "answers")
        )
        self._queries = state["queries"].to(self._device).double()
        self.done, self.asked, self.products, maybe_probabilities = state["numbers"].tolist()
        self._maybe_probabilities = bool(maybe_probabilities)
        self.damping = float(state["damping"])
        self._generator.set_state(state["generator"])

    def reconstruction(self) -> Reconstruction:
        """Return the images; the confidence is how well the answers around an image are explained."""
        fit, setting = self.fit, self.setting
        coefficients = fit.coefficients
        labels = coefficients.argmax(1) if coefficients.shape[1] > 1 else (coefficients[:, 0] > 0).long()
        own = coefficients.gather(1, labels[:, None])[:, 0] if coefficients.shape[1] > 1 else coefficients[:, 0]
        flags = [f"gamma {float(fit.log_gamma.exp()):.6g}"]
        values = fit.answers.values
        equations, unknowns = values.numel(), fit.points.numel() + coefficients.numel()
        if equations < unknowns:
            flags.append(f"{equations:,} equations for {unknowns:,} unknowns")
        if not values.any():
            flags.append("all answers are alike: they tell no image")
        elif are_labels(self._answers):
            flags.append("answers are labels: no sums of kernels")
        elif setting.model == "density" and self._maybe_probabilities:
            flags.append("answers are probabilities of densities: no sums of kernels")
        return Reconstruction(
            candidates=fit.points.float().reshape(-1, *setting.shape),
            labels=labels,
            coefficients=own.float(),
            confidence=-self._misfit().float(),
            loss=fit.loss,
            grad_evals=max(self.products, 1),
            flags=tuple(flags),
        )

    def _misfit(self) -> Tensor:
        """Return for each image (m,) the mean squared residual at the queries nearest to it, relative to the values."""
        fit = self.fit
        nearest = fit.squared.argmin(1)
        squares = (fit.residual * fit.residual).mean(1)
        sums = squares.new_zeros(len(fit.points)).index_add(0, nearest, squares)
        counts = squares.new_zeros(len(fit.points)).index_add(0, nearest, torch.ones_like(squares))
        mean = squares.mean()
        return torch.where(counts > 0, sums / counts.clamp_min(1), mean) / fit.answers.size
