"""The parameters of the search in the span of features; imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import AttackParams


class ConvSpanParams(AttackParams):
    """Parameters of `conv-span`.

    Attributes:
        candidates: number of candidates of a round; None for three for each direction that the layer behind the
            convolutions shows.
        rounds: number of rounds; candidates of a round stay apart from those that earlier rounds accepted.
        steps: Adam's steps of a round.
        lr: Adam's highest learning rate.
        init_scale: standard deviation of the start's coordinates, in units of the amplitudes of natural images.
        smoothness: price of a candidate's mean squared coordinate on cosines that are scaled by 1 / (1 + frequency):
            the prior that natural images are smooth, which decides what the convolution does not see.
        repulsion: price of looking like a better candidate, or like one that was accepted.
        apart: cosine between two signatures from which on candidates look alike.
        whitening: power of the singular values in signatures.
        accepted: largest share of its features' energy outside the span of a candidate that later rounds stay away
            from.
    """

    candidates: PositiveInt | None = None
    rounds: PositiveInt = 2
    steps: PositiveInt = 400
    lr: PositiveFloat = 0.2
    init_scale: PositiveFloat = 0.1
    smoothness: NonNegativeFloat = 1e-2
    repulsion: NonNegativeFloat = 0.1
    apart: Annotated[float, Field(ge=-1, le=1)] = 0.6
    whitening: NonNegativeFloat = 0.75
    accepted: PositiveFloat = 1e-3
