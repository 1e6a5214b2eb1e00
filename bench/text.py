"""Foreign text made fit for a row and a terminal: one line, short, nothing in it that steers what shows it."""

from __future__ import annotations

import re
import unicodedata

FORMULA = re.compile(r"'*[=+\-@\t\r]")
LONGEST = 500
"""Characters of a reason; what is longer ends in an ellipsis."""
STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of what is no glyph: control and format characters (bidi overrides among them), surrogates."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return text as one line of at most `longest` characters; what steers a terminal stands as its Python escape."""
    words = " ".join(text[: 4 * longest].split())
    shown = "".join(_escaped(character) for character in words)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def lines(text: str) -> str:
    """Return text of several lines, or of any length; what steers a terminal stands as its Python escape."""
    return "\n".join("".join(_escaped(character) for character in line) for line in text.splitlines())


def as_cell(text: str) -> str:
    """Return text as a cell of a CSV file: an apostrophe stands before what a spreadsheet would take for a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """Return the text that `as_cell` made a cell of."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def describe(error: BaseException) -> str:
    """Return an exception as one line: its type, and its message if that can be had."""
    try:
        message = str(error)
    except BaseException as second:  # its own method failed
        message = f"its message cannot be shown: {type(second).__name__}"
    return one_line(f"{type(error).__name__}: {message}").removesuffix(": ").removesuffix(":")


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in STEERING:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
