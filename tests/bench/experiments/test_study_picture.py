"""The pictures of studies."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attacks.studies.base import Plot
from bench.experiments.study_picture import draw
from bench.experiments.study_picture.drawn import _curves, _distributions, _dots, _tradeoff
from bench.experiments.study_picture.words import axis, titled, words


def test_plots_survive_cells_that_failed_and_labels_that_are_words(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "attack": "deco",
            "victim": "v",
            "scale": ["1e-4", "standard"],
            "run_id": ["no-such-run", "nor-this"],
            "n_good": [3.0, float("nan")],
        }
    )
    for plot in (
        Plot("map", "scale", "victim", ("n_good", "null_n_good")),
        Plot("curve", "scale"),
        Plot("dots", "scale"),
        Plot("scatter", "scale"),
        Plot("cdf", "scale", values=("cosine",)),
    ):
        draw(tmp_path, "study", plot, table)
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_a_study_of_which_no_cell_ended_well_is_drawn_empty(tmp_path: Path) -> None:
    table = pd.DataFrame({"scale": ["1e-4", "standard"], "status": "error", "run_id": ["none", "neither"]})
    draw(tmp_path, "study", Plot("dots", "scale", values=("attack_loss",), logarithmic=True), table)
    assert (tmp_path / "study-dots.png").exists()


def test_a_distribution_is_drawn_of_the_samples_of_each_cell(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    pd.DataFrame({"cosine": [0.9, 0.2, 0.5], "null": [0.1, 0.1, 0.1]}).to_csv(run / "per_sample.csv")
    table = pd.DataFrame({"victim": ["v", "v"], "model": ["ridge", "mlp"], "run_id": ["one", "not-run"]})
    (axes,) = _distributions(tmp_path, table, Plot("cdf", "model", values=("cosine", "null", "absent"))).axes[:1]
    assert [line.get_label() for line in axes.lines] == ["reconstruction", "null"]
    drawn = axes.lines[0].get_xydata().tolist()
    assert drawn[-3:] == [[0.2, pytest.approx(1 / 3)], [0.5, pytest.approx(2 / 3)], [0.9, 1.0]]
    assert "model ridge" in axes.get_title()


def test_lines_differ_by_more_than_their_colour_and_are_named_in_words() -> None:
    values = {"n_good_unique": 5.0, "null_n_good_unique": 1.0}
    table = pd.DataFrame(
        [{"attack": name, "stopped_at": at, **values} for name in ("kkt-general", "kkt-span") for at in (0.1, 0.4)]
    )
    figure = _curves(table, Plot("curve", "stopped_at", values=tuple(values)))
    (axes,) = figure.axes
    looks = [(line.get_marker(), line.get_linestyle(), line.get_markerfacecolor() == "none") for line in axes.lines]
    assert looks == [("o", "-", False), ("o", "--", True), ("s", "-", False), ("s", "--", True)]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("stationarity residual at which the training stopped", "records")
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()][:2] == [
        "kkt-general: good, one to one", "kkt-general: strictest null control, one to one",
    ]  # fmt: skip


def test_no_line_joins_the_strengths_of_a_defence() -> None:
    told = {"defence": ["none", "noise", "noise", "decay"], "strength": ["", "1", "2", "3"]}
    table = pd.DataFrame(told | {"test_accuracy": [0.9, 0.7, 0.8, 0.6], "n_good_unique": 5.0, "null_n_good_unique": 1})
    values = ("n_good_unique", "null_n_good_unique")
    figure = _tradeoff(table, Plot("tradeoff", "test_accuracy", "defence", values))
    (axes,) = figure.axes
    shown = {line.get_label(): (line.get_marker(), line.get_linestyle()) for line in axes.lines}
    assert (shown["noise"], shown["decay"]) == (("o", "None"), ("s", "None"))
    assert all(line.get_linestyle() == "None" for line in axes.lines if len(line.get_xdata()) > 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("test accuracy", "records: good, one to one")


def test_both_axes_of_dots_are_named() -> None:
    table = pd.DataFrame({"network": ["a", "b"], "share_good": [0.1, 0.2], "null_share_good": 0.0})
    (axes,) = _dots(table, Plot("dots", "network", values=("share_good", "null_share_good"))).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("share of the records", "network")


def test_a_column_without_words_of_its_own_is_called_by_its_name() -> None:
    assert (words("weight_decay"), axis(["no_member_rate"]), titled("no_member_rate")) == (
        "weight decay", "no member rate", "no member rate",
    )  # fmt: skip
    assert titled("mse_to_training") == "mean squared error: to the nearest training image"
