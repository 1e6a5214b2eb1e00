"""What `check` says: a claim, and what is wrong with it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from bench.terminal.text import describe


@dataclass(frozen=True)
class ContractClaim:
    """One thing that an attack or a victim must hold.

    Attributes:
        subject: the attack's or the victim's name.
        text: the claim.
        trouble: why it does not hold and what to change, one line; empty if it holds.
    """

    subject: str
    text: str
    trouble: str = ""

    @property
    def holds(self) -> bool:
        """Whether there is no trouble."""
        return not self.trouble


def where(error: BaseException, file: str) -> str:
    """Return an exception as one line, with the last line of `file` that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{describe(error)}{place}"
