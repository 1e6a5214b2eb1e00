"""What figures have in common is on a page once, and each figure has it again when the page is read."""

from __future__ import annotations

import re

import pytest

from bench.publish.report.figures.frames import FEWEST, sharing_frames, sharing_runs, with_own_frames, with_own_runs
from bench.publish.report.figures.svg import sharing_styles

GRID = '<path d="M1 2v3M4 2v3" class="s1"/><text class="s2" x="1" y="9">0.0</text>'
BEGIN = '<svg viewBox="0 0 9 9">'
OTHER = '<path d="M1 2v3" class="s1"/>'
CURVE = '<path d="m1 2 3 4" class="s3"/></svg>'


def page(*frames: str) -> str:
    return f"<body>{''.join(BEGIN + frame + CURVE for frame in frames)}</body>"


def test_a_frame_that_many_figures_begin_with_is_there_once_and_comes_back() -> None:
    whole = page(*[GRID] * FEWEST, OTHER)
    shared = sharing_frames(whole)
    assert shared.count(GRID) == 1
    assert shared.count('<use href="#f0"/>') == FEWEST
    assert shared.count(OTHER) == 1
    assert shared.count(CURVE) == FEWEST + 1
    assert shared.endswith("</svg></body>")
    assert with_own_frames(shared) == whole
    assert sharing_frames(with_own_frames(shared)) == shared


def test_few_figures_keep_their_frames() -> None:
    whole = page(*[GRID] * (FEWEST - 1))
    assert sharing_frames(whole) == whole == with_own_frames(whole)


def test_a_run_is_named_by_the_first_of_its_figures() -> None:
    whole = "".join(f'<figure data-run="{run}"></figure>' for run in ("a", "a", "b", "a", "a"))
    shared = sharing_runs(whole)
    assert shared == "".join(f'<figure data-run="{run}"></figure>' for run in ("a", "", "b", "a", ""))
    assert with_own_runs(shared) == whole


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["M 1 2 L 1 5", "M 4 2 L 9 2"], ["M1 2v3M4 2h5"]),
        (["M 1 2 L 1 5", "M 4 2 L 9 3", "M 4 2 L 9 2"], ["M1 2v3", "m4 2 5 1", "M4 2h5"]),
        (["M 12 34", "M 1 2 L 1 5"], ["m12 34", "M1 2v3"]),
        (["M 1 2 L 1 5 L 4 5"], ["m1 2 0 3 3 0"]),
    ],
    ids=["side by side", "a line between", "a point", "two steps"],
)
def test_level_and_upright_lines_of_one_style_are_one_path(paths: list[str], told: list[str]) -> None:
    drawn = "".join(f'<path d="{path}" style="stroke: red"/><text x="1">0</text>' for path in paths)
    page = sharing_styles(f'<style></style><svg viewBox="0 0 9 9">{drawn}</svg>')
    assert re.findall(r' d="([^"]*)"', page) == told
    assert page.count("<text") == len(paths)
