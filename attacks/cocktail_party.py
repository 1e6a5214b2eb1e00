"""Reconstruction as blind source separation: the training images are the independent components of what they span.

The equations are in `attacks.independent_components`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from attacks.base import (
    Attack,
    AttackContext,
    DivergedError,
    Knowledge,
    Reconstruction,
    Threat,
    VictimView,
    no_reconstruction,
)
from attacks.independent_components.params import CocktailPartyParams
from attacks.known_start.no_image import FIRST_STAYED, STILL, declined, doubted, took_no_crops, took_no_update
from attacks.unknown_start import NO_MOMENTUM, NO_UPDATE, THREATS, knowledge_of
from victims.networks import DENSE_FIRST

if TYPE_CHECKING:
    from attacks.independent_components.span import UpdateSpan
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec


class CocktailParty(Attack[CocktailPartyParams]):
    """The mixtures of the rows of W1 - c W1(0) whose responses to small filters are the most independent.

    No residual is minimised and no image is searched: that each image has edges of its own tells it from a mixture. The
    network is asked for the signs alone, but in rounds, where what it says of the errors tells images from mixtures.
    """

    name = "cocktail-party"
    version = 4
    summary = "independent components of the rows that training has added to W1, in the responses to small filters"
    paper = "after Kariyappa et al. 2023"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})
    Params = CocktailPartyParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "seed": {"start": "guess"},
        "told": {"images": "told"},
        "forgotten": {"start": "forgotten", "pixel_size": 0.25, "signs": "both"},
        "momentum": {"start": "momentum"},
        "momentum-crops": {"start": "momentum", "crops": 4, "flips": True},
        "checkpoints": {"start": "checkpoints"},
        "checkpoints-crops": {"start": "checkpoints", "crops": 4, "flips": True},
        "momentum-lora": {"start": "momentum", "lora": True, "signs": "both"},
        "rounds": {"rounds": 16},
        "crops": {"crops": 4, "flips": True},
        "lora": {"lora": True},
    }
    audits: ClassVar[tuple[str, ...]] = (
        "",
        "seed",
        "forgotten",
        "momentum",
        "momentum-crops",
        "momentum-lora",
        "checkpoints",
        "checkpoints-crops",
        "crops",
        "lora",
    )

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The needs, without a start that is not told, and with n where it is."""
        needs = knowledge_of(self.needs, self.params.start)
        return needs | {Knowledge.N} if self.params.images == "told" else needs

    @property
    def threat(self) -> Threat:
        """Who can mount it: a start that is guessed, forgotten, or replaced need not be known."""
        return THREATS[self.params.start]

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs a first layer that sees the whole input, and a start that was kept or forgotten.

        The optimiser's state, or two states of the training, may be in the place of the start.

        Crops are undone where there were some, and low-rank updates taken apart.
        """
        otherwise, params = "start=guess to look for its seed, or start=forgotten", self.params
        if why := declined(victim, params.start, otherwise, DENSE_FIRST):
            return why
        return took_no_crops(victim, params.crops) or took_no_update(victim, params.lora, params.start)

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a wrong start, one that is said to be forgotten and remains, and an update said to be of low rank.

        Nothing that a card shows speaks against what stands in for a start.
        """
        start = self.params.start
        match start:
            case "momentum" | "checkpoints":
                return None
            case "forgotten":
                return exposure.start_remains
            case _ if self.params.lora and exposure.start is not None and exposure.start.adapter is None:
                return NO_UPDATE
            case _:
                return doubted(exposure, start, self.params.seeds)

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return as many candidates as there are directions, or twice as many if both signs are returned.

        A candidate is the surer the sparser its responses are, after rounds the more of its errors is explained. With
        both signs the negatives of all candidates follow, each less sure than any of them; with `flips` the mirror
        images of all these, each less sure by one. Where the span holds all moves of images, there are as many
        directions as images.

        Raises:
            DivergedError: the images are not finite.
            ValueError: the start has another shape, the training did not begin at it, or nothing stands in for it.
        """
        import torch

        from attacks.crops.undone import mirrored, uncropped
        from attacks.independent_components.crops import Unmoved
        from attacks.independent_components.pictures import Images
        from attacks.independent_components.rounds import SourceSeparation
        from attacks.optimisation.parts import Parts
        from attacks.source_separation.density import SPARSE, ScaleMixture
        from attacks.source_separation.responses import SIZE

        params, shape = self.params, view.architecture.input_shape
        if min(shape[1:]) < SIZE:
            return no_reconstruction(shape, "its records are no images")
        of_update = params.start == "momentum" and params.lora
        span, guessed = self._of_update(view, ctx) if of_update else self._span(view, ctx)
        if span is None:
            return no_reconstruction(shape, *guessed)
        whole = Unmoved.held_by(span, shape, params.crops)
        span, parts = whole.span if whole else span, Parts(ctx, params.schedule.total)
        density = SPARSE if params.density == "sparse" else ScaleMixture(shape[0])
        found = SourceSeparation(span, Images(shape, density), params.pixel_size, params.schedule, parts).run()
        if not found.images.isfinite().all():
            raise DivergedError("the images are not finite")
        late = () if found.settled else (f"not settled after {parts.done} iterations",)
        images, sure = whole.signed(found.images) if whole else found.images, found.sure
        if params.signs == "both":
            images = torch.cat([images, -images])
            sure = torch.cat([sure, sure - 1])  # a confidence lies between 0 and 1: less 1, it is behind all of them
        candidates = uncropped(images.unflatten(1, shape), 0 if whole else params.crops)
        if params.flips:
            candidates, sure = mirrored(candidates, sure)
        return Reconstruction(
            candidates=candidates,
            confidence=sure,
            loss=1 - float(found.sure.mean()),
            grad_evals=parts.done,
            flags=(*guessed, span.flag, *found.flags(params.schedule), *late),
        )

    def _of_update(self, view: VictimView, ctx: AttackContext) -> tuple[UpdateSpan | None, tuple[str, ...]]:
        """Return what the momentum for a low-rank update of layer 1 holds of the images, None and a flag if nothing."""
        from attacks.independent_components.span import UpdateSpan
        from attacks.unknown_start.momentum import NO_MEAN, mean_of_update

        if view.momentum is None:
            raise ValueError(NO_MOMENTUM)
        mean = mean_of_update(view.momentum)
        if mean is None:
            return None, (NO_MEAN,)
        n = view.n if self.params.images == "told" else None
        return UpdateSpan.of_update(mean.to(ctx.device), n), ()

    def _span(self, view: VictimView, ctx: AttackContext) -> tuple[UpdateSpan | None, tuple[str, ...]]:
        """Return what layer 1 holds of the images, None where it shows nothing of them, and flags on its start."""
        import torch

        from attacks.independent_components.span import UpdateSpan
        from attacks.independent_components.tail import layers, tails_between
        from attacks.known_start.equation import interpolated
        from attacks.unknown_start.adapter import without_adapter_start
        from attacks.unknown_start.start import final_weights, initial_weights

        params, architecture = self.params, view.architecture
        n = view.n if params.images == "told" else None
        weights = final_weights(view, params.start)
        state = {name: value.to(ctx.device, torch.float32) for name, value in weights.items()}
        end = layers(architecture, state)
        if params.start == "forgotten":
            span = UpdateSpan.held_by(end, n, *tails_between(architecture, state, state, 1.0))
            return span, () if span else ("W1 shows no end of the images' span: is its start forgotten?",)
        initial, guessed = initial_weights(view, ctx, params.start, params.seeds)
        if initial is None:
            return None, guessed
        begun = {name: value.to(ctx.device, torch.float32) for name, value in initial.items()}
        start = layers(architecture, begun)
        if torch.equal(start.weights[0], end.weights[0]):
            still = all(torch.equal(value, state[name]) for name, value in begun.items())
            return None, (*guessed, STILL if still else FIRST_STAYED)
        tails = tails_between(architecture, begun, state, 0.0, 0.5, 1.0)
        if not params.lora:
            return UpdateSpan.added_to(start, end, n, tails), guessed
        apart, update = without_adapter_start(start, end, params.seeds, ctx, shape=architecture.input_shape)
        if apart is None:
            return None, (*guessed, *update)
        way = tails or (start, interpolated(start, end, 0.5), end)
        return UpdateSpan.added_to(start, apart.network, n, way, apart).through_update(apart.up), (*guessed, *update)
