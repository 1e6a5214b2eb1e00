"""Each claim against the tables, and each figure of a README or a finding against the claims."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from bench.plan.options import value_text
from bench.publish.claims.entries import Claim
from bench.publish.claims.figures import figures, places
from bench.publish.claims.finding import ClaimOutcome, Finding
from bench.publish.claims.tables import Tables, made_of_runs
from bench.publish.numbers import MISSING
from bench.publish.runs_table import current
from bench.store.file_names import RUNS_CSV
from bench.store.records import Status
from victims.errors import UserError

READMES = (
    *("README.md", "results/README.md", "attacks/README.md", "victims/README.md"),
    *("tests/README.md", "tests/benchmarks/README.md"),
)
"""READMEs whose figures need an entry, from the root of the repository. bench/README.md quotes no results."""
FINDINGS = "results/findings"
"""The folder whose documents all are checked beside the READMEs."""
COUNTS = ("n_good", "null_")
"""How the names of columns that count images begin."""


def verify(claims: Sequence[Claim], results: Path, root: Path | None = None) -> list[Finding]:
    """Return what became of each claim, and a finding for all else that is wrong.

    That is a figure without a claim, a text that is not there, and a table that is not what runs.csv makes.

    Args:
        claims: the entries.
        results: the folder whose tables speak.
        root: of the repository, whose documents are read; None to look at no document.

    Raises:
        UserError: a table is damaged.
    """
    tables = Tables(results)
    found = [_checked(claim, tables) for claim in claims]
    return [*found, *made_of_runs(tables), *([] if root is None else documents(claims, root))]


def _checked(claim: Claim, tables: Tables) -> Finding:
    """Return what the tables say of a claim."""
    if claim.unsupported:
        return Finding(ClaimOutcome.UNKNOWN, claim.text, claim.unsupported)
    table = tables.get(claim.table)
    if table is None:
        return Finding(ClaimOutcome.UNKNOWN, claim.text, f"there is no table {claim.table}")
    rows = rows_of(claim, table)
    named = ", ".join(f"{name} {value_text(value)}" for name, value in claim.where.items())
    if len(rows) != 1:
        many = "no stored row" if rows.empty else f"{len(rows)} stored rows"
        return Finding(ClaimOutcome.UNKNOWN, claim.text, f"{many} of {named}")
    if failed := _failed(rows.iloc[0]):
        return Finding(ClaimOutcome.UNKNOWN, claim.text, f"{failed} ({named})")
    return _held(claim, rows.iloc[0], named)


def _held(claim: Claim, row: pd.Series, named: str) -> Finding:
    """Return what the one row of a claim says of it; `named` tells which row that is."""
    off, lacking = [], []
    other = bool(claim.weights) and not weights_of(row) <= claim.weights
    for column, value in claim.values.items():
        ours = _number(row.get(column))
        chance = _by_chance(column, value, _number(row.get("n"))) if other else 0.0
        if math.isnan(ours):
            lacking.append(column)
        elif abs(ours - value) > claim.slack(value) + chance:
            off.append(f"{column} is {ours:.6g} and not {value:.6g}")
    beside = "; ".join(
        f"{column}: paper {value:g}, here {_told(_number(row.get(column)))}" for column, value in claim.theirs.items()
    )
    if off:
        reason = f"{'; '.join(off)}{' on other weights' if other else ''} ({named})"
        return Finding(ClaimOutcome.FAILS, claim.text, reason, beside)
    if lacking:
        return Finding(ClaimOutcome.UNKNOWN, claim.text, f"the row of {named} lacks {', '.join(lacking)}", beside)
    return Finding(ClaimOutcome.HOLDS, claim.text, beside=beside)


def weights_of(row: Mapping[Hashable, Any] | pd.Series) -> frozenset[str]:
    """Return the hash of the weights behind a row of runs.csv, or SEED=HASH of each training behind a leaderboard's."""
    told = [row.get(name) for name in ("victim_sha", "weights")]
    return frozenset(hashed for text in told if isinstance(text, str) for hashed in text.split(";") if hashed)


