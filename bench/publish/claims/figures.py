"""The figures of a README: the numbers that must have an entry in claims.toml.

A figure is a count of images (`88 of 500`, `80 of the 88`), the number of a null control (`null 17`), or a cell of a
table that is a number or begins with a count. Code blocks and what stands in backticks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = r"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?"
COUNT = re.compile(rf"({NUMBER})\s+of\s+(?:the\s+)?({NUMBER})")
NULL = re.compile(rf"null\s+(?:of\s+)?({NUMBER})")
CELL = re.compile(rf"\|\s*({NUMBER})%?\s*(?=\|)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Figure:
    """A number in a text.

    Attributes:
        value: the number.
        start: its place in the text.
        line: the line that it stands in.
    """

    value: float
    start: int
    line: str


def figures(text: str) -> list[Figure]:
    """Return the figures of a document, each number once, in their order."""
    plain = CODE.sub(_blank, FENCE.sub(_blank, text))
    found = {}
    for pattern in (COUNT, NULL, CELL):
        for match in pattern.finditer(plain):
            for group in range(1, pattern.groups + 1):
                start = match.start(group)
                found[start] = Figure(number(match.group(group)), start, _line(text, start))
    return [found[start] for start in sorted(found)]


def number(text: str) -> float:
    """Return the number that a text is."""
    return float(text.replace(",", "").rstrip("."))


def places(text: str, quoted: str) -> Iterator[range]:
    """Yield where some words stand in a document, however its lines are broken."""
    words = r"\s+".join(map(re.escape, quoted.split()))
    for match in re.finditer(words, text):
        yield range(match.start(), match.end())


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _line(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0].strip()
