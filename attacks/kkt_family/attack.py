"""The attack that the family shares: restarts in the data subspace of W1, whose candidates are pooled.

The equation that it minimises is `victims.equations.stationarity`. Imports no torch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from attacks.base import AttackContext, Reconstruction, VictimView, declined_unless_layered
from attacks.context import UNLIMITED
from attacks.kkt_family.params import MarginParams, SearchParams
from attacks.optimisation.initialisation import InitialisedAttack, balanced_labels, initial

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attacks.kkt_family.coefficients import Coefficients, Rivals
    from attacks.kkt_family.problem import Problem
    from attacks.kkt_family.search import Start
    from attacks.optimisation.restarts import Restart, Restarts
    from victims.equations.network import Network
    from victims.equations.stationarity import CoefficientMap
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

Begin = tuple["Tensor | None", "Coefficients"]
"""The start of one restart: candidates (m, d), None for the solver to draw them, and coefficients."""
CANDIDATES_PER_BATCH = {"cpu": 1024, "cuda": 8192}
"""By device, the number of candidates that fill it; the restarts of a batch together have about this number."""
ParamsT = TypeVar("ParamsT", bound=SearchParams)
MarginParamsT = TypeVar("MarginParamsT", bound=MarginParams)


class StationarityAttack(InitialisedAttack[ParamsT]):
    """Finds candidates x_i and coefficients c_ij with theta = sum_ij c_ij grad Phi_j(x_i) at the released weights."""

    candidates_per_direction: ClassVar[float] = 2.0
    """A restart has this many candidates for each direction of the data subspace, unless `candidates` is given."""

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline layers that are not known, or none of which counts, and prices without a meaning here."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        convolution = victim.architecture.kind == "conv"
        if convolution and self.params.method == "row-space" and self.params.sparsity:
            return "sparsity prices the lengths of images, and W2 is made of their features: set sparsity=0"
        if not convolution and self.params.smoothness:
            return "smoothness prices cosines, and images are sought in the row space of W1: set smoothness=0"
        network = victim.architecture
        assert network.kind in ("mlp", "conv")
        if self.params.offset_price and not network.hidden:
            return "offset_price prices gates, and it has no hidden layer: set offset_price=0"
        if not any(self.params.by_layer(len(network.hidden) + 1)):
            return f"layer_weights has no weight above 0 for its {len(network.hidden) + 1} fully connected layers"
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network that is at no stationary point."""
        return exposure.start_remains

    @abstractmethod
    def labels(self, view: VictimView, m: int) -> Tensor | None:
        """Return the classes (m,) of the candidates, None for an attack without labels."""

    @abstractmethod
    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return the coefficients of one restart, at their start.

        Args:
            view: the victim.
            network: the same as plain tensors.
            labels: (m,) classes of the candidates, None if they have none.
            m: the number of candidates.
            generator: CPU generator of the start.
        """

    @property
    def lambda_min(self) -> float | None:
        """The floor that the published solver keeps multipliers above, None where they may have any sign."""
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search from `restarts` random starts and pool the candidates."""
        import torch

        from attacks.kkt_family.problem import Problem
        from attacks.optimisation.restarts import Restarts

        params = self.params
        problem = Problem.of(view, ctx.device, getattr(torch, params.dtype))
        subspace = problem.data_subspace
        m = params.candidates or (round(self.candidates_per_direction * subspace.rank) if subspace.gap else 1000)
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

        restarts = Restarts(ctx, params.restarts, params.steps_of_a_restart, problem.network.weights[0])
        while count := restarts.next(self._per_batch(m, ctx)):
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
            confidence=self._ranking(problem, kept, labels, view.architecture.input_shape),
            resolved={"candidates": m},
            loss=min(one.loss for one in kept),
            grad_evals=restarts.spent,
            flags=flags,
        )

    def _ranking(
        self, problem: Problem, kept: Sequence[Restart], labels: Tensor | None, shape: tuple[int, int, int]
    ) -> Tensor:
        """Return the confidence (m,) in all candidates of the restarts, which have these labels (m,) or none."""
        import torch

        from attacks.kkt_family.ranking.confidence import confidence
        from attacks.kkt_family.ranking.evidence import ranked

        candidates, sizes = (torch.cat([getattr(one, name) for one in kept]) for name in ("candidates", "sizes"))
        counts = [len(one.candidates) for one in kept]
        agreed = confidence(candidates, sizes, labels, counts, problem.space, self.params.coordinate_power)
        images = candidates.reshape(-1, *shape)
        return ranked(agreed, kept, images, labels, copies_count=self.params.ranking != "distinct")

    def _ended(self, problem: Problem, candidates: Tensor, sizes: Tensor, coefficients: CoefficientMap) -> Restart:
        """Return a restart that ended at candidates (m, d) of weights (m,), with this map to their coefficients."""
        from attacks.optimisation.restarts import Restart

        loss = problem.relative_residual(candidates, coefficients)
        if self.params.ranking == "agreement" or not math.isfinite(loss):
            return Restart(candidates, sizes, loss)
        from attacks.kkt_family.ranking.evidence import consistency

        return Restart(
            candidates, sizes, loss, consistency(problem, candidates, coefficients, self.params.coordinate_power)
        )

    def _per_batch(self, m: int, ctx: AttackContext) -> int:
        """Return the number of restarts in a batch: one under a budget, so that some have ended when it is spent."""
        if self.params.method == "published":
            return 1
        if self.params.restarts_per_batch:
            return self.params.restarts_per_batch
        return max(1, CANDIDATES_PER_BATCH[ctx.device.type] // m) if ctx.budget == UNLIMITED else 1

    def _fast(
        self, problem: Problem, begins: Sequence[Callable[[], Begin]], m: int, restarts: Restarts
    ) -> list[Restart]:
        """Return the restarts of one batch, run by the fast solver."""
        from attacks.kkt_family.search import search
        from victims.training.hardware import products_in

        params = self.params
        starts = [self._start(problem, begin, m, restarts.ctx.generator) for begin in begins]

        def residuals(every: Iterable[Tensor]) -> list[float]:
            pairs = zip(every, starts, strict=True)
            return [problem.relative_residual(candidates, start.coefficients.at) for candidates, start in pairs]

        def reached(step: int, candidates: Tensor) -> None:
            restarts.report(step, residuals(candidates))

        with products_in(params.products):
            found = search(problem, starts, params, reached, restarts.expired, restarts.checkpoint, restarts.unfinished)
        ends = zip(found, starts, strict=True)
        return [self._ended(problem, one.candidates, one.sizes, start.coefficients.at) for one, start in ends]

    def _start(self, problem: Problem, begin: Callable[[], Begin], m: int, generator: torch.Generator) -> Start:
        """Return where one restart of the fast solver begins."""
        import torch

        from attacks.kkt_family.search import Start, coordinates_of

        images, coefficients = begin()
        if images is not None:
            return Start(coordinates_of(images, problem.space, self.params.coordinate_power), coefficients)
        drawn = torch.randn(m, problem.space.rank, generator=generator) * self.params.init_scale
        return Start(drawn, coefficients)

    def _published(self, problem: Problem, begin: Callable[[], Begin], m: int, restarts: Restarts) -> Restart:
        """Return one restart, run by the authors' loop."""
        from attacks.kkt_family.published import published_search

        params = self.params
        images, coefficients = begin()

        def averaged(outputs: Tensor) -> Tensor:  # the published sum is a mean
            return coefficients.at(outputs) / m

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
            report=lambda step, found: restarts.report(step, [problem.relative_residual(found, averaged)]),
            start=images,
            expired=restarts.expired,
            checkpoint=restarts.checkpoint,
            state=restarts.unfinished,
        )
        return self._ended(problem, candidates, sizes, averaged)


