"""What the attacks of the family have in common: restarts in the row space of W1, pooled; imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from attacks.base import AttackContext, Reconstruction, VictimView, declined_unless_layered
from attacks.context import UNLIMITED
from attacks.initialisation import InitialisedAttack, balanced_labels, initial
from attacks.stationarity.params import MarginParams, SearchParams

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attacks.stationarity.coefficients import Coefficients, Rivals
    from attacks.stationarity.network import Network
    from attacks.stationarity.problem import Problem
    from attacks.stationarity.restarts import Restart, Restarts
    from victims.spec import VictimSpec

Begin = tuple["Tensor | None", "Coefficients"]
"""The start of one: candidates (m, d), None to draw them, and coefficients."""
ROWS = {"cpu": 1024, "cuda": 8192}
"""How many candidates a batch of restarts has: matrix products with so many rows fill the device."""
ParamsT = TypeVar("ParamsT", bound=SearchParams)
MarginParamsT = TypeVar("MarginParamsT", bound=MarginParams)


class StationarityAttack(InitialisedAttack[ParamsT]):
    """Finds candidates x_i and coefficients c_ij with theta = sum_ij c_ij grad Phi_j(x_i) at the released weights."""

    crowding: ClassVar[float] = 2.0
    """Candidates a direction that the weights show, unless a number of them is given."""

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline networks whose layers are not known, and a price on images where the weights are sums of features."""
        if victim.architecture.kind == "conv" and self.params.method == "row-space" and self.params.sparsity:
            return "sparsity prices the lengths of images, and W2 is made of their features: set sparsity=0"
        return declined_unless_layered(victim)

    @abstractmethod
    def labels(self, view: VictimView, m: int) -> Tensor | None:
        """Return the classes (m,) that the candidates are given, None if they get none."""

    @abstractmethod
    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return the coefficients of one restart, at their start."""

    @property
    def lambda_min(self) -> float | None:
        """What the published solver pushes multipliers above, None where they may have any sign."""
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search from `restarts` random starts and pool the candidates."""
        import torch

        from attacks.stationarity.confidence import confidence
        from attacks.stationarity.problem import Problem
        from attacks.stationarity.restarts import Restarts

        params = self.params
        problem = Problem.of(view, ctx.device, getattr(torch, params.dtype))
        shown = problem.shown
        m = params.candidates or (round(self.crowding * shown.rank) if shown.gap else 1000)
        n_classes = max(len(problem.network.weights[-1]), 2)
        labels = self.labels(view, m)
        if labels is not None:
            labels = labels.to(ctx.device)

        def begin() -> Begin:
            images = None  # drawn by the solver, where it searches
            if params.init != "normal":
                classes = torch.arange(m) % n_classes if labels is None else labels
                images = initial(params, view, classes, ctx.generator).flatten(1)
            return images, self.coefficients(view, problem.network, labels, m, ctx.generator)

        restarts = Restarts(ctx, params.restarts, params.steps, problem.network.weights[0])
        while count := restarts.next(self._together(m, ctx)):
            if params.method == "published":
                restarts.end([self._published(problem, begin, m, restarts)])
            else:
                restarts.end(self._fast(problem, [begin] * count, m, restarts))
        kept, flags = restarts.kept()
        candidates = torch.cat([one.candidates for one in kept])
        sizes = torch.cat([one.sizes for one in kept])
        if labels is not None:
            labels = labels.repeat(len(kept))
        return Reconstruction(
            candidates=candidates.reshape(-1, *view.architecture.input_shape).float(),
            labels=labels,
            coefficients=sizes.float(),
            confidence=confidence(candidates, sizes, labels, len(kept), problem.space, params.coordinate_power),
            resolved={"candidates": m},
            loss=min(one.loss for one in kept),
            grad_evals=restarts.spent,
            flags=flags,
        )

    def _together(self, m: int, ctx: AttackContext) -> int:
        """Return how many restarts are one batch: under a budget one, to have some at their end when it is spent."""
        if self.params.method == "published":
            return 1
        return self.params.together or (max(1, ROWS[ctx.device.type] // m) if ctx.budget == UNLIMITED else 1)

    def _fast(
        self, problem: Problem, begins: Sequence[Callable[[], Begin]], m: int, restarts: Restarts
    ) -> list[Restart]:
        """Return the ends of one batch of `search`."""
        import torch

        from attacks.stationarity.restarts import Restart
        from attacks.stationarity.search import Start, coordinates_of, search

        params, space, generator = self.params, problem.space, restarts.ctx.generator
        starts = []
        for begin in begins:
            images, coefficients = begin()
            if images is None:
                coordinates = torch.randn(m, space.rank, generator=generator) * params.init_scale
            else:
                coordinates = coordinates_of(images, space, params.coordinate_power)
            starts.append(Start(coordinates, coefficients))

        def residuals(every: Iterable[Tensor]) -> list[float]:
            pairs = zip(every, starts, strict=True)
            return [problem.unexplained(candidates, start.coefficients.rows) for candidates, start in pairs]

        def reached(step: int, candidates: Tensor) -> None:
            restarts.report(step, residuals(candidates))

        found = search(problem, starts, params, reached, restarts.expired, restarts.checkpoint, restarts.unfinished)
        losses = residuals(one.candidates for one in found)
        return [Restart(one.candidates, one.sizes, loss) for one, loss in zip(found, losses, strict=True)]

    def _published(self, problem: Problem, begin: Callable[[], Begin], m: int, restarts: Restarts) -> Restart:
        """Return the end of one restart of the authors' loop."""
        from attacks.stationarity.published import published_search
        from attacks.stationarity.restarts import Restart

        params = self.params
        images, coefficients = begin()

        def residual(candidates: Tensor) -> float:  # the published sum is a mean
            return problem.unexplained(candidates, lambda outputs: coefficients.rows(outputs) / m)

        candidates, sizes = published_search(
            problem.network,
            coefficients,
            m,
            steps=params.steps,
            lr=params.lr,
            lambda_lr=params.lambda_lr,
            init_scale=params.init_scale,
            lambda_min=self.lambda_min,
            alpha=params.alpha,
            generator=restarts.ctx.generator,
            report=lambda step, candidates: restarts.report(step, [residual(candidates)]),
            start=images,
            expired=restarts.expired,
            checkpoint=restarts.checkpoint,
            state=restarts.unfinished,
        )
        return Restart(candidates, sizes, residual(candidates))


class MarginAttack(StationarityAttack[MarginParamsT]):
    """A `StationarityAttack` whose coefficients are multipliers lambda_i >= 0 on the margins of labelled candidates."""

    def labels(self, view: VictimView, m: int) -> Tensor:
        """Return classes in the proportions of the training set."""
        return balanced_labels(m, view.class_balance)

    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return multipliers that start at random and alike."""
        import torch

        from attacks.stationarity.coefficients import margin_coefficients

        assert labels is not None
        draw = torch.rand(m, generator=generator).to(network.weights[0])
        published = self.params.method == "published"
        start = draw if published else (0.5 + draw) / m
        return margin_coefficients(labels, start, self.rivals, positive=not published)

    @property
    def lambda_min(self) -> float:
        """The floor of the multipliers."""
        return self.params.lambda_min

    @property
    def rivals(self) -> Rivals:
        """Which rival classes a margin is measured against."""
        return "all"
