"""The columns of a printed board: what stands where, which way is better, and how a number is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.publish.numbers import (
    COVERAGE,
    MISSING,
    ONE_TRAINING,
    ROW_BY_ROW,
    count,
    duration,
    fraction,
    number,
    signed,
    small,
    took,
    whole,
    written,
)
from bench.store.records import RunRecord


@dataclass(frozen=True)
class Column:
    """One column of a board.

    Attributes:
        name: of the leaderboard.
        heading: what stands above it.
        better: which way is better for the attack.
        write: a number as text.
        null: the column of its null control, which stands in brackets behind it.
        interval: the columns of the ends of its interval.
    """

    name: str
    heading: str
    better: Literal["higher", "lower"]
    write: Callable[[float], str]
    null: str = ""
    interval: tuple[str, str] | None = None

    def value(self, row: Mapping[Any, Any]) -> float:
        """Return a row's number, NaN if there is none."""
        return number(row, self.name)

    def text(self, row: Mapping[Any, Any]) -> str:
        """Return the number alone."""
        if self.name == "wall_s" and "overlapped" in row:
            return took(row)
        return written(row, self.name, self.write)

    def range_text(self, row: Mapping[Any, Any]) -> str:
        """Return the interval in brackets, "" if there is none."""
        if self.interval is None or any(math.isnan(number(row, end)) for end in self.interval):
            return ""
        low, high = (whole(number(row, end)) for end in self.interval)
        return f"[{low}, {high}]"

    def null_text(self, row: Mapping[Any, Any]) -> str:
        """Return the null control's number in brackets, "" if there is none."""
        return "" if math.isnan(number(row, self.null)) else f"({written(row, self.null, self.write)})"

    def full_text(self, row: Mapping[Any, Any]) -> str:
        """Return number, interval and null control."""
        return " ".join(filter(None, (self.text(row), self.range_text(row), self.null_text(row))))


SHOWN: tuple[Column, ...] = (
    Column("n_good", "good", "higher", count, "null_n_good", ("n_good_low", "n_good_high")),
    Column("gain", "gain", "higher", signed, interval=("gain_low", "gain_high")),
    Column("n_good_unique", "unique", "higher", count, "null_n_good_unique"),
    Column("n_good_assigned", "assigned", "higher", count, "null_n_good_assigned"),
    Column("n_good_at_1pct", "at 1% FP", "higher", count),
    Column("ssim_top10", "SSIM top 10", "higher", fraction),
    Column("mse_mean", "MSE", "lower", small, "oracle_mse"),
    Column("lpips_mean", "LPIPS", "lower", fraction),
    Column("kl_mean", "KL", "lower", fraction),
    Column("confidence_ap", "conf. AP", "higher", fraction, "base_rate"),
    Column("wall_s", "time", "lower", duration),
)
"""What boards show, of all that leaderboard.csv holds."""


def filled(rows: Iterable[Mapping[Any, Any]]) -> tuple[Column, ...]:
    """Return the columns of which one of the rows has a number."""
    found = list(rows)
    return tuple(column for column in SHOWN if any(column.full_text(row) != MISSING for row in found))


LEGEND = {
    "rank": (
        "place by the gain one to one; attacks share one where they cannot be told apart; none for controls, or where "
        f"the gain may be 0; of one run it speaks of that run alone. {ROW_BY_ROW}"
    ),
    "good": (
        "training images that are reconstructed well enough under the board's protocol, averaged over runs; in square "
        "brackets the 95% interval, in round ones the most that a null control gets"
    ),
    "gain": (
        "unique (of the informed adversary good) less the null control's, with its 95% interval; what ranks. With one "
        f"training the interval holds {ONE_TRAINING}. {COVERAGE}"
    ),
    "unique": "good when a candidate may serve one training image only",
    "assigned": "unique, and nothing is rescaled",
    "at 1% FP": "training images above the SSIM that 1% of held-out images pass",
    "SSIM top 10": "mean of the ten best",
    "MSE": (
        "mean squared error of pixels in [0, 1]; in brackets that of the nearest image that was held out, or that the "
        "attacker has"
    ),
    "LPIPS, KL": "means over all training images",
    "conf. AP": "average precision of the attack's own confidence; in brackets the share of hits",
    "time": "wall time of the attack, training excluded; at most that where other runs went on beside it",
}
"""What the headings mean; the page shows it once, above all boards."""


BOARD_ALONE = {
    "params": "the attack's parameters as people read them",
    "rank": LEGEND["rank"],
    "seeds": "runs of the cell: seeds of the attack, over all trainings",
    "trainings": "trainings of the victim that were attacked",
    "failed": "runs of the cell that failed, which count as their null control",
    "overlapped": "runs of the cell that had not the machine for themselves; wall_s is of the others, if there are any",
    "gain": LEGEND["gain"],
    "gain_low": "lower end of the 95% interval of gain",
    "gain_high": "upper end of the 95% interval of gain",
    "n_good_low": "lower end of the 95% interval of n_good",
    "n_good_high": "upper end of the 95% interval of n_good",
    "weights": "hash of the victim's weights, SEED=HASH for each of its trainings",
}
"""What the columns mean that leaderboard.csv has and runs.csv has not."""


def glossary() -> dict[str, str]:
    """Return the meaning of each column of runs.csv and of leaderboard.csv."""
    described = {name: field.description or "" for name, field in RunRecord.model_fields.items()}
    return {name: " ".join(text.replace("`", "").split()) for name, text in described.items()} | BOARD_ALONE