class MarginAttack(StationarityAttack[MarginParamsT]):
    """A `StationarityAttack` whose coefficients are multipliers lambda_i >= 0 on the margins of labelled candidates."""

    def labels(self, view: VictimView, m: int) -> Tensor:
        """Return classes in the proportions of the training set."""
        return balanced_labels(m, view.class_balance)

    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return multipliers that start at random, all of the same size."""
        import torch

        from attacks.kkt_family.coefficients import margin_coefficients

        assert labels is not None
        draw = torch.rand(m, generator=generator).to(network.weights[0])
        published = self.params.method == "published"
        start = draw if published else (0.5 + draw) / m
        return margin_coefficients(labels, start, self.rivals, positive=not published)

    @property
    def lambda_min(self) -> float:
        """The floor that the published solver keeps multipliers above."""
        return self.params.lambda_min

    @property
    def rivals(self) -> Rivals:
        """The rival classes that a margin is measured against."""
        return "all"

    def _ranking(
        self, problem: Problem, kept: Sequence[Restart], labels: Tensor | None, shape: tuple[int, int, int]
    ) -> Tensor:
        """Return the confidence (m,) in all candidates of the restarts: the chance of each if it is calibrated."""
        if self.params.ranking != "calibrated":
            return super()._ranking(problem, kept, labels, shape)
        from attacks.kkt_family.ranking.calibration import calibrated, factors

        assert labels is not None
        return calibrated(factors(problem, kept, labels, shape, self.params.coordinate_power))
