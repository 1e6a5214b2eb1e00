"""The parameters of the attacks by independent components; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from attacks.base import AttackParams
from victims.frozen_model import omitted_if_default

FEW_STEPS = ("momentum", "snapshots", "checkpoints")
"""Starts that stand for the last steps alone: most are a step before the end, where no network of the training was."""
POOLED = 0.5
"""Price of smoothness behind pooling, which hides from the features where in its fields the pixels are."""


@dataclass(frozen=True)
class Schedule:
    """How long a separation goes on.

    Attributes:
        steps: iterations of FastICA at most.
        free_steps: iterations at most of the descent on the likelihood of the components that follows.
        rounds: the most rounds; 0 separates once and descends on no joint likelihood.
        round_steps: steps of the descent of a round.
        lr: the highest learning rate there.
    """

    steps: int
    free_steps: int
    rounds: int
    round_steps: int
    lr: float

    @property
    def total(self) -> int:
        """The most steps of all rounds."""
        return max(1, self.rounds) * (self.steps + self.free_steps) + self.rounds * self.round_steps


class CocktailPartyParams(AttackParams):
    """Parameters of `cocktail-party`.

    Attributes:
        start: "known" is told the initial weights; "guess" looks for the seed, below `seeds`, under which torch's
            default layers resemble the released weights too much for chance; "forgotten" takes W1 itself for what
            training has added, as after weight decay for long or from a tiny start; "momentum" takes what the
            optimiser's running mean of the gradients adds (`attacks.unknown_start.momentum`); "snapshots" what two
            releases differ by, or each three that follow one another (`attacks.unknown_start.releases`);
            "checkpoints" what the sum of the gradients between each two checkpoints adds
            (`victims.equations.checkpoint`).
        seeds: how many seeds are tried, from 0 on, where the start is guessed.
        images: where n comes from: "shown" reads it off the weights, and takes the directions above noise where
            they do not show it; "told" is told.
        pixel_size: root mean square of a candidate's pixels, which nothing tells: 1 for inputs (x - mean) / std, a
            quarter for pixels in [0, 1] less a mean.
        signs: "told" returns each image with the sign that fits the network best; "both" returns the negatives too.
            Where no biases are used the gates tell the sign, of many images the wrong one.
        crops: most black pixels that random crops added on a side; 0 undoes nothing. Images are searched for whose
            moves are all in the span, or candidates moved back by their borders where there are none
            (`attacks.independent_components.crops`).
        flips: whether the mirror image of each candidate is returned too: where a training mirrored images, nothing
            tells which of the two is the original.
        lora: whether a low-rank update is taken apart: the seed of its start, too, is sought below `seeds`, and what
            images have along that start is filled in (`attacks.unknown_start.adapter`); takes no rounds. With the
            momentum there is nothing to take apart: the momentum for its A is searched.
        density: of what filters answer: "scale_mixture" takes the responses of one filter at one place in all channels
            together (`attacks.source_separation.density`), and descends on a smooth likelihood before a rugged
            one; "sparse" takes each response by itself.
        steps: iterations of FastICA at most; it ends when it has settled.
        free_steps: iterations at most of the descent on the likelihood that follows, on all its levels together. It
            takes some hundred.
        rounds: the most rounds. Each separates what is not found yet, and descends on the joint likelihood of images
            and errors. 0 separates once and descends on nothing.
        round_steps: steps of the descent of a round.
        lr: the highest learning rate there, of the entries of the mixture.
    """

    start: Literal["known", "guess", "forgotten", "momentum", "snapshots", "checkpoints"] = "known"
    seeds: PositiveInt = 100_000
    images: Literal["shown", "told"] = "shown"
    pixel_size: PositiveFloat = 1.0
    signs: Annotated[Literal["told", "both"], omitted_if_default("told")] = "told"
    crops: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    flips: Annotated[bool, omitted_if_default(False)] = False
    lora: Annotated[bool, omitted_if_default(False)] = False
    density: Literal["sparse", "scale_mixture"] = "scale_mixture"
    steps: PositiveInt = 60
    free_steps: NonNegativeInt = 2000
    rounds: NonNegativeInt = 0
    round_steps: PositiveInt = 160
    lr: PositiveFloat = 0.003

    @model_validator(mode="after")
    def _is_beside_a_known_layer(self) -> CocktailPartyParams:
        if self.lora and self.start == "momentum" and self.signs == "told":
            raise ValueError("of a low-rank update the momentum tells no signs: with lora set signs=both")
        _require_known(self.lora and self.start != "momentum", self.start)
        if self.lora and self.rounds:
            raise ValueError("with lora set rounds=0: a low-rank update lets too little of the errors through")
        return self

    @property
    def points(self) -> tuple[float, ...]:
        """Where on the straight way from start to end signs are told, and then where errors are taken."""
        return (1.0, 1.0) if self.start in FEW_STEPS else (0.0, 0.5, 1.0)

    @property
    def schedule(self) -> Schedule:
        """How long the separation goes on."""
        return Schedule(self.steps, self.free_steps, self.rounds, self.round_steps, self.lr)


class CocktailPartyFeaturesParams(AttackParams):
    """Parameters of `cocktail-party-features`.

    Attributes:
        start: "known" is told the initial weights; "guess" looks for the seed, below `seeds`, under which torch's
            default layers resemble the first convolution too much for chance; "forgotten" takes the layer itself for
            what training has added, as after weight decay for long or from a tiny start; "momentum", "snapshots" and
            "checkpoints" as for `cocktail-party`.
        seeds: how many seeds are tried, from 0 on, where the start is guessed.
        images: how many directions are searched: "shown" reads it off the weights by `missed`; "told" is told n, and
            searches as many.
        missed: share of the squares of what training has added that the directions searched leave out, in (0, 1); where
            noise fills nearly all directions, those that stand above it are searched. None searches those before a gap,
            or those above noise where there is none; it is what a start that stands for few steps takes by default.
        point: share of the straight way from start to end at which features and errors are taken, in [0, 1]; 1 by
            default where the start stands for the last steps alone.
        steps: iterations of FastICA at most; it ends when it has settled.
        free_steps: iterations at most of the descent on the likelihood that follows, on all its levels together.
        rounds: the most rounds. Each separates what is not found yet, and descends on the joint likelihood of features
            and errors. 0 separates once and descends on nothing.
        round_steps: steps of the descent of a round.
        round_lr: the highest learning rate there, of the entries of the mixture.
        joint_rounds: rounds in which all images are searched together (`attacks.independent_components.images`); with
            any, errors of a whole training are taken at its start, at `point` and at its end, and not at `point` alone.
        image_steps: steps in which images are searched that have the features.
        lr: the highest learning rate there, of the images' coordinates on cosines.
        total_variation: what an image pays there for its total variation, relative to its size
            (`attacks.optimisation.variation`).
        smoothness: price there of an image's mean squared coordinate on cosines, in units of the amplitudes of natural
            images, which decides what few or narrow filters do not see. None takes `POOLED` where the start stands for
            the last steps alone and the front pools, and else 0.
        crops: most black pixels that random crops added on a side, by which candidates are moved back; 0 moves none.
        flips: whether the mirror image of each candidate is returned too.
        lora: as for `cocktail-party`, of a low-rank update beside the layer right behind the convolutions.
    """

    start: Annotated[
        Literal["known", "guess", "forgotten", "momentum", "snapshots", "checkpoints"], omitted_if_default("known")
    ] = "known"
    seeds: Annotated[PositiveInt, omitted_if_default(100_000)] = 100_000
    images: Annotated[Literal["shown", "told"], omitted_if_default("shown")] = "shown"
    missed: Annotated[float, Field(gt=0, lt=1)] | None = 3e-5
    point: Annotated[float, Field(ge=0, le=1)] = 0.5
    steps: PositiveInt = 60
    free_steps: NonNegativeInt = 2000
    rounds: NonNegativeInt = 1
    round_steps: PositiveInt = 160
    round_lr: PositiveFloat = 0.003
    joint_rounds: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    image_steps: PositiveInt = 200
    lr: PositiveFloat = 0.3
    total_variation: NonNegativeFloat = 0.05
    smoothness: Annotated[NonNegativeFloat | None, omitted_if_default(None)] = None
    crops: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    flips: Annotated[bool, omitted_if_default(False)] = False
    lora: Annotated[bool, omitted_if_default(False)] = False

    @model_validator(mode="before")
    @classmethod
    def _looks_where_the_training_was(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("start") in FEW_STEPS:
            return {"missed": None, "point": 1.0} | given
        return given

    @model_validator(mode="after")
    def _is_beside_a_known_layer(self) -> CocktailPartyFeaturesParams:
        _require_known(self.lora, self.start)
        return self

    def smoothness_behind(self, pools: bool) -> float:
        """Return the price of coordinates on cosines, by whether the front pools."""
        if self.smoothness is not None:
            return self.smoothness
        return POOLED if pools and self.start in FEW_STEPS else 0.0

    @property
    def errors_at(self) -> tuple[float, ...]:
        """The shares of the way at which errors are taken."""
        whole = self.joint_rounds and self.start not in FEW_STEPS
        return tuple(sorted({0.0, self.point, 1.0})) if whole else (self.point,)

    @property
    def schedule(self) -> Schedule:
        """How long the separation goes on."""
        return Schedule(self.steps, self.free_steps, self.rounds, self.round_steps, self.round_lr)


def _require_known(lora: bool, start: str) -> None:
    if lora and start != "known":
        raise ValueError("a low-rank update stands beside weights that are known: with lora set start=known")
