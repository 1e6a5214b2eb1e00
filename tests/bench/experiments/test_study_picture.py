"""The pictures of studies."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attacks.studies.base import Plot
from bench.experiments.study_picture import _distributions, draw


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
    assert [line.get_label() for line in axes.lines] == ["cosine", "null"]
    drawn = axes.lines[0].get_xydata().tolist()
    assert drawn[-3:] == [[0.2, pytest.approx(1 / 3)], [0.5, pytest.approx(2 / 3)], [0.9, 1.0]]
    assert "model ridge" in axes.get_title()
