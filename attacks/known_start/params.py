"""The parameters of `kkt-delta`; imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import AttackParams


class KKTDeltaParams(AttackParams):
    """Parameters of `kkt-delta`.

    Attributes:
        start: "known" is told the initial weights; "guess" looks for the seed, below `seeds`, under which torch's
            default layers resemble the released weights too much for chance.
        seeds: how many seeds are tried, from 0 on, where the start is guessed.
        candidates: how many candidates a restart has; None for twice the number of images that the weights show.
        restarts: independent searches whose candidates are pooled.
        steps: optimiser steps a restart.
        lr: learning rate of the candidates, Adam's, in coordinates that move alike.
        coefficient_lr: learning rate of the coefficients, in the units in which they start at a tenth.
        points: shares of the way from the start to the released weights at which gradients are taken; the coefficients
            are free at each.
        alpha: sharpness of the gates at the first step and at the last, interpolated geometrically.
        pixel_size: root mean square of an input's pixels at the start of the search; 1 for inputs (x - mean) / std.
        coordinate_power: p of x_i = sum_k S_k^p u_ik v_k.
        residual_power: q: columns of the residual are weighted by S_k^-q.
        neuron_power: s: rows of the residual are weighted by ||w_j||^-s.
        second_layer: weight of the relative residual of W2 - c W2(0) beside that of layer 1.
        signal_span: over sqrt(n), what a candidate pays for back-propagated errors outside the span of the
            difference's columns.
        dtype: precision of the search; c and n are found in float64.
    """

    start: Literal["known", "guess"] = "known"
    seeds: PositiveInt = 100_000
    candidates: PositiveInt | None = None
    restarts: PositiveInt = 2
    steps: PositiveInt = 300
    lr: PositiveFloat = 0.3
    coefficient_lr: PositiveFloat = 0.1
    points: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)] = (0.5,)
    alpha: tuple[PositiveFloat, PositiveFloat] = (1.0, 35.0)
    pixel_size: PositiveFloat = 1.0
    coordinate_power: NonNegativeFloat = 0.5
    residual_power: NonNegativeFloat = 0.3
    neuron_power: NonNegativeFloat = 1.0
    second_layer: NonNegativeFloat = 1.0
    signal_span: NonNegativeFloat = 0.15
    dtype: Literal["float32", "float64"] = "float32"
