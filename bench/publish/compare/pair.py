"""One cell in two tables: how far it can be compared, how surely each score changed, and whether it got worse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from bench.publish.compare.causes import cause
from bench.publish.compare.entries import Entry
from bench.publish.ranking import Row
from bench.publish.statistics import difference_interval, gain_interval
from bench.store.records import COUNTS, ONE_TO_ONE

SURE = ("n_good", ONE_TO_ONE, "gain")
"""The scores that are sums over images, whose changes have an interval where the images are known."""
OTHERS = ("failed", "ssim_top10", "mse_mean", "wall_s")
"""What is compared beside the counts and the gain."""
PRECISION = 1e-5
SLACK = {"wall_s": 0.1}
"""Relative difference below which a score is the same, where it is not `PRECISION`: seconds are never equal."""
UNKNOWN = (np.nan, np.nan)


class Change(NamedTuple):
    """A score in two tables, and the ends of the 95% interval of its change, NaN where they are not known."""

    score: str
    old: float
    new: float
    low: float = np.nan
    high: float = np.nan

    @property
    def differs(self) -> bool:
        """Whether the score is another one."""
        if pd.isna(self.old) or pd.isna(self.new):
            return bool(pd.isna(self.old) != pd.isna(self.new))
        slack = SLACK.get(self.score, PRECISION)
        return abs(self.old - self.new) > slack * max(abs(self.old), abs(self.new))

    @property
    def text(self) -> str:
        """The change in words."""
        return f"{'fell' if not self.new >= self.old else 'rose'} from {self.old:.6g} to {self.new:.6g}"


@dataclass(frozen=True)
class Pair:
    """One cell in two tables.

    Attributes:
        before: the cell in the old table.
        after: the cell in the new table.
    """

    before: Entry
    after: Entry

    @cached_property
    def common(self) -> frozenset[int] | None:
        """The trainings that both have, if they have not the same ones; None if all is compared."""
        ours, theirs = self.before.trainings, self.after.trainings
        return ours & theirs if ours and theirs and ours != theirs else None

    @property
    def told(self) -> str:
        """What is compared, to stand behind the cell's name; empty if all is."""
        if self.common is None:
            return ""
        return f", on the trainings that both have: {', '.join(map(str, sorted(self.common)))}"

    @property
    def obstacle(self) -> str:
        """Why nothing can be compared; empty if something can."""
        if self.common is not None and not self.common:
            return "no training in common"
        return "" if self.changes else "a table does not tell the scores of the trainings that both have"

    @cached_property
    def changes(self) -> dict[str, Change]:
        """All scores that can be compared, by name; of a part of the trainings only those whose images are known."""
        if self.common is not None:
            old, new = self.before.on(self.common), self.after.on(self.common)
            return {
                score: self._change(
                    score, old[score].total, new[score].total, difference_interval(old[score], new[score])
                )
                for score in SURE
                if score in old and score in new
            }
        return {score: self._whole(score) for score in self._compared}

    @property
    def regression(self) -> str:
        """In which way the cell got worse, empty if it did not."""
        old, new = self.before.row, self.after.row
        gone = self.before.trainings - self.after.trainings
        if new["failed"] == new["seeds"] and old["failed"] < old["seeds"] and not gone:
            return f"every run fails{self.told}"
        if not _scored_alike(old, new):
            return ""
        reasons = [f"n_good {self.changes['n_good'].text}"] if self._worse("n_good") else []
        null = self.changes.get(self._null)
        rose = null is not None and null.differs and null.new > null.old
        lost = self._gain_lost
        if lost and (rose or not reasons):
            reasons.append(f"{lost}; its null control {null.text}" if null is not None and rose else lost)
        if not reasons and self._worse(ONE_TO_ONE):
            reasons.append(f"{ONE_TO_ONE} {self.changes[ONE_TO_ONE].text}")
        return "; ".join(reasons) + (self.told if reasons else "")

    @property
    def by_chance(self) -> str:
        """What fell and is no regression, for chance gets as much in both tables; empty if nothing did."""
        old, new = self.before.row, self.after.row
        if not _scored_alike(old, new):
            return ""
        return "; ".join(
            f"{score} {self.changes[score].text} (null {old[f'null_{score}']:.6g}, {new[f'null_{score}']:.6g})"
            for score in ("n_good", ONE_TO_ONE)
            if self._fell(score) and self._at_chance(score)
        )

    @property
    def cause(self) -> str:
        """What differs between the runs of the two."""
        return cause(self._row(self.before), self._row(self.after))

    @property
    def _compared(self) -> list[str]:
        """The scores that both rows count alike: a gain is one to one in both, or in none."""
        alike = pd.isna(self.before.row[ONE_TO_ONE]) == pd.isna(self.after.row[ONE_TO_ONE])
        return [*COUNTS, *([self._null, "gain"] if alike else []), *OTHERS]

    @property
    def _null(self) -> str:
        """The count of the strictest null control that the gain is over."""
        return "null_n_good" if pd.isna(self.before.row[ONE_TO_ONE]) else f"null_{ONE_TO_ONE}"

    @property
    def _gain_lost(self) -> str:
        """How the gain surely fell, or that it is no longer surely above 0; empty if neither."""
        gain = self.changes.get("gain")
        if gain is None or not same_images(self.before.row, self.after.row):
            return ""
        if self._above_0(self.before) and not self._above_0(self.after):
            return f"its gain was surely above 0 ({gain.old:.6g}) and is no longer ({gain.new:.6g})"
        return f"its gain {gain.text}" if gain.high < 0 < gain.old else ""

    def _above_0(self, entry: Entry) -> bool:
        """Return whether the gain is surely above 0; ends that are not those of the gain make nothing sure."""
        if self.common is not None:
            return gain_interval(entry.on(self.common)["gain"])[0] > 0
        return bool(0 < entry.row["gain_low"] <= entry.row["gain"])

    def _worse(self, score: str) -> bool:
        """Return whether a score surely fell that was more than chance gets."""
        return self._fell(score) and not self._at_chance(score)

    def _at_chance(self, score: str) -> bool:
        """Return whether a count is at or below its null control in both tables; of a part of them nothing tells it."""
        rows = (self.before.row, self.after.row)
        return self.common is None and all(row[score] <= row[f"null_{score}"] for row in rows)

    def _fell(self, score: str) -> bool:
        """Return whether a score surely fell; of n_good also whether it fell and nothing tells how surely."""
        change = self.changes.get(score)
        if change is None:
            return False
        fell = pd.notna(change.old) and not change.new >= change.old  # a count that vanished has fallen, too
        return bool(fell and not change.high >= 0 if score == "n_good" else change.high < 0)

    def _row(self, entry: Entry) -> Row:
        """Return the row of a cell with the weights of the trainings that are compared."""
        if self.common is None:
            return entry.row
        weights = [pair for pair in str(entry.row["weights"]).split(";") if pair]
        kept = [pair for pair in weights if pair.partition("=")[0] in map(str, self.common)]
        return entry.row | {"weights": ";".join(kept)}

    def _whole(self, score: str) -> Change:
        """Return the change of a score over all trainings.

        Where a table does not tell which images are good, the interval spans what those of the two scores allow.
        """
        old, new, low, high = self.before.row, self.after.row, f"{score}_low", f"{score}_high"
        ends = UNKNOWN
        if score in self.before.samples and score in self.after.samples:
            ends = difference_interval(self.before.samples[score], self.after.samples[score])
        elif low in old:
            ends = new[low] - old[high], new[high] - old[low]
        return self._change(score, old[score], new[score], ends)

    def _change(self, score: str, old: float, new: float, ends: tuple[float, float]) -> Change:
        """Return a change; with the interval if it holds the change, and the same images were scored alike."""
        low, high = ends
        sure = same_images(self.before.row, self.after.row) and -np.inf < low <= new - old <= high
        return Change(score, old, new, *(ends if sure else UNKNOWN))


def same_images(before: Row, after: Row) -> bool:
    """Return whether two rows are of the same images, which were scored alike."""
    keys = {before["victim_key"], after["victim_key"]} - {""}
    return (
        all(before[name] == after[name] for name in ("dataset", "n")) and len(keys) < 2 and _scored_alike(before, after)
    )


def _scored_alike(before: Row, after: Row) -> bool:
    """Return whether two rows have the same metric suite and version of their protocol, which is 1 in older tables."""
    ours, theirs = (str(row["protocol_version"]).removesuffix(".0") or "1" for row in (before, after))
    return ours == theirs and bool(before["metric_suite"] == after["metric_suite"])
