"""Rows of a CSV file: their units, and what is told of a file that holds no table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from victims.datasets.tables import Units, load_table
from victims.errors import UserError

GOOD = "age,sick,bmi,smokes\n30,0,20.5,True\n60,1,31,False\n45,1,25,True\n"


def written(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_rows_are_scaled_by_column_and_told_in_their_own_units(tmp_path: Path) -> None:
    others = written(tmp_path, "smokes,bmi,sick,age\n0,41,0,90\n", "others.csv")
    raw, units = load_table(written(tmp_path, GOOD), "sick", held_out=others)

    assert units.columns == ("age", "bmi", "smokes")
    assert (raw.train_images.shape, raw.test_images.shape) == ((3, 1, 1, 3), (1, 1, 1, 3))
    assert raw.train_labels.tolist() == [0, 1, 1]
    assert raw.train_images.reshape(3, 3)[:, 0].tolist() == [0.0, 0.5, 0.25]
    assert raw.test_images.reshape(-1).tolist() == [1.0, 1.0, 0.0]
    np.testing.assert_allclose(units.rows(raw.train_images)[1], [60, 31, 0], rtol=1e-6)


def test_the_columns_that_the_model_is_given_are_chosen_in_its_order(tmp_path: Path) -> None:
    raw, units = load_table(written(tmp_path, GOOD), "sick", columns=("bmi", "age"))
    assert units.columns == ("bmi", "age")
    np.testing.assert_allclose(units.rows(raw.train_images)[0], [20.5, 30])


def test_a_column_without_variation_stays_what_it_is(tmp_path: Path) -> None:
    raw, units = load_table(written(tmp_path, "a,b,label\n1,7,0\n2,7,1\n"), "label")
    assert units.rows(raw.train_images)[:, 1].tolist() == [7, 7]


def test_without_rows_a_column_spans_four_deviations_on_either_side() -> None:
    units = Units.of_scale(("a",), (10.0,), (2.0,))
    assert units.rows(np.array([0, 0.5, 1]).reshape(3, 1, 1, 1)).ravel().tolist() == [2, 10, 18]


BAD = {
    "no file": (None, "cannot be read as a CSV table"),
    "empty": ("", "cannot be read as a CSV table"),
    "no rows": ("age,sick\n", "has no rows"),
    "no label": ("age,ill\n1,0\n", "has no column 'sick'; there are: age, ill"),
    "text": ("age,sex,sick\n1,f,0\n2,m,1\n", "column 'sex' holds 'f', which is no number"),
    "a hole": ("age,bmi,sick\n1,2,0\n2,,1\n", "column 'bmi' has no finite number in line 3"),
    "words for classes": ("age,sick\n1,no\n2,yes\n", "column 'sick' holds no classes"),
    "halves for classes": ("age,sick\n1,0.5\n2,1\n", "column 'sick' holds no classes"),
    "negative classes": ("age,sick\n1,-1\n2,1\n", "column 'sick' holds no classes"),
    "one class": ("age,sick\n1,1\n2,1\n", "all sick are 1"),
    "all the same": ("age,sick\n1,1\n1,0\n", "all rows are the same"),
    "labels alone": ("sick\n1\n0\n", "has no column but 'sick'"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_what_is_no_table_is_told_in_one_line(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "rows.csv" if text is None else written(tmp_path, text)
    with pytest.raises(UserError, match=told) as raised:
        load_table(path, "sick")
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


def test_held_out_rows_have_the_same_columns(tmp_path: Path) -> None:
    others = written(tmp_path, "age,sick,smokes\n1,0,1\n", "others.csv")
    with pytest.raises(UserError, match=r"others.csv has no column 'bmi'"):
        load_table(written(tmp_path, GOOD), "sick", held_out=others)
