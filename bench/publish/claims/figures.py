"""The figures of a document: the numbers that must have an entry in claims.toml.

A figure is a count of images (`88 of 500`, `80 of the 88`, `85, 82 and 78 of 100`), a range (`45 to 79`), the number
of a null control (`null 17`, `null 3, 2, 1`), an SSIM (`SSIM of .84`), or a cell of a table that is a number, or
several (`.0286`, `77%`, `**13**, 19`, `≤ 16, 17`, `5; 8 (2; –)`), or begins with a count. The heads of tables, code
blocks and what stands in backticks are left out, and so are ranges of numbers with exponents, such as steps
`from 3e-2 to 1e-5`, which are settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PLAIN = r"(?<![\w.])(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)"
NUMBER = rf"{PLAIN}(?:e-?\d+)?"
SEVERAL = rf"{NUMBER}%?(?:(?:,|\s+and|,\s+and)\s+{NUMBER}%?)*"
COUNT = re.compile(rf"({SEVERAL})\s+of\s+(?:the\s+)?({NUMBER})")
NULL = re.compile(rf"null\s+(?:of\s+)?({SEVERAL})")
RANGE = re.compile(rf"(?<!-){PLAIN}%?\s+to\s+{PLAIN}(?![\w-])")
SSIM = re.compile(rf"SSIM\s+(?:(?:above|of)\s+)?({SEVERAL})")
AT_MOST = rf"(?:≤\s*)?{NUMBER}%?"
CELL = re.compile(rf"\|\s*({AT_MOST}(?:(?:\s*[,;]|,?\s+and)\s+{AT_MOST})*)\s*(?:\([^)|]*\))?\s*(?=\|)")
HEAD = re.compile(r"^\|.*\n(?=\|[ :|-]+$)", re.MULTILINE)
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
    plain = HEAD.sub(_blank, CODE.sub(_blank, FENCE.sub(_blank, text))).replace("**", "  ")
    found = {}
    for pattern in (COUNT, NULL, RANGE, SSIM, CELL):
        for match in pattern.finditer(plain):
            for one in re.finditer(NUMBER, match.group()):
                start = match.start() + one.start()
                found[start] = Figure(number(one.group()), start, _line(text, start))
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
