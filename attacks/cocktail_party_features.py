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
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.known_start.no_image import LAST_ALONE, STILL, took_no_crops
from attacks.unknown_start import THREATS

if TYPE_CHECKING:
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
        "forgotten": {
            "start": "forgotten",
            "rounds": 0,
            "image_steps": 400,
            "total_variation": 0,
            "smoothness": 0.01,
        },
        "crops": {"crops": 4, "flips": True},
        "joint": {"images": "told", "joint_rounds": 3},
    }
    audits: ClassVar[tuple[str, ...]] = ("", "forgotten", "crops", "joint")

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The needs, without a start that is not told, and with n where it is."""
        needs = self.needs if self.params.start == "known" else self.needs - {Knowledge.INITIAL_WEIGHTS}
        return needs | {Knowledge.N} if self.params.images == "told" else needs

    @property
    def threat(self) -> Threat:
        """Who can mount it: a start that is guessed, or that is forgotten, need not be known."""
        return THREATS[self.params.start]

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs its start, unless it is forgotten, and a hidden layer behind convolutions."""
        architecture, start = victim.architecture, self.params.start
        if start == "known" and not victim.tells_start:
            return "the start of its training is not known; set start=guess to look for its seed, or start=forgotten"
        if architecture.kind not in ("conv", "cnn", "front"):
            return f"{architecture.label}: for convolutions, and a fully connected hidden layer right behind them"
        if start == "guess" and architecture.kind != "cnn":
            return f"{architecture.label}: what draws its layers is not known, so no seed is found"
        if not architecture.hidden:
            return LAST_ALONE
        tuned = victim.training.last_layers if victim.training.kind == "ordinary" else None
        stayed = tuned is not None and tuned <= len(architecture.hidden)
        return INNER_STAYED if stayed else took_no_crops(victim, self.params.crops)

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a start that is said to be forgotten and remains, where the weights show it."""
        forgotten = self.params.start == "forgotten" and exposure.spectrum is not None
        return exposure.start_remains if forgotten else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return a candidate for each direction; it is the surer the nearer its features come to its component.

        With `flips` the mirror images of all follow, each less sure by one.

        Raises:
            DivergedError: the images are not finite.
            ValueError: the victim has no one start, or its start is of another shape or a wrong one.
        """
        from attacks.crops.undone import mirrored, uncropped
        from attacks.independent_components.images import JOINT_STEPS, NEAREST_STEPS, ImageSearch
        from attacks.independent_components.likelihood import JointLikelihood
        from attacks.independent_components.maps import CUT, Held, separated, typical_features
        from attacks.independent_components.pictures import FeatureMaps
        from attacks.known_start.front import convolutions
        from attacks.optimisation.parts import Parts
        from attacks.source_separation.responses import SIZE
        from attacks.unknown_start.start import initial_weights
        from victims.ordinary.difference import first_moved

        params, architecture, guessed = self.params, view.architecture, tuple[str, ...]()
        shape, told = architecture.input_shape, view.n if params.images == "told" else None
        end = {name: value.to(ctx.device) for name, value in view.weights.items()}
        if params.start == "forgotten":
            held = Held.at_rest(architecture, end, told)
            if held is None:
                return no_reconstruction(shape, NO_END)
        else:
            initial, guessed = initial_weights(view, ctx, params.start, params.seeds)
            if initial is None:
                return no_reconstruction(shape, *guessed)
            start, before = {name: value.to(ctx.device) for name, value in initial.items()}, convolutions(end)
            moved = first_moved(start, end, before)
            if moved is None and params.start == "guess":
                return no_reconstruction(shape, *guessed, STILL)
            if moved is not None and moved > before:
                return no_reconstruction(shape, INNER_STAYED)
            held = Held.added_to(architecture, start, end, told, params)
        front, span = held.front, held.span
        maps = front.maps(shape)
        if min(maps[1:]) < SIZE:
            return no_reconstruction(shape, SMALL_MAPS)
        joint_steps = params.joint_rounds * (NEAREST_STEPS + JOINT_STEPS)
        parts = Parts(ctx, params.schedule.total + joint_steps + params.image_steps)
        typical = typical_features(front, shape)
        pictures = FeatureMaps(maps, positive=bool((typical.sum(1) > 0).all()))
        size = float(typical.square().mean().sqrt())
        found = separated(span, pictures, size, params, parts)
        search, features = ImageSearch(front, shape, params, parts, found.images), found.images
        if params.joint_rounds:
            features = search.jointly(features, JointLikelihood(span, pictures, size))
        images, cosines = search.images_of(features)
        ctx.stopped |= bool(parts.held.get(CUT, False))
        if not images.isfinite().all():
            raise DivergedError("the images are not finite")
        images = uncropped(images, params.crops)
        confidence = cosines
        if params.flips:
            images, confidence = mirrored(images, cosines)
        late = () if found.settled else ("the separation did not settle",)
        return Reconstruction(
            candidates=images,
            confidence=confidence,
            loss=1 - float(cosines.mean()),
            grad_evals=parts.done,
            flags=(*guessed, span.flag, *found.flags(params.schedule), *late),
        )
