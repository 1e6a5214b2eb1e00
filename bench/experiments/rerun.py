"""The verb `verify --rerun`: the runs that claims speak of are made again, and the claims are held against those."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from bench.plan.config import Section, planned
from bench.plan.options import parse_budget
from bench.publish.claims import LEADERBOARD, Claim, Tables, rows_of, weights_of
from bench.publish.numbers import number
from bench.publish.parameters import settings
from bench.store.file_names import RUNS_CSV
from victims.dataset_files import SHIPPED
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.plan.registry import Registry, Victims
    from bench.plan.run import Run

MEASURED = (LEADERBOARD, RUNS_CSV)
"""The tables whose rows runs make."""
QUICK_S, START_S = 480.0, 5.0
"""Seconds that the runs of the tier "quick" take together, by the stored rows, and what each takes besides."""


@dataclass(frozen=True)
class Remeasured:
    """A claim that can be measured again.

    Attributes:
        claim: the claim, changed to be held against the new rows.
        runs: the runs that make these rows.
        seconds: wall time of one run by the stored row, training included; infinite if no row tells it.
    """

    claim: Claim
    runs: tuple[Run, ...]
    seconds: float


def remeasured(
    claims: Sequence[Claim],
    tier: Literal["quick", "all"],
    results: Path,
    attacks: Registry[type[Attack[Any]]],
    victims: Victims,
) -> tuple[list[Claim], list[Run]]:
    """Return the claims that a tier measures again, as they are held against the new rows, and the runs they speak of.

    "quick" has the claims that say so, and of those whose data are shipped the cheapest that fit in `QUICK_S`. A claim
    on a row of runs.csv names its run by what was run, not by its id, which holds versions. A claim whose run cannot
    be made again is returned as `unsupported`, with the reason.

    Args:
        claims: the entries.
        tier: which of them.
        results: the folder with the tables that the claims were made on.
        attacks: the registry's.
        victims: likewise.
    """
    tables, found, lost = Tables(results), list[Remeasured](), list[Claim]()
    for claim in claims:
        if claim.tier == "stored" or claim.table not in MEASURED or claim.unsupported:
            continue
        try:
            found.append(_remeasured(claim, tables, attacks, victims))
        except UserError as error:
            lost.append(claim.model_copy(update={"unsupported": f"cannot be run again: {error}"}))
    chosen = _quick(found) if tier == "quick" else found
    runs = {_key(run): run for one in chosen for run in one.runs}
    asked = [claim for claim in lost if tier in ("all", claim.tier)]
    return [one.claim for one in chosen] + asked, list(runs.values())


def _quick(found: Iterable[Remeasured]) -> list[Remeasured]:
    """Return the claims that say they are quick, and the cheapest of the others whose data are shipped."""
    chosen, spent = list[Remeasured](), 0.0
    runs: set[Any] = set()
    for one in sorted(found, key=lambda one: (one.claim.tier != "quick", one.seconds)):
        fresh = {_key(run) for run in one.runs} - runs
        cost = len(fresh) * (one.seconds + START_S) if fresh else 0.0
        shipped = all(run.victim.dataset in SHIPPED for run in one.runs)
        if one.claim.tier == "quick" or (shipped and spent + cost <= QUICK_S):
            chosen.append(one)
            runs |= fresh
            spent += cost if math.isfinite(cost) else 0.0
    return chosen


def _key(run: Run) -> tuple[str, str, str, int, str]:
    return run.attack.name, run.params_hash, run.victim.name, run.seed, str(run.budget)


def _remeasured(claim: Claim, tables: Tables, attacks: Registry[type[Attack[Any]]], victims: Victims) -> Remeasured:
    """Return how a claim is measured again.

    Raises:
        UserError: a claim on runs.csv does not match one stored run, or a claim on the leaderboard names no attack and
            victim, or what they name cannot be planned.
    """
    table = tables.get(claim.table)
    rows = pd.DataFrame() if table is None else rows_of(claim, table)
    stored = rows.iloc[0].to_dict() if len(rows) == 1 else {}
    seconds = sum(number(stored, name) for name in ("wall_s", "train_s"))
    if claim.table == LEADERBOARD and not {"attack", "victim"} <= claim.where.keys():
        raise UserError("it names no attack and victim in `where`")
    if claim.table == LEADERBOARD:
        section = Section(
            attack=(str(claim.where["attack"]),),
            victim=(str(claim.where["victim"]),),
            variant=str(claim.where.get("variant", "")),
            set=claim.setting(),
            seeds=claim.seeds,
            victim_seeds=claim.victim_seeds,
        )
    elif stored:
        attack, variant, params, victim, seed, retraining = (
            str(stored[name]) for name in ("attack", "variant", "params_json", "victim", "seed", "victim_seed")
        )
        changed = settings(attack, variant, params)
        section = Section(
            attack=(attack,), victim=(victim,), variant=variant, set=changed, seeds=seed, victim_seeds=retraining
        )
    else:
        raise UserError(f"{len(rows)} stored runs are meant, and not one")
    runs = planned([section], attacks, victims, parse_budget(str(stored.get("budget", ""))))
    held = claim if claim.table == LEADERBOARD else _of_run(claim, runs[0])
    held = held.model_copy(update={"weights": weights_of(stored)})
    return Remeasured(held, tuple(runs), math.inf if math.isnan(seconds) else seconds)


def _of_run(claim: Claim, run: Run) -> Claim:
    """Return a claim on a row of runs.csv as one on the row that a new run of the same cell and seed makes."""
    where: dict[str, str | float | bool] = {
        "attack": run.attack.name,
        "params_hash": run.params_hash,
        "victim": run.victim.described.name,
        "victim_seed": run.victim.retraining,
        "seed": run.seed,
        "budget": str(run.budget),
    }
    if "protocol" in claim.where:
        where["protocol"] = claim.where["protocol"]
    return claim.model_copy(update={"where": where})