def _by_chance(column: str, count: float, n: float) -> float:
    """Return how far the counts of two trainings differ at 95% if each image comes out by chance; 0 of no count."""
    if not column.startswith(COUNTS) or not 0 <= count <= n:
        return 0.0
    likely = (count + 1) / (n + 2)  # Laplace's rule: a count of 0 or n has an interval too
    return 1.96 * math.sqrt(2 * n * likely * (1 - likely))


def rows_of(claim: Claim, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a claim means.

    If several rows of runs.csv match, those that a higher version supersedes are left out. If several rows of either
    table are left, and the claim names no parameter, those of default parameters are meant.
    """
    places = list(range(len(table)))
    for name, value in claim.where.items():
        cells = table[name].tolist() if name in table.columns else [""] * len(table)
        places = [place for place in places if _text(cells[place]) == _text(value)]
    rows = table.iloc[places]
    if len(rows) > 1 and claim.table == RUNS_CSV:
        rows = current(rows)
    if len(rows) > 1 and not claim.setting() and "tuned_by" in rows.columns:
        rows = rows[rows["tuned_by"] == "default"]
    return rows


def _failed(row: pd.Series) -> str:
    """Return what went wrong in the runs of a row, "" if they all ended well; claims on a failed row are not held."""
    if "seeds" in row and (failed := _number(row.get("failed"))) > 0:
        return f"{failed:.0f} of its {_number(row['seeds']):.0f} runs failed"
    if (status := str(row.get("status", Status.OK))) != Status.OK:
        return ": ".join(filter(None, (f"its run ended as {status}", str(row.get("reason", "")))))
    return ""


def _number(value: object) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def _told(number: float) -> str:
    return MISSING if math.isnan(number) else f"{number:.3g}"


@lru_cache(maxsize=2**16, typed=True)
def _text(value: Hashable) -> str:
    """Return a cell as it is compared: a number whatever form it is written in. Every claim compares the same cells."""
    number = _number(value)
    return str(value) if math.isnan(number) else f"{number:.10g}"


def checked(root: Path) -> list[str]:
    """Return the documents whose figures need an entry, from the root of the repository."""
    return [*READMES, *sorted(f"{FINDINGS}/{path.name}" for path in (root / FINDINGS).glob("*.md"))]


def documents(claims: Sequence[Claim], root: Path) -> Iterator[Finding]:
    """Yield what is wrong between the documents and the claims on them.

    Raises:
        UserError: a document that a claim names cannot be read.
    """
    names = checked(root)
    texts = {name: _document(root / name) for name in {*names, *(claim.file for claim in claims)} if name}
    for claim in claims:
        if claim.file and not any(places(texts[claim.file], claim.text)):
            yield Finding(ClaimOutcome.FAILS, claim.text, f"{claim.file} has no such words any more; change the entry")
    for name in names:
        text = texts[name]
        quoted = [(place, claim) for claim in claims if claim.file == name for place in places(text, claim.text)]
        for figure in figures(text):
            over = [claim for place, claim in quoted if figure.start in place]
            results = any(figure.value in claim.values.values() for claim in over)
            shown = any(figure.value in claim.shown for claim in over)
            if not over:
                yield Finding(ClaimOutcome.FAILS, figure.line, f"{name}: the figure {figure.value:g} has no entry")
            elif not (results or shown):
                yield Finding(ClaimOutcome.FAILS, figure.line, f"{name}: no entry gives the figure {figure.value:g}")
            elif results and shown:  # it would stay unnoticed if its row, and the entry that gives it, went
                reason = f"{name}: {figure.value:g} is a result of one entry; take it out of `shown` of the others"
                yield Finding(ClaimOutcome.FAILS, figure.line, reason)


def _document(path: Path) -> str:
    """Return the text of a document.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; change `file` of the claims that name it") from None
