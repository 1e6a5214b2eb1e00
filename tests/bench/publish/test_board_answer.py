"""What stands first in leaderboard.md: the answer in sentences, and what a row of the first table says."""

from __future__ import annotations

import pytest

from bench.publish.best import Best
from bench.publish.board_page import LINE, _answer


def found(beaten: int, tried: int, twins: int = 0, twins_lead: int = 0) -> Best:
    return Best("a kind", {}, {}, beaten, tried, twins, twins_lead)


@pytest.mark.parametrize(("twin", "end"), [(False, "were run; no twin was attacked."), (True, "were run.")])
def test_a_folder_of_one_model_is_told_in_plain_sentences(twin: bool, end: str) -> None:
    told, *_ = _answer([found(0, 1)], twin).split("\n\n")
    assert " ".join(told.split()) == (
        "Of the one model attacked, no attack surely got more than its null controls, which does not show that it is "
        f"safe. The null controls are those that {end}"
    )


def test_twins_are_counted_where_there_are_some() -> None:
    told, *_ = _answer([found(3, 5, 2, 1)], True).split("\n\n")
    assert " ".join(told.split()).endswith(
        "; for 2 of the 3 models that give something away one of them is the same attack on a twin of the network, and "
        "for 1 of these it gets more than the others."
    )


def test_what_a_row_says_is_a_list() -> None:
    *_, items = _answer([found(3, 5)], False).split("\n\n")
    lines = items.splitlines()
    assert [line.partition("**:")[0] for line in lines if line.startswith("*")] == [
        "* **network",
        "* **give something away",
        "* **best attack",
    ]
    assert max(map(len, lines)) <= LINE
