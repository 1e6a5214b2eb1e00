"""Foreign text made safe for rows and terminals: one line, short, without control characters; commands; names."""

from __future__ import annotations

import difflib
import re
import shlex
import signal
import unicodedata
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

LONGEST = 500
"""Characters of a reason; what is longer ends in an ellipsis."""
LONGEST_QUOTE = 80
"""Characters that a message quotes of what somebody wrote."""
STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories of characters without a glyph: control and format characters (bidi overrides too), surrogates."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return text as one line of at most `longest` characters; what steers a terminal stands as its Python escape."""
    words, length = list[str](), 0
    for word in re.finditer(r"\S+", text):  # not `split`: a message may have the size of an array
        words.append(word[0][: longest + 1])
        length += len(words[-1]) + 1
        if length > longest + 1:
            break
    shown = "".join(_escaped(character) for character in " ".join(words))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def lines(text: str) -> str:
    """Return text of several lines, or of any length; what steers a terminal stands as its Python escape."""
    return "\n".join("".join(_escaped(character) for character in line) for line in text.splitlines())


def command(*words: str) -> str:
    """Return a command of this program as it is typed, quoted for a shell."""
    return shlex.join(["python", "-m", "bench", *words])


def variant_name(attack: str, variant: str) -> str:
    """Return an attack and its variant as one name, `inversion:black-box`; without a variant, the attack's."""
    return f"{attack}:{variant}" if variant else attack


def short(value: object) -> str:
    """Return a value as a message quotes it."""
    return one_line(repr(value), LONGEST_QUOTE)


def few(names: Sequence[str], most: int = 3) -> str:
    """Return names; if there are many, the first of them and how many more there are: `a, b, c and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nearest(name: str, known: Iterable[str]) -> str:
    """Return whom somebody may have meant who wrote an unknown name: `did you mean steps?`, or `there are: a, b`."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(names) or 'none'}"


def ending(code: int) -> str:
    """Return how a process ended, from its exit code as Python has it: `by SIGSEGV`, or `with exit status 3`."""
    if code >= 0:
        return f"with exit status {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"by signal {-code}"


def describe(error: BaseException) -> str:
    """Return an exception as one line: its type, and its message if that can be had."""
    try:
        message = _of_fields(error) if isinstance(error, ValidationError) else str(error)
    except BaseException as second:  # its own method failed
        message = f"its message cannot be shown: {type(second).__name__}"
    return one_line(f"{type(error).__name__}: {message}").removesuffix(": ").removesuffix(":")


def _of_fields(error: ValidationError) -> str:
    """Return what is wrong with each field of a description, without pydantic's types and addresses."""
    told = []
    for one in error.errors():
        place = ".".join(map(str, one["loc"]))
        value = f"={short(one['input'])}" if place and one["type"] != "missing" else ""
        told.append(f"{place}{value}{': ' if place else ''}{one['msg']}")
    return f"{error.title}: {'; '.join(told)}"


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in STEERING:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
