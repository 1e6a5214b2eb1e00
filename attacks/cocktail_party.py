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
from attacks.knowledge import Architecture
from attacks.known_start.no_image import FIRST_STAYED, STILL, declined, doubted, took_no_crops, took_no_update
from attacks.unknown_start import NO_MOMENTUM, NO_UPDATE, THREATS, knowledge_of
from victims.networks import DENSE_FIRST

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.independent_components.crops import Unmoved
    from attacks.independent_components.errors import Explaining
    from attacks.independent_components.rounds import Separated
    from attacks.independent_components.span import UpdateSpan
    from attacks.unknown_start.stretches import Stretch
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
        "snapshots": {"start": "snapshots"},
        "snapshots-crops": {"start": "snapshots", "crops": 4, "flips": True},
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
        "snapshots",
        "snapshots-crops",
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

        An earlier release, the optimiser's state, or states of the training may be in the place of the start.

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
            case "momentum" | "snapshots" | "checkpoints":
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
        directions as images. Of several stretches between states of a training the candidates follow one another.

        Raises:
            DivergedError: the images are not finite.
            ValueError: the start has another shape, the training did not begin at it, or nothing stands in for it.
        """
        import torch

        from attacks.independent_components.crops import Unmoved
        from attacks.independent_components.pictures import Images
        from attacks.independent_components.rounds import Separated, SourceSeparation
        from attacks.optimisation.parts import Parts
        from attacks.source_separation.density import SPARSE, ScaleMixture
        from attacks.source_separation.responses import SIZE

        params, shape = self.params, view.architecture.input_shape
        if min(shape[1:]) < SIZE:
            return no_reconstruction(shape, "its records are no images")
        spans, flags = self._spans(view, ctx)
        if not spans:
            return no_reconstruction(shape, *flags)
        wholes = [Unmoved.held_by(span, shape, params.crops) for span in spans]
        spans = [whole.span if whole else span for whole, span in zip(wholes, spans, strict=True)]
        parts = Parts(ctx, params.schedule.total * len(spans))
        pictures = Images(shape, SPARSE if params.density == "sparse" else ScaleMixture(shape[0]))
        separations = [SourceSeparation(span, pictures, params.pixel_size, params.schedule, parts) for span in spans]
        ended = parts.in_turn([separation.packed for separation in separations])
        found = [Separated.of(one, span.basis) for one, span in zip(ended, spans, strict=True)]
        returned = [self._returned(one, whole, shape) for one, whole in zip(found, wholes, strict=True)]
        late = () if all(one.settled for one in found) else (f"not settled after {parts.done} iterations",)
        each = zip(spans, found, strict=True)
        said = (flag for span, one in each for flag in (span.flag, *one.flags(params.schedule)))
        return Reconstruction(
            candidates=torch.cat([candidates for candidates, _ in returned]),
            confidence=torch.cat([sure for _, sure in returned]),
            loss=1 - float(torch.cat([one.sure for one in found]).mean()),
            grad_evals=parts.done,
            flags=tuple(dict.fromkeys((*flags, *said, *late))),
        )

    def _returned(self, found: Separated, whole: Unmoved | None, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
        """Return candidates (m, C, H, W) and how sure they are (m,), of what one span was separated into.

        Args:
            found: the end of the separation.
            whole: the images of which the span holds all moves, if that is what was separated.
            shape: (C, H, W) of an image.

        Raises:
            DivergedError: the images are not finite.
        """
        import torch

        from attacks.crops.undone import mirrored, uncropped

        if not found.images.isfinite().all():
            raise DivergedError("the images are not finite")
        images, sure = whole.signed(found.images) if whole else found.images, found.sure
        if self.params.signs == "both":
            images = torch.cat([images, -images])
            sure = torch.cat([sure, sure - 1])  # a confidence lies between 0 and 1: less 1, it is behind all of them
        candidates = uncropped(images.unflatten(1, shape), 0 if whole else self.params.crops)
        return mirrored(candidates, sure) if self.params.flips else (candidates, sure)

    def _spans(self, view: VictimView, ctx: AttackContext) -> tuple[list[UpdateSpan], tuple[str, ...]]:
        """Return what layer 1 holds of the images, stretch by stretch where it shows anything of them, and flags."""
        import torch

        from attacks.independent_components.span import UpdateSpan
        from attacks.independent_components.tail import layers, tails_between
        from attacks.unknown_start.stretches import stretches

        params, architecture = self.params, view.architecture
        n = view.n if params.images == "told" else None
        if params.start == "momentum" and params.lora:
            return self._of_update(view, ctx, n)
        if params.start == "forgotten":
            state = {name: value.to(ctx.device, torch.float32) for name, value in view.weights.items()}
            end = layers(architecture, state)
            span = UpdateSpan.held_by(end, n, *tails_between(architecture, state, state, 1.0))
            return ([span], ()) if span else ([], ("W1 shows no end of the images' span: is its start forgotten?",))
        found = [self._between(one, architecture, n, ctx) for one in stretches(view, ctx, params.start, params.seeds)]
        flags = tuple(dict.fromkeys(flag for _, flags in found for flag in flags))
        return [span for span, _ in found if span is not None], flags

    def _of_update(
        self, view: VictimView, ctx: AttackContext, n: int | None
    ) -> tuple[list[UpdateSpan], tuple[str, ...]]:
        """Return what the momentum for a low-rank update of layer 1 holds of the images, a flag alone if nothing."""
        from attacks.independent_components.span import UpdateSpan
        from attacks.unknown_start.momentum import NO_MEAN, mean_of_update

        if view.momentum is None:
            raise ValueError(NO_MOMENTUM)
        mean = mean_of_update(view.momentum)
        return ([], (NO_MEAN,)) if mean is None else ([UpdateSpan.of_update(mean.to(ctx.device), n)], ())

    def _between(
        self, stretch: Stretch, architecture: Architecture, n: int | None, ctx: AttackContext
    ) -> tuple[UpdateSpan | None, tuple[str, ...]]:
        """Return what layer 1 holds of the images of a stretch, None where it shows nothing of them, and flags."""
        import torch

        from attacks.independent_components.span import UpdateSpan
        from attacks.independent_components.tail import layers, tails_between
        from attacks.known_start.equation import interpolated
        from attacks.unknown_start.adapter import without_adapter_start

        params, guessed = self.params, stretch.flags
        if stretch.begun is None:
            return None, guessed
        begun, ended = (
            {name: value.to(ctx.device, torch.float32) for name, value in weights.items()}
            for weights in (stretch.begun, stretch.ended)
        )
        start, end = layers(architecture, begun), layers(architecture, ended)
        if torch.equal(start.weights[0], end.weights[0]):
            still = all(torch.equal(value, ended[name]) for name, value in begun.items())
            return None, (*guessed, STILL if still else FIRST_STAYED)
        points = params.points
        way: tuple[Explaining, ...] = tails_between(architecture, begun, ended, *points)
        way = way or tuple(interpolated(start, end, point) for point in points)
        if not params.lora:
            return UpdateSpan.added_to(start, end, n, way), guessed
        apart, update = without_adapter_start(start, end, params.seeds, ctx, shape=architecture.input_shape)
        if apart is None:
            return None, (*guessed, *update)
        return UpdateSpan.added_to(start, apart.network, n, way, apart).through_update(apart.up), (*guessed, *update)
