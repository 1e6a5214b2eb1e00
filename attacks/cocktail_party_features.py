"""Reconstruction as blind source separation behind convolutions: the features of training images are independent.

The equations are in `attacks.independent_components.maps` and `.images`.
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
from attacks.independent_components.params import FEW_STEPS, CocktailPartyFeaturesParams
from attacks.known_start.no_image import LAST_ALONE, STILL, took_no_crops, took_no_update
from attacks.unknown_start import NO_UPDATE, THREATS, knowledge_of, untold

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.independent_components.maps import Held
    from attacks.knowledge import Architecture
    from attacks.optimisation.parts import Parts
    from attacks.unknown_start.stretches import Stretch
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

INNER_STAYED = "the first fully connected layer was not trained: use kkt-delta-features"
SMALL_MAPS = "its feature maps are smaller than a filter"
NO_END = "the layer behind convolutions shows no end of the features' span: is its start forgotten?"


class CocktailPartyFeatures(Attack[CocktailPartyFeaturesParams]):
    """The images whose features are the independent components of W - c W(0), for W right behind convolutions.

    Filters tell components from mixtures, in a round the fully connected layers do; the convolutions then tell which
    image has them. In joint rounds both are asked at once, of all images together. A start that is forgotten, as after
    weight decay for long, is taken for 0.
    """

    name = "cocktail-party-features"
    version = 3
    summary = (
        "cocktail-party behind convolutions: independent components of feature maps, and the images that have them"
    )
    paper = "after Kariyappa et al. 2023"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})
    Params = CocktailPartyFeaturesParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "filters": {"rounds": 0},
        "scratch": {"missed": 3e-4},
        "seed": {"start": "guess", "missed": 3e-4},
        "momentum": {"start": "momentum"},
        "momentum-crops": {"start": "momentum", "crops": 4, "flips": True},
        "snapshots": {"start": "snapshots"},
        "snapshots-crops": {"start": "snapshots", "crops": 4, "flips": True},
        "checkpoints": {"start": "checkpoints"},
        "checkpoints-crops": {"start": "checkpoints", "crops": 4, "flips": True},
        "forgotten": {
            "start": "forgotten",
            "rounds": 0,
            "image_steps": 400,
            "total_variation": 0,
            "smoothness": 0.01,
        },
        "crops": {"crops": 4, "flips": True},
        "joint": {"images": "told", "joint_rounds": 3},
        "lora": {"lora": True},
    }
    audits: ClassVar[tuple[str, ...]] = (
        "",
        "forgotten",
        "momentum",
        "momentum-crops",
        "snapshots",
        "snapshots-crops",
        "checkpoints",
        "checkpoints-crops",
        "crops",
        "joint",
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
        """Return why not: it needs a hidden layer behind convolutions.

        It needs the victim's start too, unless that is forgotten, or what stands in for it.
        """
        architecture, start = victim.architecture, self.params.start
        if why := untold(victim, start, "start=guess to look for its seed, or start=forgotten"):
            return why
        if architecture.kind not in ("conv", "cnn", "front"):
            return f"{architecture.label}: for convolutions, and a fully connected hidden layer right behind them"
        if start == "guess" and architecture.kind != "cnn":
            return f"{architecture.label}: what draws its layers is not known, so no seed is found"
        if not architecture.hidden:
            return LAST_ALONE
        tuned = victim.training.last_layers if victim.training.kind == "ordinary" else None
        stayed = tuned is not None and tuned <= len(architecture.hidden)
        if stayed:
            return INNER_STAYED
        return took_no_crops(victim, self.params.crops) or took_no_update(victim, self.params.lora, start)

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt what the weights speak against: a start said to be forgotten, and an update said to be of low rank."""
        if self.params.lora and exposure.start is not None and exposure.start.adapter is None:
            return NO_UPDATE
        forgotten = self.params.start == "forgotten" and exposure.spectrum is not None
        return exposure.start_remains if forgotten else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return a candidate for each direction; it is the surer the nearer its features come to its component.

        Of several stretches between states of a training the candidates follow one another. With `flips` the mirror
        images of all follow, each less sure by one.

        Raises:
            DivergedError: the images are not finite.
            ValueError: the victim has no one start, or its start is of another shape or a wrong one.
        """
        from functools import partial

        import torch

        from attacks.crops.undone import mirrored, uncropped
        from attacks.independent_components.images import JOINT_STEPS, NEAREST_STEPS
        from attacks.independent_components.maps import SEPARATED
        from attacks.independent_components.rounds import Separated
        from attacks.optimisation.parts import Parts
        from attacks.source_separation.responses import SIZE
        from victims.files import below

        params, shape = self.params, view.architecture.input_shape
        helds, guessed = self._helds(view, ctx)
        if not helds:
            return no_reconstruction(shape, *guessed)
        if min(helds[0].front.maps(shape)[1:]) < SIZE:
            return no_reconstruction(shape, SMALL_MAPS)
        joint_steps = params.joint_rounds * (NEAREST_STEPS + JOINT_STEPS)
        parts = Parts(ctx, len(helds) * (params.schedule.total + joint_steps + params.image_steps))
        ended = parts.in_turn([partial(self._found, held, shape, parts) for held in helds])
        images, cosines = (torch.cat([one[name] for one in ended]).to(ctx.device) for name in ("images", "cosines"))
        if not images.isfinite().all():
            raise DivergedError("the images are not finite")
        images, confidence = uncropped(images, params.crops), cosines
        if params.flips:
            images, confidence = mirrored(images, cosines)
        found = [Separated.of(below(SEPARATED, one), held.span.basis) for one, held in zip(ended, helds, strict=True)]
        late = () if all(one.settled for one in found) else ("the separation did not settle",)
        each = zip(helds, found, strict=True)
        said = (flag for held, one in each for flag in (held.span.flag, *one.flags(params.schedule)))
        return Reconstruction(
            candidates=images,
            confidence=confidence,
            loss=1 - float(cosines.mean()),
            grad_evals=parts.done,
            flags=tuple(dict.fromkeys((*guessed, *said, *late))),
        )

    def _found(self, held: Held, shape: tuple[int, int, int], parts: Parts) -> dict[str, Tensor]:
        """Return the images (r, C, H, W) of one stretch and their cosines (r,), with its separation, by name."""
        from attacks.independent_components.images import ImageSearch
        from attacks.independent_components.likelihood import JointLikelihood
        from attacks.independent_components.maps import SEPARATED, separated, typical_features
        from attacks.independent_components.pictures import FeatureMaps
        from attacks.optimisation.parts import CUT
        from victims.files import under

        params, front, span = self.params, held.front, held.span
        typical = typical_features(front, shape)
        pictures = FeatureMaps(front.maps(shape), positive=bool((typical.sum(1) > 0).all()))
        size = float(typical.square().mean().sqrt())
        found = separated(span, pictures, size, params, parts)
        search, features = ImageSearch(front, shape, params, parts, found.images), found.images
        if params.joint_rounds:
            features = search.jointly(features, JointLikelihood(span, pictures, size))
        images, cosines = search.images_of(features)
        cut = parts.held[CUT] | parts.stopped
        return under(SEPARATED, found.packed()) | {"images": images, "cosines": cosines, CUT: cut}

    def _helds(self, view: VictimView, ctx: AttackContext) -> tuple[list[Held], tuple[str, ...]]:
        """Return what the layer behind convolutions holds of features, stretch by stretch if any, and flags on how."""
        from attacks.independent_components.maps import Held
        from attacks.unknown_start.stretches import stretches

        params, architecture = self.params, view.architecture
        n = view.n if params.images == "told" else None
        if params.start == "forgotten":
            at_rest = Held.at_rest(architecture, {k: value.to(ctx.device) for k, value in view.weights.items()}, n)
            return ([at_rest], ()) if at_rest else ([], (NO_END,))
        found = [self._between(one, architecture, n, ctx) for one in stretches(view, ctx, params.start, params.seeds)]
        flags = tuple(dict.fromkeys(flag for _, flags in found for flag in flags))
        return [held for held, _ in found if held is not None], flags

    def _between(
        self, stretch: Stretch, architecture: Architecture, n: int | None, ctx: AttackContext
    ) -> tuple[Held | None, tuple[str, ...]]:
        """Return what the layer holds of the features of a stretch, None where it shows none, and flags on how."""
        from attacks.independent_components.maps import Held, layers_behind
        from attacks.known_start.front import convolutions, moved_convolutions
        from attacks.unknown_start.adapter import without_adapter_start
        from victims.ordinary.difference import first_moved

        params, guessed = self.params, stretch.flags
        if stretch.begun is None:
            return None, guessed
        start, end = (
            {name: value.to(ctx.device) for name, value in weights.items()}
            for weights in (stretch.begun, stretch.ended)
        )
        before = convolutions(end)
        moved = first_moved(start, end, before)
        if moved is None and params.start in ("guess", *FEW_STEPS):
            return None, (*guessed, STILL)
        if moved is not None and moved > before:
            return None, (INNER_STAYED,)
        apart, update = None, tuple[str, ...]()
        if params.lora:
            first, last = layers_behind(architecture, start), layers_behind(architecture, end)
            apart, update = without_adapter_start(first, last, params.seeds, ctx, moved_convolutions(start, end))
            if apart is None:
                return None, (*guessed, *update)
        return Held.added_to(architecture, start, end, n, params, apart), (*guessed, *update)
