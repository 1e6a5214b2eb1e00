"""Foreign text before it reaches a row or a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.store.cells import as_cell, from_cell
from bench.terminal.text import LONGEST, STEERING, describe, ending, few, lines, nearest, one_line
from victims.spec import VictimSpec


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  more", "two lines and more"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("ünïcode ²", "ünïcode ²"),
    ],
)
def test_what_steers_a_terminal_is_shown_and_not_obeyed(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text(st.characters(), max_size=50) | st.integers(0, 10**7).map(lambda size: "x" * size))
def test_any_text_is_one_short_line(text: str) -> None:
    import unicodedata

    line = one_line(text)
    assert len(line) <= LONGEST
    assert not any(unicodedata.category(character) in STEERING for character in line)
    line.encode("utf-8")


def test_what_does_not_fit_is_told_by_an_ellipsis_and_blanks_take_no_room() -> None:
    assert one_line("shape mismatch" + " " * 3000 + "the cause") == "shape mismatch the cause"
    assert one_line(" " * 3000) == ""
    for text, line in (("abc de", "abc de"), ("abc def", "abc d…"), ("abcdefg", "abcde…"), ("a\x1bb  c", "a\\x1b…")):
        assert one_line(text, 6) == line


def test_an_exception_is_its_type_and_its_message() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert describe(RuntimeError("a bug")) == "RuntimeError: a bug"
    assert describe(RuntimeError()) == "RuntimeError"
    assert describe(Unprintable()) == "Unprintable: its message cannot be shown: ValueError"


def test_a_wrong_description_names_the_field_its_value_and_no_address() -> None:
    with pytest.raises(ValidationError) as wrong:
        VictimSpec.model_validate({"name": "x", "n": -4})
    said = describe(wrong.value)
    assert said.startswith("ValidationError: VictimSpec: ")
    assert "dataset: Field required" in said
    assert "n=-4: Input should be greater than" in said
    assert "https" not in said


@pytest.mark.parametrize(("code", "words"), [(0, "with exit status 0"), (-11, "by SIGSEGV"), (-35, "by signal 35")])
def test_an_exit_code_is_told_in_words_though_its_signal_has_no_name(code: int, words: str) -> None:
    assert ending(code) == words


@pytest.mark.parametrize(
    ("count", "most", "words"),
    [(0, 3, ""), (3, 3, "a, b, c"), (5, 3, "a, b, c and 2 more"), (5, 1, "a and 4 more")],
)
def test_of_many_names_the_first_stand_and_the_others_are_counted(count: int, most: int, words: str) -> None:
    assert few("abcde"[:count], most) == words


def test_an_unknown_name_is_told_the_nearest_or_all() -> None:
    assert nearest("stpes", ("restarts", "steps")) == "did you mean steps?"
    assert nearest("x", ("restarts", "steps")) == "there are: restarts, steps"
    assert nearest("x", ()) == "there are: none"


def test_lines_stay_lines() -> None:
    assert lines("a  b\n\x1b[31mred\r\n\u202e") == "a  b\n\\x1b[31mred\n\\u202e"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1"])
def test_a_formula_is_text_in_a_cell(text: str) -> None:
    assert as_cell(text) == f"'{text}"


@given(st.text(st.sampled_from("'=+-@\t\rab "), max_size=6))
def test_a_cell_is_read_as_the_text_that_it_was(text: str) -> None:
    assert from_cell(as_cell(text)) == text
    assert from_cell("'quoted'") == as_cell("'quoted'") == "'quoted'"
