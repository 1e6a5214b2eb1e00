"""Which numbers of a README are figures."""

from __future__ import annotations

import pytest

from bench.publish.claims.figures import figures, places


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("it gets 88 of 500 images (null 17)", [88, 500, 17]),
        ("57 of the\n107 are left", [57, 107]),
        ("the best 40 of 1,000 have null of 2", [40, 1000, 2]),
        ("| row | 3 | .0448 | 1.6e-10 | 0% |", [3, 0.0448, 1.6e-10, 0]),
        ("| 412 of 500 images | 13 | text 9 |", [412, 500, 13]),
        ("85, 82 and 78 of 100 images, null 3, 2, 1", [85, 82, 78, 100, 3, 2, 1]),
        ("| 13, 19, 13 | 75% and 100% | 0 to 15 | 3, text |", [13, 19, 13, 75, 100, 0, 15]),
        ("| **499**, 496 | 11, 9 (–, –) | ≤ 600, ≤ 25 |", [499, 496, 11, 9, 600, 25]),
        ("| 3 (1) | **5**; 8 (2, 7) | **12** | ≤ 3% |", [3, 1, 5, 8, 2, 7, 12, 3]),
        ("186 to 482 come out, 45% to\n79% (null 5 to 6), in 17 to 18 minutes", [186, 482, 45, 79, 5, 6, 17, 18]),
        ("an SSIM of .84, SSIM above 0.4, SSIM .39 and .5", [0.84, 0.4, 0.39, 0.5]),
        ("steps from 3e-2 to 1e-5, 10 to 1e-5, 10 in 20, up to 15, kernels of 4 to 7x7, SSIM-like 3", []),
        ("| .01, 0 | n=50 |\n| --- | --- |\n| .28 | 4 |", [0.28, 4]),
        ("in 2022, with 8,000 candidates, in 49 s, at 1% false positives", []),
        ("`kkt 3 of 4` and\n```\n5 of 6 | 7 |\n```\n", []),
        ("out of three of five", []),
        ("version 1.2 of 3.", [1.2, 3]),
    ],
)
def test_counts_nulls_and_cells_are_figures(text: str, values: list[float]) -> None:
    assert [figure.value for figure in figures(text)] == values


def test_a_figure_knows_its_place_and_line() -> None:
    text = "one\ntwo 3 of 4\n"
    first, second = figures(text)
    assert (text[first.start], text[second.start]) == ("3", "4")
    assert first.line == "two 3 of 4"


def test_words_are_found_across_broken_lines() -> None:
    text = "it gets 88\n  of 500 (null 17)"
    (place,) = places(text, "88 of 500")
    assert text[place.start : place.stop].split() == ["88", "of", "500"]
    assert list(places(text, "89 of 500")) == []
