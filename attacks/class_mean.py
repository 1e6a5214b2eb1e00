"""A control that knows only the classes: the mean of public images of each class (Shokri et al. 2017, Section IX)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks.base import (
    Attack,
    AttackContext,
    AttackParams,
    Knowledge,
    Reconstruction,
    VictimView,
    no_reconstruction,
)

if TYPE_CHECKING:
    from victims.spec import VictimSpec


class ClassMeanParams(AttackParams):
    """`class-mean` has no parameters."""


class ClassMean(Attack[ClassMeanParams]):
    """Returns the mean of the shadow pool's images of each class, without reading the victim.

    An attack that scores no better has found what a class looks like, and nothing about its members.
    """

    name = "class-mean"
    summary = "control: the mean of public images of each class"
    paper = "Shokri et al. 2017, Section IX, on what model inversion shows"
    needs = frozenset({Knowledge.SHADOW_POOL})
    Params = ClassMeanParams
    control = True

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline released victims without images other than their training set."""
        if victim.training.kind == "released" and not victim.training.n_held_out:
            return "it comes with no images that it was not trained on"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the class means, (C, channels, height, width)."""
        import torch

        images, labels = view.shadow_pool
        if not len(images):
            channels, height, width = images.shape[1:]
            return no_reconstruction((channels, height, width), "no image is left that was not trained on")
        classes = labels.unique()
        means = torch.stack([images[labels == label].mean(0) for label in classes])
        return Reconstruction(candidates=means.float(), labels=classes)
