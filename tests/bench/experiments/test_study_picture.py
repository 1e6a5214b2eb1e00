"""The pictures of studies."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from attacks.studies.base import Plot
from bench.experiments.study_picture import draw
from bench.experiments.study_picture.drawn import _curves, _dots, _heat_map, _sides, _tradeoff
from bench.experiments.study_picture.samples import distributions
from bench.experiments.study_picture.words import axis, level, titled, words

UNIQUE = ("n_good_unique", "null_n_good_unique")


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
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {"study-deco.png", "study-curve.png", "study-dots.png"}, "of samples there is nothing to draw"


@pytest.mark.parametrize("kind", ["scatter", "cdf"])
def test_a_picture_of_samples_that_are_gone_is_kept(tmp_path: Path, kind: Literal["scatter", "cdf"]) -> None:
    table = pd.DataFrame(
        {"victim": "v", "scale": [1, 2, 3], "run_id": ["a", "b", "c"], "status": ["ok", "ok", "error"]}
    )
    plot, path = Plot(kind, "scale", values=("cosine",)), tmp_path / f"study-{kind}.png"
    for there in ("a", "b"):
        (tmp_path / "runs" / there).mkdir(parents=True)
        samples = pd.DataFrame({"margin": [1, 2], "ssim": [0.5, 0.9], "cosine": [0.1, 0.2]})
        samples.to_csv(tmp_path / "runs" / there / "per_sample.csv")
    draw(tmp_path, "study", plot, table)
    whole = path.read_bytes()
    (tmp_path / "runs" / "a" / "per_sample.csv").unlink()
    draw(tmp_path, "study", plot, table)
    assert path.read_bytes() == whole
    path.unlink()
    draw(tmp_path, "study", plot, table)
    assert path.read_bytes() != whole, "one panel is better than none"


def test_a_study_of_which_no_cell_ended_well_is_drawn_empty(tmp_path: Path) -> None:
    table = pd.DataFrame({"scale": ["1e-4", "standard"], "status": "error", "run_id": ["none", "neither"]})
    draw(tmp_path, "study", Plot("dots", "scale", values=("attack_loss",), logarithmic=True), table)
    assert (tmp_path / "study-dots.png").exists()


def test_a_distribution_is_drawn_of_the_samples_of_each_cell(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    pd.DataFrame({"cosine": [0.9, 0.2, 0.5], "null": [0.1, 0.1, 0.1]}).to_csv(run / "per_sample.csv")
    table = pd.DataFrame({"victim": ["v", "v"], "model": ["ridge", "mlp"], "run_id": ["one", "not-run"]})
    (axes,) = distributions(tmp_path, table, Plot("cdf", "model", values=("cosine", "null", "absent"))).axes[:1]
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
    figure = _tradeoff(table, Plot("tradeoff", "test_accuracy", "defence", UNIQUE))
    (axes,) = figure.axes
    shown = {line.get_label(): (line.get_marker(), line.get_linestyle()) for line in axes.lines}
    assert (shown["noise"], shown["decay"]) == (("o", "None"), ("s", "None"))
    assert all(line.get_linestyle() == "None" for line in axes.lines if len(line.get_xdata()) > 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("test accuracy", "records: good, one to one")


def test_both_axes_of_dots_are_named() -> None:
    table = pd.DataFrame({"network": ["a", "b"], "share_good": [0.1, 0.2], "null_share_good": 0.0})
    (axes,) = _dots(table, Plot("dots", "network", values=("share_good", "null_share_good"))).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "share of the records", "neurons of the hidden layers",
    )  # fmt: skip


def test_a_column_without_words_of_its_own_is_called_by_its_name() -> None:
    assert (words("weight_decay"), axis(["no_member_rate"]), titled("no_member_rate")) == (
        "weight decay", "no member rate", "no member rate",
    )  # fmt: skip
    assert titled("mse_to_training") == "mean squared error: to the nearest training image"
    assert axis(["n_good"], pd.DataFrame({"n": [50, 50]})) == "records, of 50"
    assert axis(["n_good"], pd.DataFrame({"n": [500, 1000]})) == "records, of 500 to 1,000"
    assert axis(["mse_mean"], pd.DataFrame({"n": [50]})) == "mean squared error"
    assert (level(10000.0), level("momentum0"), level("relu")) == ("10000", "no momentum", "relu")


def test_a_null_has_the_colours_of_its_count() -> None:
    table = pd.DataFrame({"x": [1, 2], "y": 1, "n_good": [5, 40], "null_n_good": [3, 3], "mse_mean": [0.1, 0.2]})
    figure = _heat_map(table, Plot("map", "x", "y", (*table.columns[2:], "absent")))
    maps = [axes for axes in figure.axes if axes.images]
    limits = {axes.get_title(): axes.images[0].norm.vmax for axes in maps}
    assert limits == {
        "records: good": 40,
        "records: strictest null control": 40,
        "mean squared error: of the attack": 0.2,
    }
    assert len([axes for axes in figure.axes if axes.axison]) == 6, "three maps with a scale each, and no empty axes"


def test_shares_are_told_by_the_counts_of_a_table_that_has_none(tmp_path: Path) -> None:
    table = pd.DataFrame({"habit": ["a", "b"], "n": [50, 300], "n_good_unique": [49, 3], "null_n_good_unique": [1, 3]})
    plot = Plot("dots", "habit", values=("share_good_unique", "null_share_good_unique"))
    draw(tmp_path, "told", plot, table)
    shares = {"share_good_unique": [0.98, 0.01], "null_share_good_unique": [0.02, 0.01]}
    draw(tmp_path, "held", plot, table.assign(**shares))
    assert (tmp_path / "told-dots.png").read_bytes() == (tmp_path / "held-dots.png").read_bytes()
    draw(tmp_path, "other", plot, table.assign(**shares | {"share_good_unique": [0.5, 0.01]}))
    assert (tmp_path / "told-dots.png").read_bytes() != (tmp_path / "other-dots.png").read_bytes()


def test_labels_of_points_on_one_spot_stand_apart() -> None:
    sides = list(_sides(np.array([[0.5, 10.0]] * 4 + [[0.9, 10.0]])))
    assert len(set(sides[:4])) == 4
    assert sides[4] == sides[0], "a point that stands alone has its label where it is looked for"


def test_a_logarithmic_label_of_few_powers_of_ten_has_plain_ticks() -> None:
    rows = [{"attack": "a", "width": width, "n_good_unique": 1.0, "null_n_good_unique": 0.0} for width in (50, 1000)]
    plot = Plot("curve", "width", values=UNIQUE, logarithmic=True)
    (axes,) = (figure := _curves(pd.DataFrame(rows), plot)).axes
    figure.canvas.draw()
    assert {"50", "100", "200", "500", "1000"} <= {label.get_text() for label in axes.get_xticklabels()}
    assert axes.get_ylim()[0] < 0, "the markers of a null of 0 are seen whole"
    (none, *_) = _curves(pd.DataFrame([*rows, rows[0] | {"width": 0}]), plot).axes
    assert (axes.get_xscale(), none.get_xscale()) == ("log", "symlog")
