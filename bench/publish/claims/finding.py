"""What `verify` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ClaimOutcome(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "not comparable"


@dataclass(frozen=True)
class Finding:
    """What the tables say of a claim.

    Attributes:
        outcome: see `ClaimOutcome`.
        text: of the claim, of the line whose figure has none, or the name of the table that is not what it should be.
        why: what differs, or why nothing can be compared; empty where it holds.
        beside: the paper's numbers and ours, empty where the claim is no paper's.
    """

    outcome: ClaimOutcome
    text: str
    why: str = ""
    beside: str = ""
