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


def told(**fields: object) -> dict[str, str]:
    return dict(exposure_lines(CARD.model_copy(update=fields)))


@pytest.mark.parametrize(
    ("start", "directions", "place"),
    [(None, 17, "the first fully connected layer"), (START, 18, "what the training changed")],
)
def test_a_rank_is_told_as_a_bound_not_as_the_number_of_images(
    start: Start | None, directions: int, place: str
) -> None:
    shown = told(start=start)["directions of training images"]
    assert shown.startswith(f"{directions} in {place}: one of the images adds at most one")
    assert shown.endswith(f"so it was trained on {directions} or more")
    assert told(spectrum=None)["directions of training images"] == "not shown by the weights"


def test_a_gap_is_named_only_where_there_is_one() -> None:
    """The rank of Marchenko and Pastur ends at noise: the layer's singular values go on without a gap."""
    kept = Spectrum(edge=0.9, above=12, gap=True, rank=12, left=0.42)
    name = "share of that layer that is not learnt"
    assert told(spectrum=kept)[name] == (
        "0.42 of the squares of the first fully connected layer lie outside the 12 directions that stand out from a "
        "random start"
    )
    assert told()[name] == (
        "1e-09 of the squares of the first fully connected layer lie behind a gap after 17 singular values"
    )
    assert "no gap" in told(spectrum=kept.model_copy(update={"gap": False, "left": 0.0}))[name]
    assert told(spectrum=kept)["directions that stand out"] == (
        "12 singular values of the first fully connected layer are larger than a random start would have (0.9)"
    )
    assert (
        "1 singular value of the first fully connected layer is larger"
        in (told(spectrum=kept.model_copy(update={"above": 1}))["directions that stand out"])
    )


def test_what_was_not_measured_is_said_once() -> None:
    name = "weights left unexplained (stationarity residual)"
    assert told(residual=[None, None, None])[name] == "not measured"
    assert told(residual=[None, 0.5])[name].startswith("not measured, 0.5: 0 where the images given explain all")


def test_a_network_whose_seed_was_not_sought_has_a_line_for_it() -> None:
    assert told()["seed"] == "not sought, for the first layer is not fully connected"


def test_an_owner_is_told_that_biases_do_not_protect() -> None:
    assert told()["biases behind the first layer"].startswith("some, and attacks get records from such networks too.")
    assert told(homogeneous=True)["biases behind the first layer"].startswith("none: doubling all weights")


def test_a_low_rank_update_is_told() -> None:
    assert told(start=START)["start"] == "as given; 0.9 of it left, moved by 0.2 of its length"
    tuned = told(start=START.model_copy(update={"adapter": 16}))["start"]
    assert tuned.endswith("of its length, by a low-rank update (LoRA) of rank 16")
