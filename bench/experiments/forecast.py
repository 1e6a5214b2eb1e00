"""How long a plan will take, by what stored runs of the same attacks and victims took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.plan.registry import ROOT
from bench.plan.run import Run
from bench.publish.numbers import duration
from bench.publish.runs_table import read_runs
from bench.run.nulls.kinds import twins_of
from bench.run.setup import Setup
from bench.run.steps import Step
from bench.run.todo import Todo
from bench.store.file_names import RUNS_CSV
from bench.terminal.progress import plural
from victims.errors import UserError
from victims.informed.spec import AnySpec
from victims.spec import VictimSpec


@dataclass(frozen=True)
class Forecast:
    """What a plan leaves to do.

    Attributes:
        runs: number of runs to be made, those that are skipped among them.
        stored: number of the plan's other runs.
        seconds: what the runs of known length take, one after the other.
        unknown: number of runs to be made without a stored run of the same attack and victim.
        skipped: number of runs to be made that end at once, for their attack does not take the victim.
    """

    runs: int
    stored: int
    seconds: float
    unknown: int
    skipped: int = 0

    @property
    def text(self) -> str:
        """The forecast in a line."""
        line = f"{plural(self.runs - self.skipped, 'run')} to make, {self.stored} stored"
        if self.runs == 0:
            return line
        known = self.runs - self.unknown - self.skipped
        if known:
            line += f"; about {duration(self.seconds)} for {known} of them, by what stored runs took"
            line += f"; {self.unknown} of unknown length" if self.unknown else ""
        elif self.unknown:
            line += "; no stored run tells how long"
        return line + (f"; {self.skipped} skipped, for the attack does not take the victim" if self.skipped else "")


def forecast(
    entries: Sequence[Todo], times: pd.DataFrame, setup: Setup, is_trained: Callable[[AnySpec], bool]
) -> Forecast:
    """Return what is left of a plan; the seconds are for one run after the other on the machine of the stored runs.

    Args:
        entries: the runs with their next steps.
        times: rows of runs.csv files; see `times_of`.
        setup: whether null controls attack twins.
        is_trained: says whether a victim, or a twin of it, is in the cache, and so takes no time.
    """
    left = [entry.run for entry in entries if entry.step is Step.ATTACK]
    seconds, unknown, skipped = 0.0, 0, 0
    attacked: set[tuple[str, str, str]] = set()
    trained: dict[str, bool] = {}
    for run in left:
        row = _alike(run, times)
        if row is None:
            possible = run.possible()
            unknown, skipped = unknown + possible, skipped + (not possible)
            continue
        cell = (run.attack.name, run.params.model_dump_json(), run.victim.name)
        twins = twins_of(run) if setup.twins else ()
        seconds += row["wall_s"] * (1 + len(twins) * (cell not in attacked))  # once for all seeds
        attacked.add(cell)
        for spec in _trainings(run.victim, "disjoint" in twins):
            seconds += row["train_s"] * (not trained.setdefault(spec.name, is_trained(spec)))
            trained[spec.name] = True
    return Forecast(len(left), len(entries) - len(left), seconds, unknown, skipped)


def times_of(results: Path) -> pd.DataFrame:
    """Return the rows with the time of a run: of this program's published table, and of a results folder.

    A table that cannot be read tells nothing.
    """
    tables = []
    for path in dict.fromkeys([(folder / RUNS_CSV).resolve() for folder in (ROOT / "results", results)]):
        try:
            tables.append(read_runs(path))
        except UserError:
            continue
    columns = ["attack", "params_hash", "victim", "wall_s", "train_s"]
    rows = pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)
    return rows[rows["wall_s"].notna()]


def _trainings(victim: AnySpec, disjoint: bool) -> list[AnySpec]:
    """Return a victim and its twin of other images, if that is attacked; the other twin is never trained."""
    return [victim, victim.as_twin("disjoint")] if disjoint and isinstance(victim, VictimSpec) else [victim]


def _alike(run: Run, times: pd.DataFrame) -> dict[str, float] | None:
    """Return the mean seconds of attack and training of runs like this one, None if there is none."""
    same = times[(times["attack"] == run.attack.name) & (times["victim"] == run.victim.described.name)]
    exact = same[same["params_hash"] == run.params_hash]
    chosen = exact if len(exact) else same
    if chosen.empty:
        return None
    means = chosen[["wall_s", "train_s"]].astype(float).mean().fillna(0)
    return {str(name): float(value) for name, value in means.items()}
