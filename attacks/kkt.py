"""KKT margin reconstruction (Haim, Vardi, Yehudai, Shamir, Irani 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, VictimView
from attacks.initialisation import InitialisedParams, initial

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.stationarity.network import Network
    from attacks.stationarity.row_space import RowSpace


class KKTParams(InitialisedParams):
    """Parameters of `kkt`.

    Attributes:
        method: "row-space" is the fast solver (attacks/stationarity/search.py), "published" the authors' loop.
        candidates: how many candidates a restart has; None for twice the number of directions that W1 shows, or 1000.
        restarts: independent searches whose candidates are pooled.
        steps: optimiser steps a restart.
        lr: learning rate of the candidates (Adam's for the fast solver, SGD's for the published one).
        lambda_lr: learning rate of the multipliers.
        init: where the candidates start; see `attacks.initialisation`. The fast solver draws normal noise on W1's row
            space.
        init_scale: standard deviation sigma_x of the normal start, half the width of a uniform one.
        mixture: (l1, l2) of the start "mixture".
        alpha: sharpness of the sigmoid gates.
        lambda_min: published solver only: multipliers are pushed above it.
        layer_weights: fast solver only: weight of each layer's residual, the last one repeated for deeper layers.
            Layer 1 alone by default: the others keep their initial values, a floor that no candidate can reach.
        coordinate_power: fast solver only: p of `search`.
        residual_power: fast solver only: q of `search`.
        neuron_power: fast solver only: s of `search`.
        dtype: precision of the search.
    """

    method: Literal["row-space", "published"] = "row-space"
    candidates: PositiveInt | None = None
    restarts: PositiveInt = 8
    steps: PositiveInt = 300
    lr: PositiveFloat = 0.2
    lambda_lr: PositiveFloat = 0.01
    init_scale: PositiveFloat = 0.01
    alpha: PositiveFloat = 100.0
    lambda_min: NonNegativeFloat = 0.0
    layer_weights: tuple[NonNegativeFloat, ...] = Field((1.0, 0.0), min_length=1)
    coordinate_power: NonNegativeFloat = 0.5
    residual_power: NonNegativeFloat = 0.3
    neuron_power: NonNegativeFloat = 1.0
    dtype: Literal["float32", "float64"] = "float32"


class KKT(Attack[KKTParams]):
    """Finds candidates and multipliers that satisfy the stationarity of the margin problem at the released weights."""

    name = "kkt"
    summary = "stationarity of the margin problem: theta = sum lambda_i y_i grad Phi(x_i)"
    paper = "Haim et al. 2022, Reconstructing Training Data from Trained Neural Networks"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE})
    Params = KKTParams
    helpers = ("attacks.stationarity", "attacks.initialisation")
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # The authors' released CIFAR configuration (run b9dfyspx of their sweep) and their 50,000 steps.
        "paper": {
            "method": "published",
            "candidates": 1000,
            "restarts": 1,
            "steps": 50_000,
            "lr": 0.5549,
            "lambda_lr": 1e-4,
            "init_scale": 8.857e-4,
            "lambda_min": 0.4983,
            "alpha": 19.14,
            "dtype": "float64",
        },
    }

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What it needs, and what its start needs."""
        return self.needs | self.params.start_needs()

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search from `restarts` random starts and pool the candidates."""
        import torch

        from attacks.stationarity.network import Network
        from attacks.stationarity.row_space import row_space

        params = self.params
        network = Network.of(view.weights, ctx.device, getattr(torch, params.dtype))
        space = row_space(network.weights[0])
        m = params.candidates or (2 * space.rank if space.gap else 1000)
        positives = round(m * view.class_balance[1])
        signs = torch.cat([-torch.ones(m - positives), torch.ones(positives)]).to(network.weights[0])
        labels = ((signs + 1) / 2).long()

        found = []
        for restart in range(params.restarts):

            def report(step: int, residual: float, restart: int = restart) -> None:
                done = restart * params.steps + step
                ctx.progress(done, params.restarts * params.steps, residual=residual)
                ctx.record(done, residual=residual)

            drawn = params.init == "normal"  # by the solver, where it searches
            start = None if drawn else initial(params, view, labels, ctx.generator).flatten(1)
            found.append(self._search(network, space, signs, start, ctx, report))
        candidates = torch.cat([candidates for candidates, _, _ in found])
        return Reconstruction(
            candidates=candidates.reshape(-1, *view.architecture.input_shape).float(),
            labels=labels.repeat(params.restarts),
            coefficients=torch.cat([multipliers for _, multipliers, _ in found]).float(),
            loss=min(loss for _, _, loss in found),
            grad_evals=params.restarts * params.steps,
        )

    def _search(
        self,
        network: Network,
        space: RowSpace,
        signs: Tensor,
        start: Tensor | None,
        ctx: AttackContext,
        report: Callable[[int, float], None],
    ) -> tuple[Tensor, Tensor, float]:
        """Return one restart's candidates (m, d), multipliers (m,) and final objective."""
        from attacks.stationarity.published import published_search
        from attacks.stationarity.search import SearchSettings, search

        params = self.params
        if params.method == "published":
            return published_search(
                network,
                signs,
                steps=params.steps,
                lr=params.lr,
                lambda_lr=params.lambda_lr,
                init_scale=params.init_scale,
                lambda_min=params.lambda_min,
                alpha=params.alpha,
                generator=ctx.generator,
                report=report,
                start=start,
            )
        layers = (params.layer_weights + params.layer_weights[-1:] * network.depth)[: network.depth]
        settings = SearchSettings(
            steps=params.steps,
            lr=params.lr,
            lambda_lr=params.lambda_lr,
            init_scale=params.init_scale,
            alpha=params.alpha,
            layer_weights=layers,
            coordinate_power=params.coordinate_power,
            residual_power=params.residual_power,
            neuron_power=params.neuron_power,
        )
        found = search(network, space, signs, settings, ctx.generator, report, start)
        return found.candidates, found.multipliers, found.residual
