"""The parameters of the attacks on a known start; imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from attacks.base import AttackParams
from victims.frozen_model import omitted_if_default

Ranking = Annotated[Literal["span", "evidence", "distinct"], omitted_if_default("span")]
Variation = Annotated[NonNegativeFloat, omitted_if_default(0.0)]
Shares = Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)]

CANDIDATES_PER_IMAGE, CANDIDATES_OF_PARTS = 2.0, 1.5
"""Candidates of a restart for each image, and where parts of them are searched."""
STEPS_PER_IMAGE, STEPS_OF_PARTS = 6, 4
"""Optimiser steps of a restart for each image, likewise; no fewer than of `LEAST_IMAGES`."""
LEAST_IMAGES = 100
FAR = 0.12
"""||W1 - c W1(0)|| / ||W1(0)|| above which gates have opened and closed on the way. Chosen between the 0.08 of networks
that were fine-tuned and the 0.17 of networks from scratch."""

DIRECTIONS_PER_IMAGE = 3
"""In which parts of images are searched, whose span no gap ends."""
LEFT_OUT = 1e-4
"""Share of the squares of an estimated difference in the directions that are not searched."""


class KKTDeltaParams(AttackParams):
    """Parameters of `kkt-delta`.

    Attributes:
        start: "known" is told the initial weights; "guess" looks for the seed, below `seeds`, under which torch's
            default layers resemble the released weights too much for chance; "uniform" knows that they were drawn as
            torch's default layers are, and estimates what was added (`attacks.unknown_start.uniform`).
        seeds: how many seeds are tried, from 0 on, where the start is guessed.
        images: where n comes from: "shown" reads it off the weights, and takes the directions above noise where
            they do not show it, or those that hold all but `LEFT_OUT` of the squares of an estimate; "told" is told.
        candidates: how many candidates a restart has; None for 2 n, or for 1.5 n with parts.
        restarts: searches whose candidates are pooled, independent of one another without `agreement`.
        steps: optimiser steps a restart; None for six an image, or four with parts, as for 100 images at least.
        lr: Adam's learning rate of the coordinates u_ik of `coordinate_power`.
        coefficient_lr: Adam's learning rate of the coefficients. Their unit is the size at which m orthogonal terms
            make up the difference; they start with standard deviation 0.1 in it.
        path: "segment" takes gradients at `points` of the straight way from start to end; "snapshots" where the network
            was, at the weights that were released in the course of the training.
        points: shares of the way from the start to the released weights at which gradients are taken; the coefficients
            are free at each. None for 0.5, or for 0.1, 0.5 and 0.9 where layer 1 moved far.
        alpha: sharpness of the gates at the first step, and the one that the step after the last would have; between
            them it grows geometrically. None for 1 and 35, or 1 and 10 where layer 1 moved far.
        pixel_size: root mean square of an input's pixels at the start of the search; 1 for inputs (x - mean) / std.
        coordinate_power: p of x_i = sum_k S_k^p u_ik v_k.
        residual_power: q: columns of the residual are weighted by S_k^-q; None for 0.3, or 0.6 where layer 1 moved far.
        neuron_power: s: rows of the residual are weighted by ||w_j||^-s.
        second_layer: weight of the relative residual of W2 - c W2(0) beside that of layer 1.
        signal_span: over sqrt(n), what a candidate pays for back-propagated errors outside the span of the
            difference's columns.
        total_variation: over m, what a candidate pays for its total variation, relative to its size
            (`attacks.optimisation.variation`), which rows of a table do not have.
        crops: most black pixels that random crops added on a side, whose parts of each candidate make up the
            difference (`attacks.crops.parts`); 0 takes the candidate alone.
        flips: whether half of the parts are mirrored; the mirror image of each candidate is returned, too.
        agreement: cosine from which on candidates of two searches agree. A search then begins at the means of those on
            which the last two before it agree, and at random candidates besides; None begins each at random ones.
        products: precision to which the factors of matrix products may be rounded.
        dtype: precision of the search; c and n are found in float64.
        ranking: what makes the confidence in a candidate. "span" is the share of its errors in the span of the
            difference's columns; "evidence" asks also whether it follows from the difference and whether its gradients
            are an image's (`attacks.kkt_family.ranking`); "distinct" is the same with copies of a surer candidate
            behind all others. The candidates are the same.
    """

    start: Literal["known", "guess", "uniform"] = "known"
    seeds: PositiveInt = 100_000
    images: Literal["shown", "told"] = "shown"
    candidates: PositiveInt | None = None
    restarts: PositiveInt = 1
    steps: PositiveInt | None = None
    lr: PositiveFloat = 0.3
    coefficient_lr: PositiveFloat = 0.1
    path: Literal["segment", "snapshots"] = "segment"
    points: Shares | None = None
    alpha: tuple[PositiveFloat, PositiveFloat] | None = None
    pixel_size: PositiveFloat = 1.0
    coordinate_power: NonNegativeFloat = 0.5
    residual_power: NonNegativeFloat | None = None
    neuron_power: NonNegativeFloat = 1.0
    second_layer: NonNegativeFloat = 1.0
    signal_span: NonNegativeFloat = 0.15
    total_variation: Variation = 0.0
    crops: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    flips: Annotated[bool, omitted_if_default(False)] = False
    agreement: Annotated[float | None, Field(gt=0, le=1), omitted_if_default(None)] = None
    products: Annotated[Literal["float32", "bfloat16"], omitted_if_default("float32")] = "float32"
    dtype: Literal["float32", "float64"] = "float32"
    ranking: Ranking = "span"

    @model_validator(mode="after")
    def _parts_tell_less(self) -> KKTDeltaParams:
        if self.cuts and self.ranking != "span":
            raise ValueError("evidence is of an image, not of its parts: with crops or flips set ranking=span")
        if self.cuts and self.images != "told":
            raise ValueError("parts of images do not show n: with crops or flips set images=told")
        return self

    @property
    def cuts(self) -> bool:
        """Whether a candidate stands for parts of it."""
        return self.crops > 0 or self.flips

    def resolved(self, images: int, moved: float) -> ResolvedParams:
        """Return the parameters with what is None read off the weights.

        Args:
            images: their number.
            moved: ||W1 - c W1(0)|| / ||W1(0)||.
        """
        far = moved > FAR
        read: dict[str, Any] = {
            "candidates": round((CANDIDATES_OF_PARTS if self.cuts else CANDIDATES_PER_IMAGE) * images),
            "steps": (STEPS_OF_PARTS if self.cuts else STEPS_PER_IMAGE) * max(images, LEAST_IMAGES),
            "points": (0.1, 0.5, 0.9) if far else (0.5,),
            "alpha": (1.0, 10.0) if far else (1.0, 35.0),
            "residual_power": 0.6 if far else 0.3,
        }
        return ResolvedParams(**read | self.model_dump(exclude_none=True))


class ResolvedParams(KKTDeltaParams):
    """The same parameters with nothing left to be read off the weights."""

    candidates: PositiveInt
    steps: PositiveInt
    points: Shares
    alpha: tuple[PositiveFloat, PositiveFloat]
    residual_power: NonNegativeFloat

    def differing(self, given: KKTDeltaParams) -> dict[str, Any]:
        """Return what was read off the weights, by name."""
        return {name: value for name, value in self.model_dump().items() if getattr(given, name) is None}


MISSED = 1e-5
"""Behind layers whose features move on the way no gap ends the span: the directions that are left out hold at most this
share of the squares."""


class FeatureParams(AttackParams):
    """Parameters of `kkt-delta-features`.

    Attributes:
        candidates: how many candidates a restart has; None for twice the number of directions.
        directions: of the difference, in which features are searched; None for n, or where no gap shows n for those
            that hold all but 1e-5 of its squares.
        restarts: independent searches whose candidates are pooled.
        steps: optimiser steps a restart.
        lr: Adam's learning rate of the candidates' coordinates on cosines, in units of the amplitudes of
            `amplitude_power`.
        coefficient_lr: Adam's learning rate of the coefficients. Their unit is the size at which m orthogonal terms
            make up the difference; they start with standard deviation 0.1 in it.
        point: share of the way from the start to the released weights at which features and gradients are taken.
        alpha: sharpness of the gates at the first step, and the one that the step after the last would have; between
            them it grows geometrically.
        amplitude_power: p: a cosine's amplitude is that of natural images, 1 / (1 + frequency), to the power p.
        residual_power: q: columns of the residual are weighted by S_k^-q.
        neuron_power: s: rows of the residual are weighted by ||w_j||^-s.
        second_layer: weight of the relative residual of the layer after that one.
        feature_span: over sqrt(directions), what a candidate pays for features outside the span of the difference's
            rows.
        signal_span: over sqrt(directions), what it pays for back-propagated errors outside that of the columns.
        prior: over sqrt(directions), what it pays for the mean square of its coordinates.
        dtype: precision of the search.
        ranking: as of `kkt-delta`; "span" is the share of its features in the span of the difference's rows.
    """

    candidates: PositiveInt | None = None
    directions: PositiveInt | None = None
    restarts: PositiveInt = 1
    steps: PositiveInt = 300
    lr: PositiveFloat = 0.2
    coefficient_lr: PositiveFloat = 0.3
    point: Annotated[float, Field(ge=0, le=1)] = 0.25
    alpha: tuple[PositiveFloat, PositiveFloat] = (1.0, 35.0)
    amplitude_power: NonNegativeFloat = 1.0
    residual_power: NonNegativeFloat = 0.1
    neuron_power: NonNegativeFloat = 1.0
    second_layer: NonNegativeFloat = 1.0
    feature_span: NonNegativeFloat = 0.3
    signal_span: NonNegativeFloat = 0.15
    prior: NonNegativeFloat = 0.01
    dtype: Literal["float32", "float64"] = "float32"
    ranking: Ranking = "span"


class ProjectionParams(AttackParams):
    """Parameters of `projection`.

    Attributes:
        candidates: m, how many are kept; None for n.
        surplus: how many more are searched before the least useful ones are pruned, as a share of m; 0 for none.
        rounds: how often spare candidates are added, searched and pruned, at most.
        steps: L-BFGS iterations of a round with spare candidates; half as many follow without them.
        spanned: share of the update's squares left unexplained at which the search ends.
        signs: "own" returns the candidates as they are; "both" also returns each with the opposite sign, which tells a
            wrong sign from a wrong image.
        pixel_size: root mean square of a candidate's pixels at its start; 1 for inputs (x - mean) / std. Where features
            tell no length it is also that of the candidates that are returned.
        dtype: precision of features and loss; L-BFGS itself runs in float64.
    """

    candidates: PositiveInt | None = None
    surplus: NonNegativeFloat = 1.0
    rounds: PositiveInt = 6
    steps: PositiveInt = 300
    spanned: PositiveFloat = 1e-10
    signs: Literal["own", "both"] = "own"
    pixel_size: PositiveFloat = 1.0
    dtype: Literal["float32", "float64"] = "float64"
