"""The law of Iurada et al. 2026: a last layer tells n images of d pixels once its weights are more than d n."""

from __future__ import annotations

from typing import Any

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.random_features import RATIOS, SIZES, name_of

FEATURES: dict[str, tuple[bool, dict[str, Any]]] = {
    "relu": (False, {}),
    "relu, both signs": (False, {"signs": "both"}),
    "relu+tanh": (True, {}),
}
"""By the label `features`: whether the activation has a tanh, and the attack's parameters.

"both signs" also counts a candidate with the opposite sign."""
COUNTED = Plot("curve", "ratio", "features", values=("share_nearer", "share_at_1pct"), logarithmic=True)


def _cell(ratio: float, features: str, n: int = 10) -> Cell:
    tanh, params = FEATURES[features]
    return Cell({"ratio": ratio, "features": features}, "projection", name_of("digits", n, ratio, tanh=tanh), params)


def _sized(n: int, outputs: int) -> Cell:
    return Cell({"n": n, "outputs": outputs}, "projection", name_of("digits", n, 10, outputs))


STUDIES: tuple[Study, ...] = (
    Study(
        name="law",
        summary="how many of 10 images come out of random features by weights over unknown pixels, p / (d n)",
        paper="Iurada et al. 2026, Section 6",
        cells=tuple(_cell(ratio, features) for features in FEATURES for ratio in RATIOS),
        smoke=tuple(_cell(ratio, "relu") for ratio in (0.25, 4)),
        plots=(COUNTED, Plot("dots", "features", "ratio", values=("attack_loss",), logarithmic=True)),
    ),
    Study(
        name="law-sizes",
        summary="the same by the number of images and outputs, at p C = 10 d n",
        paper="after Iurada et al. 2026",
        cells=tuple(_sized(n, outputs) for n, outputs in SIZES),
        smoke=(_sized(6, 1),),
        plots=(Plot("curve", "n", "outputs", values=("share_nearer", "share_at_1pct")),),
    ),
)
