"""Reconstruction of what was added to a known start: a fine-tuned checkpoint, or a seed that was guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, Threat, VictimView, no_reconstruction
from attacks.known_start.no_image import (
    FIRST_STAYED,
    LAST_ALONE,
    STILL,
    adapted,
    declined,
    doubted,
    took_no_crops,
)
from attacks.known_start.params import DIRECTIONS_PER_IMAGE, LEFT_OUT, KKTDeltaParams
from attacks.search_space import Range
from attacks.unknown_start import THREATS

if TYPE_CHECKING:
    from attacks.known_start.equation import Equation
    from attacks.optimisation.restarts import Restarts
    from victims.exposure.card import Exposure
    from victims.ordinary.difference import Difference
    from victims.spec import VictimSpec


PARTS: dict[str, Any] = {
    "images": "told",
    "points": (0.5,),
    "signal_span": 0.0,
    "total_variation": 0.5,
    "restarts": 4,
    "agreement": 0.6,
    "products": "bfloat16",
}
"""Of the variants that make up the difference of parts."""


class KKTDelta(Attack[KKTDeltaParams]):
    """Candidates and coefficients with W1 - c W1(0) = sum_i sum_t c_ti grad Phi(x_i; theta_t).

    The difference of an ordinarily trained network and its start is a sum of gradients, for any order of batches, any
    momentum and any schedule. It shows c, the number of images and their span; see `victims.ordinary.difference`.
    """

    name = "kkt-delta"
    version = 3
    summary = "stationarity moved to a known start: W1 - c W1(0) = sum c_ti grad Phi(x_i; theta_t), on the way"
    paper = "after Buzaglo et al. 2023 and Loo et al. 2024; new here"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})
    Params = KKTDeltaParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "seed": {"start": "guess"},
        "snapshots": {"path": "snapshots"},
        "told": {"images": "told"},
        "crops": {"crops": 4} | PARTS,
        "flips-crops": {"crops": 4, "flips": True} | PARTS,
        "uniform": {"start": "uniform", "coordinate_power": 0.3, "total_variation": 0.5, "restarts": 3},
    }
    audits: ClassVar[tuple[str, ...]] = ("", "seed", "uniform", "crops", "flips-crops")
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": {
            "lr": Range(0.02, 1, log=True),
            "coefficient_lr": Range(0.01, 1, log=True),
            "coordinate_power": Range(0, 1),
            "residual_power": Range(0, 1),
            "neuron_power": Range(0, 1.5),
            "signal_span": Range(0.01, 10, log=True),
        },
    }

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The needs, without a start that is not told, and with the earlier weights and n where they are used."""
        needs = self.needs if self.params.start == "known" else self.needs - {Knowledge.INITIAL_WEIGHTS}
        needs = needs | {Knowledge.N} if self.params.images == "told" else needs
        return needs | {Knowledge.EARLIER_WEIGHTS} if self.params.path == "snapshots" else needs

    @property
    def threat(self) -> Threat:
        """Who can mount it: a start that is guessed or estimated need not be known."""
        return THREATS[self.params.start]

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a start whose seed is not found, or that is not where the training began, and a layer that stayed."""
        start = self.params.start
        return None if start == "uniform" else doubted(exposure, start, self.params.seeds)

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs a start that was kept, and a fully connected network with a hidden layer."""
        if why := declined(victim, self.params.start, "start=guess to look for its seed, or start=uniform"):
            return why
        if why := took_no_crops(victim, self.params.crops):
            return why
        if self.params.path == "snapshots" and not (victim.training.kind == "ordinary" and victim.training.snapshots):
            return "it released no weights on the way: set path=segment"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the pooled candidates of `restarts` random starts, searched with the c and n that the weights show.

        Raises:
            ValueError: the start has another shape, the training did not begin at it, or a start that was told is the
                released network itself.
        """
        import torch

        from attacks.crops.undone import mirrored
        from attacks.known_start.descent import run_all
        from attacks.known_start.equation import Equation, checked_difference
        from attacks.known_start.ranking import agreed, pooled
        from attacks.known_start.search import Search
        from attacks.optimisation.restarts import Restarts
        from attacks.unknown_start.start import initial_weights
        from victims.equations.network import Network, layer_weights
        from victims.ordinary.difference import first_moved
        from victims.ordinary.update import low_rank
        from victims.training.hardware import products_in

        shape = view.architecture.input_shape
        initial, guessed = initial_weights(view, ctx, self.params.start, self.params.seeds)
        if initial is None:
            return no_reconstruction(shape, *guessed)
        initial = {name: value.to(ctx.device) for name, value in initial.items()}
        stayed = first_moved(initial, view.weights)
        if stayed is None and self.params.start == "guess":
            return no_reconstruction(shape, *guessed, STILL)
        if stayed:
            last = stayed + 1 == len(layer_weights(initial))
            return no_reconstruction(shape, *guessed, LAST_ALONE if last else FIRST_STAYED)
        if self.params.path == "snapshots" and not view.earlier_weights:
            return no_reconstruction(shape, *guessed, "its training ended before its first snapshot: set path=segment")
        start, end = (
            Network.of(weights, shape, ctx.device, getattr(torch, self.params.dtype))
            for weights in (initial, view.weights)
        )
        found = checked_difference(start, end)
        n, assumed = self._images(view, found)
        rank = min(DIRECTIONS_PER_IMAGE * n, len(found.singular)) if self.params.cuts else n
        if low := low_rank(start, end, found):
            assumed = (adapted(low),)
        params = self.params.resolved(n, float(found.singular.norm() / start.weights[0].norm()))
        equation = Equation.of(start, end, found, rank, params.points)
        if self.params.start == "uniform":
            equation = replace(equation, bias=None)  # what was added to the biases is not known
        if params.path == "snapshots":
            passed = (Network.of(one, shape, ctx.device, start.weights[0].dtype) for one in view.earlier_weights)
            equation = replace(equation, networks=tuple(one.on_coordinates(equation.basis) for one in passed))
        restarts = Restarts(ctx, params.restarts, params.steps, end.weights[0])
        with products_in(params.products):
            run_all(
                restarts,
                lambda: Search(equation, params, ctx.generator, agreed(restarts.finite, params.agreement)),
                params.ranking,
            )
        flags = *guessed, f"start decayed to {found.decay:.4g}, {rank} directions searched", *assumed
        together = pooled(restarts, shape, params.ranking, params.differing(self.params), flags)
        if params.flips and together.confidence is not None:
            candidates, sure = mirrored(together.candidates, together.confidence)
            together = replace(together, candidates=candidates, confidence=sure)
        return self._refined(together, view, equation, restarts)

    def _refined(
        self, pooled: Reconstruction, view: VictimView, equation: Equation, restarts: Restarts
    ) -> Reconstruction:
        """Return the pooled candidates as they are; a subclass may search on from them.

        Args:
            pooled: the candidates of all restarts.
            view: what the attack knows.
            equation: what the candidates make up.
            restarts: for reports, budget and checkpoints.
        """
        return pooled

    def _images(self, view: VictimView, found: Difference) -> tuple[int, tuple[str, ...]]:
        """Return the number of training images that is assumed, and a flag where the weights do not show it."""
        if self.params.images == "told":
            return min(view.n, len(found.singular)), ()
        if self.params.start == "uniform":
            rank = found.holding(1 - LEFT_OUT)
            return rank, (f"n is not shown: assumed {rank}, the directions that hold all but {LEFT_OUT:g} of L",)
        if found.shows_images:
            return found.rank, ()
        rank = found.above_noise
        return rank, (f"n is not shown: assumed {rank}, the directions of W1 - c W1(0) that stand above noise",)
