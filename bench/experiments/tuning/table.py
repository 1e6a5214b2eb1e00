"""The tables of a study: one row a trial, and one row a study with an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from bench.store.cells import to_csv
from bench.terminal.text import one_line
from victims.errors import UserError
from victims.files import write_text

TRIALS, SUMMARY = "trials.csv", "summary.csv"
SHOWN = {TrialState.COMPLETE: "done", TrialState.PRUNED: "stopped"}


def write_trials(folder: Path, trials: Sequence[FrozenTrial]) -> pd.DataFrame:
    """Write trials.csv of a study and return it: number, how the trial ended, what it measured, its parameters."""
    rows = []
    for trial in trials:
        if trial.state.is_finished():
            measured = {name: trial.user_attrs.get(name) for name in ("loss", "n_good", "seconds", "reason")}
            state = "failed" if "reason" in trial.user_attrs else SHOWN[trial.state]
            rows.append({"trial": trial.number, "state": state, **measured, **trial.params})
    table = pd.DataFrame(rows)
    write_text(folder / TRIALS, to_csv(table))
    return table


def read_trials(path: Path) -> pd.DataFrame:
    """Return a trials.csv as `write_trials` writes it.

    Raises:
        UserError: it cannot be read, or is no table of trials.
    """
    try:
        table = pd.read_csv(path)
        return table.assign(**{name: pd.to_numeric(table[name]) for name in ("n_good", "loss", "seconds")})
    except KeyError as error:
        raise UserError(f"{path} is no table of trials: it has no column {error.args[0]}; move it away") from None
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise UserError(
            f"{path} is no table of trials that can be read ({one_line(str(error))}); move it away"
        ) from None


def write_summary(root: Path, notice: Callable[[str], None]) -> None:
    """Write summary.csv from the trials.csv of all studies below `root` that counted good images.

    A table that cannot be read is left out, and `notice` is told so.

    `n_good_picked` counts the good images of the trial with the smallest loss, which an attacker would pick;
    `n_good_oracle` is the largest count of any trial, and `share` is their ratio. `rank_correlation` is Spearman's
    between -loss and n_good.
    """
    rows = []
    for path in sorted(root.glob(f"*/{TRIALS}")):
        try:
            table = read_trials(path)
        except UserError as error:
            notice(f"{error}; {SUMMARY} leaves it out")
            continue
        done = table.dropna(subset=["n_good", "loss"])
        if done.empty:
            continue
        best, picked = done["n_good"].max(), done.sort_values("loss")["n_good"].iloc[0]
        rows.append(
            {
                "study": path.parent.name,
                "trials": len(table),
                "n_good_picked": picked,
                "n_good_oracle": best,
                "n_good_median": done["n_good"].median(),
                "share": picked / best if best else None,
                "rank_correlation": -done["loss"].corr(done["n_good"], method="spearman"),
                "seconds": table["seconds"].sum(),
            }
        )
    if rows:
        write_text(root / SUMMARY, to_csv(pd.DataFrame(rows)))
