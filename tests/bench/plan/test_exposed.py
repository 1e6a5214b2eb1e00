"""An exposure card in words: each figure says what it is."""

from __future__ import annotations

import pytest

from bench.plan.exposed import exposure_lines
from victims.exposure.card import Exposure, Spectrum, Start

CARD = Exposure(
    architecture="mlp",
    layers=True,
    uncovered="",
    homogeneous=False,
    hidden=1,
    parameters=1000,
    inputs=100,
    images=40,
    imbalance=[0.0],
    spectrum=Spectrum(edge=0.9, above=5, gap=True, rank=17, left=1e-9),
    start=None,
    seed=None,
    residual=[],
    margins=[],
    train_accuracy=1.0,
)
START = Start(known_by="given", decay=0.9, movement=0.2, cosine=0.9, images=18, stayed=0)


@pytest.mark.parametrize(
    ("start", "directions", "place"), [(None, 17, "the first layer"), (START, 18, "what the training changed")]
)
def test_a_rank_is_told_as_a_bound_not_as_the_number_of_images(
    start: Start | None, directions: int, place: str
) -> None:
    told = dict(exposure_lines(CARD.model_copy(update={"start": start})))
    shown = told["directions of training images"]
    assert shown.startswith(f"{directions} in {place}: one of the images adds at most one")
    assert shown.endswith(f"so it was trained on {directions} or more")
    hidden = CARD.model_copy(update={"spectrum": None})
    assert dict(exposure_lines(hidden))["directions of training images"] == "not shown by the weights"
