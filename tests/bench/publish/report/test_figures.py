"""The figures: what they draw, and that they fit into any page."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from marks import drawn, in_order
from matplotlib.figure import Figure

from bench.publish.report.figures.drawn import (
    THRESHOLDS,
    Timed,
    passing,
    precision_recall,
    quality_against_time,
    share_against_threshold,
    ssim_against_output,
)
from bench.publish.report.figures.overview import Gained, gains
from bench.publish.report.figures.svg import labelled, sharing_styles, svg

SVG = "{http://www.w3.org/2000/svg}"
SSIM = np.array([0.9, 0.7, 0.5, 0.1])
SAMPLES = pd.DataFrame({"label": [0, 1, 0, 1], "output": [-2.0, 1, -3, 4], "margin": [2.0, 1, 3, 4], "ssim": SSIM})
CURVE = pd.DataFrame({"precision": [1, 0.5, 2 / 3], "recall": [0.5, 0.5, 1]})


def timed(label: str = "kkt", seconds: float = 10, good: float = 5, **more: float) -> Timed:
    values = {"low": good - 1, "high": good + 1, "null": 1, "control": False} | more
    return Timed(label, seconds, good, **values)


def gained(name: str, gain: float, trainings: int = 1) -> Gained:
    return Gained(name, gain, gain - 0.1, gain + 0.02, gain > 0.1, f"net-{name}", trainings)


KINDS = {"some networks: 1 of 2": [gained("kkt", 0.9, 3), gained("first", 0.4)], "others: 0 of 1": [gained("no", -0.4)]}
GAINS = gains(KINDS)
FIGURES = {
    "gains": GAINS,
    "time": quality_against_time([timed(), timed("random", 1, 2, control=True)], 20),
    "threshold": share_against_threshold(SSIM, SSIM / 3, 0.3, 0.4),
    "output": ssim_against_output(SAMPLES, 2),
    "confidence": precision_recall(CURVE, 0.2),
}


@pytest.mark.parametrize("svg", FIGURES.values(), ids=FIGURES)
def test_a_figure_is_one_element_with_the_colours_of_its_page(svg: str) -> None:
    root = ElementTree.fromstring(svg)

    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox")
    assert root.get("width") is None
    assert "var(--muted)" in svg
    assert not re.search(r"#0[1-5]0[1-5]0[1-5]", svg)
    assert not re.search(r'(?:href|src)="https?:', svg)
    assert "font-family" not in svg, "a few hundred figures would say it ten thousand times"
    assert not re.search(r"<[^>]*\.\d{3}", svg)


def test_a_label_keeps_its_decimals() -> None:
    assert "lr=0.12345" in quality_against_time([timed("lr=0.12345")], 10)


@pytest.mark.parametrize("svg", FIGURES.values(), ids=FIGURES)
def test_what_a_figure_refers_to_is_in_it(svg: str) -> None:
    identifiers = re.findall(r' id="([^"]+)"', svg)
    assert set(identifiers) == set(re.findall(r"[\"(]#([\w-]+)", svg))
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("M 1 2 L 3 2 L 5 2 L 5 4 L 3 4 L 1 4 z", "m1 2 4 0 0 2-4 0z"),
        ("M 1 2 L 3 2 L 2 2 L 2 3 L 2 4", "m1 2 2 0-1 0 0 2"),
        ("m1 2 .5 0 .5 0 .5 .1z", "m1 2 1 0 .5 .1z"),
        ("M 0 0 C 1 2 3 4 5 6", "M0 0C1 2 3 4 5 6"),
    ],
)
def test_a_path_has_no_points_inside_its_level_and_upright_stretches(path: str, told: str) -> None:
    drawn = sharing_styles(f'<style></style><svg viewBox="0 0 9 9"><path d="{path}"/></svg>')
    assert f'd="{told}"' in drawn


@pytest.mark.parametrize(
    ("path", "clipped"),
    [
        ("M 10 30 L 90 30", False),
        ("M 10 40 L 10 20", False),
        ("M 10 30 L 91 30", True),
        ("M 10 41 L 10 20", True),
        ("M 10 30 L 90 31", True),
        ("M 10 30 L 90 30 L 90 20", True),
    ],
)
def test_a_level_or_upright_line_inside_its_clip_has_none(path: str, clipped: bool) -> None:
    frame = '<defs><clipPath id="a"><rect x="10" y="20" width="80" height="20"/></clipPath></defs>'
    drawn = sharing_styles(f'<style></style><svg viewBox="0 0 9 9"><path d="{path}" clip-path="url(#a)"/>{frame}</svg>')
    assert ("clip-path=" in drawn) == clipped


def test_a_dot_is_a_circle() -> None:
    figure = Figure()
    figure.add_subplot().plot([1, 2], [1, 2], "o", markersize=6)
    drawn = sharing_styles(f"<style></style>{svg(figure)}")
    assert re.findall(r'<circle id="i[0-9a-f]+" r="([^"]+)"', drawn) == ["3"]
    curve = '<path d="M0 3C1 2 3 4 5 6z"/>'
    assert curve in sharing_styles(f'<style></style><svg viewBox="0 0 9 9">{curve}</svg>')


def test_figures_of_a_page_share_their_styles() -> None:
    spoken = 'style="fill: red"'
    figures = [*FIGURES.values(), quality_against_time([timed(spoken)], 20)]
    page = sharing_styles(f"<style>p {{}}\n</style><p {spoken}>{''.join(figures)}")
    rules = dict(re.findall(r"^\.(s\d+) { (.*) }$", page.split("</style>")[0], re.MULTILINE))
    told = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    for one, figure in zip(told, figures, strict=True):
        named = one.replace("<svg", f'<svg xmlns="{SVG[1:-1]}"', 1)  # as HTML reads it
        shared, own = drawn(named, rules), drawn(figure)
        assert sorted(shared) == sorted(own)
        assert list(filter(in_order, shared)) == list(filter(in_order, own)), "grids and texts are side by side"
    assert not [one for one in told if "<g>" in one or "<g/>" in one or "\n" in one], (
        "nothing that sets or draws nothing"
    )
    assert (page.count(spoken), "fill: red" in rules.values()) == (2, False), "an attribute outside, and a label"
    assert len(set(rules.values())) == len(rules)


def test_ids_of_a_page_are_short_and_no_figures_own() -> None:
    page = sharing_styles(f"<style></style>{FIGURES['time']}{FIGURES['time']}")
    first, second = (
        (set(re.findall(r' id="([^"]+)"', one)), set(re.findall(r"[\"(]#([\w-]+)", one)))
        for one in re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    )
    assert first[0] == first[1] and second[0] == second[1], "each reference is to its own figure"
    assert first[0] and not first[0] & second[0]
    assert max(map(len, first[0] | second[0])) <= 4


def test_a_figure_is_read_aloud_as_the_first_sentence_of_its_caption_and_once() -> None:
    once = labelled(FIGURES["time"], 'Good images, "all" of 20.')
    told = ElementTree.fromstring(once)
    assert (told.get("role"), told.get("aria-label")) == ("img", 'Good images, "all" of 20.')
    assert labelled(once, 'Good images, "all" of 20.') == once
    assert labelled(once, 'Good images, "all" of 20. A point is a mean of .5 s.') == once


def test_nothing_to_draw_is_no_figure() -> None:
    empty = pd.DataFrame()
    assert quality_against_time([], 20) == ""
    assert share_against_threshold(np.empty(0), SSIM, 0.3, 0.4) == ""
    assert share_against_threshold(np.full(3, np.nan), SSIM, 0.3, 0.4) == ""
    assert ssim_against_output(empty, 2) == ssim_against_output(SAMPLES.assign(ssim=math.nan), 2) == ""
    assert precision_recall(empty, 0.1) == precision_recall(CURVE * 0, 0.1) == ""


def test_the_curve_counts_good_images() -> None:
    share = passing(SSIM)

    assert share[THRESHOLDS.searchsorted(0.4)] == 0.75
    assert (share[0], share[-1]) == (1, 0)
    assert (np.diff(share) <= 0).all()


def test_a_label_is_text_whatever_it_holds() -> None:
    name = r"<b>$\frac{1}$ & --> #010101"
    svg = quality_against_time([timed(name)], 20)
    texts = ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]

    assert name in [text.strip() for text in texts]


def test_three_classes_are_drawn_by_margin() -> None:
    assert "model's output" in FIGURES["output"] or "model&#x27;s output" in FIGURES["output"]
    assert ">margin<" in ssim_against_output(SAMPLES.assign(label=[0, 1, 2, 2]), 3)


@pytest.mark.parametrize("count", [1, 30])
def test_any_number_of_cells_with_any_interval(count: int) -> None:
    cells = [timed(f"attack-{i}", 10.0 ** (i % 9), i % 20, null=math.nan) for i in range(count)]
    svg = quality_against_time(cells, 20)

    assert all(cell.label in svg for cell in cells)
    assert svg == quality_against_time(cells, 20)


@pytest.mark.parametrize(("seconds", "words"), [((100, 250), {"1.67 min", "4.17 min"}), ((0.5, 90), {"1 s", "1 min"})])
def test_there_are_always_times_below(seconds: tuple[float, float], words: set[str]) -> None:
    svg = quality_against_time([timed(f"attack-{value}", value) for value in seconds], 20)
    texts = {"".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}

    assert words <= texts


def test_a_null_control_above_all_is_in_sight() -> None:
    svg = quality_against_time([timed(good=2, null=16)], 20)
    texts = {"".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}

    assert "16" in texts


def texts_of(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_gains_name_the_network_that_their_best_row_is_of() -> None:
    told = texts_of(GAINS)
    assert {"some networks: 1 of 2", "kkt on net-kkt", "others: 0 of 1", "none surely beats chance"} <= {*told}
    long = texts_of(gains({"kind": [gained("n" * 80, 0.9)]}))
    assert max(map(len, long)) <= 60, "a phone shows a line whole"


def test_a_gain_of_one_training_is_hollow() -> None:
    alone, several = (gains({"kind": [gained("kkt", 0.9, trainings)]}) for trainings in (1, 3))
    assert "fill: var(--page)" in alone
    assert "fill: var(--page)" not in several


def test_no_line_of_the_scale_runs_through_a_word() -> None:
    root = ElementTree.fromstring(GAINS)
    heights = [float(str(text.get("y"))) for text in root.iter(f"{SVG}text") if text.get("y")]
    lines = re.findall(r"M ([\d.]+) ([\d.]+) L \1 ([\d.]+)", GAINS.replace("\n", ""))
    assert lines and heights
    for _, *ends in lines:
        low, high = sorted(map(float, ends))
        assert not any(low - 1 < height < high + 1 for height in heights)


def test_classes_differ_by_marker_too_and_have_a_key() -> None:
    assert texts_of(FIGURES["output"])[-3:] == ["class", "0", "1"]
    many = SAMPLES.assign(label=[0, 1, 2, 11])
    assert "class" not in texts_of(ssim_against_output(many, 12)), "more classes than markers"
