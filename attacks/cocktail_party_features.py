"""Reconstruction as blind source separation behind convolutions: the features of training images are independent.

The equations are in `attacks.independent_components.maps` and `.images`.
"""

from __future__ import annotations

from functools import partial
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
from attacks.known_start.no_image import LAST_ALONE, STILL

if TYPE_CHECKING:
    from victims.spec import VictimSpec

INNER_STAYED = "the first fully connected layer was not trained: use kkt-delta-features"
SMALL_MAPS = "its feature maps are smaller than a filter"


class CocktailPartyFeatures(Attack[CocktailPartyFeaturesParams]):
    """The images whose features are the independent components of W - c W(0), for W right behind convolutions.

    Filters tell components from mixtures, and in rounds the fully connected layers do; the convolutions then tell which
    image has them. In joint rounds both are asked at once, of all images together.
    """

    name = "cocktail-party-features"
    version = 2
    summary = (
        "cocktail-party behind convolutions: independent components of feature maps, and the images that have them"
    )
    paper = "after Kariyappa et al. 2023"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS})
    Params = CocktailPartyFeaturesParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "filters": {"rounds": 0, "steps": 300, "free_steps": 0},
        "scratch": {"missed": 3e-4},
        "seed": {"start": "guess", "missed": 3e-4},
        "joint": {"images": "told", "joint_rounds": 3},
    }
    audits: ClassVar[tuple[str, ...]] = ("", "joint")

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The needs, without a start that is guessed, and with n where it is told."""
        needs = self.needs if self.params.start == "known" else self.needs - {Knowledge.INITIAL_WEIGHTS}
        return needs | {Knowledge.N} if self.params.images == "told" else needs

    @property
    def threat(self) -> Threat:
        """Who can mount it: a start that is guessed need not be known."""
        return Threat.START if self.params.start == "known" else Threat.SEED

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs a start kept or guessed, and a hidden layer that moved right behind convolutions."""
        architecture, guessed = victim.architecture, self.params.start == "guess"
        if not guessed and not victim.tells_start:
            return "the start of its training is not known; set start=guess to look for its seed"
        if architecture.kind not in ("conv", "cnn", "front"):
            return f"{architecture.label}: for convolutions, and a fully connected hidden layer right behind them"
        if guessed and architecture.kind != "cnn":
            return f"{architecture.label}: what draws its layers is not known, so no seed is found"
        if not architecture.hidden:
            return LAST_ALONE
        tuned = victim.training.last_layers if victim.training.kind == "ordinary" else None
        return INNER_STAYED if tuned is not None and tuned <= len(architecture.hidden) else None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return a candidate for each direction; it is the surer the nearer its features come to its component.

        Raises:
            DivergedError: the images are not finite.
            ValueError: the victim has no one start, or its start is of another shape or a wrong one.
        """
        from attacks.independent_components.images import JOINT_STEPS, NEAREST_STEPS, ImageSearch
        from attacks.independent_components.likelihood import JointLikelihood
        from attacks.independent_components.maps import CUT, features_span, separated, typical_features
        from attacks.independent_components.pictures import FeatureMaps
        from attacks.independent_components.tail import Tailed
        from attacks.known_start.equation import interpolated
        from attacks.known_start.front import FeatureExtractor, convolutions, head
        from attacks.optimisation.parts import Parts
        from attacks.source_separation.responses import SIZE
        from attacks.unknown_start.start import initial_weights
        from victims.equations.network import Network
        from victims.networks import has_tail
        from victims.ordinary.difference import first_moved

        params, shape = self.params, view.architecture.input_shape
        initial, guessed = initial_weights(view, ctx, params.start, params.seeds)
        if initial is None:
            return no_reconstruction(shape, *guessed)
        start, end = (
            {name: value.to(ctx.device) for name, value in state.items()} for state in (initial, view.weights)
        )
        before = convolutions(end)
        moved = first_moved(start, end, before)
        if moved is None and params.start == "guess":
            return no_reconstruction(shape, *guessed, STILL)
        if moved is not None and moved > before:
            return no_reconstruction(shape, INNER_STAYED)
        build, tailed = (lambda: view.architecture.build().to(ctx.device)), has_tail(view.architecture.spec)
        front = FeatureExtractor.of(build, start, end, params.point, before)
        maps = front.maps(shape)
        if min(maps[1:]) < SIZE:
            return no_reconstruction(shape, SMALL_MAPS)
        first, last = (Network.of_matrices(state) if tailed else head(state, before) for state in (start, end))
        at = partial(Tailed.between, build, start, end) if tailed else partial(interpolated, first, last)
        told = view.n if params.images == "told" else None
        span = features_span(first, last, told, at, params)
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
        late = () if found.settled else ("the separation did not settle",)
        return Reconstruction(
            candidates=images,
            confidence=cosines,
            loss=1 - float(cosines.mean()),
            grad_evals=parts.done,
            flags=(*guessed, span.flag, *found.flags(params.schedule), *late),
        )
