"""Reconstruction from a fine-tuned network whose first layers are convolutions, or layers that were not tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, VictimView, no_reconstruction
from attacks.known_start.no_image import FIRST_MOVED, LAST_ALONE, STILL
from attacks.known_start.params import MISSED, FeatureParams
from attacks.search_space import Range
from victims.networks import has_tail

if TYPE_CHECKING:
    from victims.exposure.card import Exposure
    from victims.ordinary.difference import Difference
    from victims.spec import VictimSpec


class KKTDeltaFeatures(Attack[FeatureParams]):
    """Images x_i with W - c W(0) = sum_i D_i phi(x_i)', for the first fully connected layer W that the training moved.

    phi is all that stands before that layer, with batch normalisation by the running statistics on the way. Images are
    searched on cosines, and a candidate pays for features outside the span that the difference shows.
    """

    name = "kkt-delta-features"
    version = 2
    summary = "kkt-delta behind convolutions, or behind layers that were not tuned: W - c W(0) = sum D_i phi(x_i)'"
    paper = "after Buzaglo et al. 2023; span check after Petrov et al. 2024 (DAGER); new here"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})
    Params = FeatureParams
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": {
            "lr": Range(0.02, 1, log=True),
            "coefficient_lr": Range(0.01, 1, log=True),
            "amplitude_power": Range(0, 2),
            "residual_power": Range(0, 1),
            "feature_span": Range(0.1, 10, log=True),
            "signal_span": Range(0.01, 10, log=True),
            "prior": Range(1e-4, 0.1, log=True),
        },
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs a start that was kept, and something before the first layer that moved."""
        if not victim.tells_start:
            return "the start of its training is not known"
        architecture = victim.architecture
        if architecture.kind in ("module", "kernel") or has_tail(architecture):
            return f"{architecture.label}: for fully connected layers with ReLUs, behind convolutions or others"
        tuned = victim.training.last_layers if victim.training.kind == "ordinary" else None
        if (
            tuned == 1
            or architecture.kind == "rf"
            or (architecture.kind in ("cnn", "conv") and not architecture.hidden)
        ):
            return LAST_ALONE
        may_stay = tuned or victim.training.kind == "released"
        if architecture.kind == "mlp" and (len(architecture.hidden) < 2 or not may_stay):
            return FIRST_MOVED
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a fully connected network whose first layer moved."""
        start = exposure.start
        return FIRST_MOVED if start is not None and not start.behind_front and start.stayed == 0 else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Read the span of the features off the weights, search from `restarts` random starts, pool the candidates.

        Raises:
            ValueError: the victim has no one start, no layer moved from it, or it is of another shape or a wrong one.
        """
        import torch

        from attacks.known_start.descent import run_all
        from attacks.known_start.equation import Equation, checked_difference
        from attacks.known_start.feature_search import FeatureSearch
        from attacks.known_start.front import FeatureExtractor, convolutions, head
        from attacks.known_start.ranking import pooled
        from attacks.optimisation.restarts import Restarts
        from victims.equations.network import layer_weights
        from victims.ordinary.difference import first_moved

        params, architecture, shape = self.params, view.architecture, view.architecture.input_shape
        if (initial := view.initial_weights) is None:
            raise ValueError("the victim has no one start")
        start, end = initial, view.weights
        before = convolutions(end)
        if (stayed := first_moved(start, end, before)) is None:
            raise ValueError(STILL)
        if architecture.spec.kind == "mlp" and stayed == 0:
            return no_reconstruction(shape, FIRST_MOVED)
        if stayed > before and stayed + 1 == len(layer_weights(end)):
            return no_reconstruction(shape, LAST_ALONE)
        dtype = getattr(torch, params.dtype)
        first, last = (
            head({name: value.to(ctx.device, dtype) for name, value in state.items()}, stayed) for state in (start, end)
        )
        found = checked_difference(first, last)
        rank, assumed = self._directions(found)
        equation = Equation.of(first, last, found, rank, (params.point,))
        front = FeatureExtractor.of(lambda: architecture.build().to(dtype), start, end, params.point, stayed)
        m = params.candidates or 2 * rank
        restarts = Restarts(ctx, params.restarts, params.steps, equation.weight)
        run_all(restarts, lambda: FeatureSearch(equation, front, shape, m, params, ctx.generator), params.ranking)
        behind = f"behind {stayed} layers that stayed, " if stayed > before else ""
        flags = f"{behind}start decayed to {found.decay:.4g}, {rank} directions searched", *assumed
        return pooled(restarts, shape, params.ranking, {"candidates": m}, flags)

    def _directions(self, found: Difference) -> tuple[int, tuple[str, ...]]:
        """Return the number of directions that are searched, and a flag where no gap shows the number of images."""
        if self.params.directions is not None:
            return min(self.params.directions, len(found.singular)), ()
        if found.shows_images:
            return found.rank, ()
        rank = found.holding(1 - MISSED)
        return rank, (f"n is not shown: searched the {rank} directions with all but {MISSED:g} of the squares",)
