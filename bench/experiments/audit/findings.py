"""From the rows of an audit to what each attacker gets, and who was hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from scipy.stats import binomtest
from torch import Tensor

from attacks.base import Threat
from bench.experiments.audit.last_record import LastRecords
from bench.experiments.audit.model import AuditAttempt, AuditOutcome, Group, Overlap, Record, ThreatFinding, Unit
from bench.experiments.audit.scores import Hits, Scored
from bench.experiments.audit.words import sentence
from bench.plan.prospects import Outlook, Prospect
from bench.store.records import OVERLAPPED, RunRecord, Status

SIGNIFICANCE = 0.01
"""Largest probability that an audit finds something in a model that gives nothing away."""
QUARTERS = ("smallest quarter", "second quarter", "third quarter", "largest quarter")


def attempts(
    found: Sequence[Prospect], rows: Mapping[str, RunRecord], last: Mapping[str, LastRecords], scored: Scored
) -> list[AuditAttempt]:
    """Return all attacks with what came of them.

    Args:
        found: the attacks, and what was said of them before.
        rows: the rows of those that were run, by their name.
        last: what the attacks on the last record made, by their name.
        scored: what those that ended well reached on every record.
    """
    runs = max(len(rows) + len(last), 1)
    return [
        _on_last_record(prospect, last[prospect.name], scored, runs)
        if prospect.name in last
        else _attempt(prospect, rows.get(prospect.name), scored, runs)
        for prospect in found
    ]


def _attempt(prospect: Prospect, row: RunRecord | None, scored: Scored, runs: int) -> AuditAttempt:
    known = _known(prospect)
    if row is None:
        return _blank(known, prospect.reason)
    if row.status is Status.OK and not row.n:
        ran = {"status": row.status, "run_id": row.run_id, "candidates": row.n_candidates, "seconds": row.wall_s}
        return _blank(known, "").model_copy(update=ran | {"budget_spent": _spent(row), "remarks": _remarks(row)})
    if prospect.name not in scored.attacks:
        return _blank(known, row.trouble or row.reason).model_copy(update={"status": row.status, "run_id": row.run_id})
    counted = _counted(known, scored.attacks[prospect.name], runs)
    return counted.model_copy(
        update={
            **{"run_id": row.run_id, "seconds": row.wall_s, "budget_spent": _spent(row), "status": row.status},
            "remarks": _remarks(row),
        }
    )


def _on_last_record(prospect: Prospect, made: LastRecords, scored: Scored, runs: int) -> AuditAttempt:
    known = _known(prospect)
    if made.failure is not None:
        told = f"{made.failure.status}: {made.failure.reason}"
        return _blank(known, told).model_copy(update={"status": made.failure.status, "seconds": made.seconds})
    counted = _counted(known, scored.attacks[prospect.name], runs)
    return counted.model_copy(update={"seconds": made.seconds, "budget_spent": made.untried > 0})


def _counted(known: dict[str, Any], hits: Hits, runs: int) -> AuditAttempt:
    """Return an attack that ended well: its count, its strictest null's, and its largest p-value against a null."""
    chance = max(p_value(good, by_chance) for good, by_chance in hits.evenly())
    counted = {
        "status": Status.OK,
        "found": int(hits.good.sum()),
        "null": int(hits.nulls[hits.strictest].good.sum()),
        "null_control": hits.strictest,
        "chance": chance,
        "beyond_chance": chance < SIGNIFICANCE / runs,
        "protocol": hits.protocol,
        "compared": min(hits.fewer.values(), default=None),
    }
    return _blank(known, "").model_copy(update=counted)


def _known(prospect: Prospect) -> dict[str, Any]:
    return {"attack": prospect.name, "threat": prospect.threat, "outlook": prospect.outlook}


def _spent(row: RunRecord) -> bool:
    return "budget" in row.flags.split(";")


def _remarks(row: RunRecord) -> list[str]:
    """Return the flags that are an attack's own sentences; those of the harness begin with one word, or the time."""
    return [flag for flag in row.flags.split(";") if " " in flag.partition(":")[0] and not flag.startswith(OVERLAPPED)]


def _blank(known: dict[str, Any], reason: str) -> AuditAttempt:
    return AuditAttempt.model_validate(
        {
            **known,
            **{"reason": reason, "status": None, "run_id": "", "found": None, "null": None, "null_control": ""},
            **{"chance": None, "beyond_chance": False, "seconds": None, "budget_spent": False},
        }
    )


def p_value(good: Tensor, by_chance: Tensor) -> float:
    """Return the one-sided p-value that an attack gets no more records than chance (the exact test of McNemar 1947).

    The records that both or neither get say nothing. Of the others half would be the attack's, were it chance itself.

    Args:
        good: (n,) bool, the records that the attack gets.
        by_chance: (n,) bool, those that a null control gets.
    """
    own, others = int((good & ~by_chance).sum()), int((by_chance & ~good).sum())
    return float(binomtest(own, own + others, 0.5, alternative="greater").pvalue) if own + others else 1.0


def threats(tried: Sequence[AuditAttempt], n: int, unit: Unit = "images") -> list[ThreatFinding]:
    """Return what each attacker gets, in the order of `Threat`.

    Args:
        tried: all attacks.
        n: the number of training records given.
        unit: what the records are.
    """
    level = SIGNIFICANCE / max(1, sum(one.status is not None for one in tried))
    return [_finding(threat, [one for one in tried if one.threat == threat], n, unit, level) for threat in Threat]


def _least(ended: AuditAttempt, n: int) -> float:
    """Return what the p-value of an attack cannot fall below: `compared` candidates get so many records at most."""
    return 0.5 ** min(n - (ended.null or 0), n if ended.compared is None else ended.compared)


def _finding(threat: Threat, own: Sequence[AuditAttempt], n: int, unit: Unit, level: float) -> ThreatFinding:
    ended = [one for one in own if one.found is not None and one.null is not None]
    unverified = [one for one in own if one.candidates is not None]
    failed = [one for one in own if one.status is not None and one not in (*ended, *unverified)]
    ruled_out = {one.attack: one.reason for one in own if one.outlook is Outlook.DOUBTED}
    best = max(ended, key=lambda one: (one.beyond_chance, (one.found or 0) - (one.null or 0)), default=None)
    if best is not None:
        outcome = AuditOutcome.FOUND if best.beyond_chance else AuditOutcome.NOTHING
    elif unverified:
        outcome = AuditOutcome.UNVERIFIED
    elif failed:
        outcome = AuditOutcome.FAILED
    else:
        outcome = AuditOutcome.RULED_OUT if ruled_out else AuditOutcome.NOT_TESTED
    finding = ThreatFinding(
        threat=threat,
        outcome=outcome,
        found=None if best is None else best.found,
        null=None if best is None else best.null,
        attack="" if best is None else best.attack,
        blind=bool(ended) and all(_least(one, n) >= level for one in ended),
        tried=[one.attack for one in (*ended, *unverified)],
        ruled_out=ruled_out,
        seconds=sum(one.seconds or 0 for one in own),
        sentence="",
    )
    reasons = [one.reason for one in failed] or [f"{one.attack} does not apply ({one.reason})" for one in own]
    protocol = "" if best is None else best.protocol
    return finding.model_copy(update={"sentence": sentence(finding, n, reasons, unit, protocol)})


def records(scored: Scored, beyond: Sequence[str]) -> list[Record]:
    """Return each training record with the attacks that got it.

    Args:
        scored: the scores of all records.
        beyond: names of the attacks that are beyond chance; no other hits a record.
    """
    found, null = [], scored.null(scored.attacks)
    for index in range(len(scored.labels)):
        reached = {name: float(hits.similarity[index]) for name, hits in scored.attacks.items()}
        best = max(reached, key=lambda name: reached[name], default="")
        found.append(
            Record(
                index=index,
                label=int(scored.labels[index]),
                margin=float(scored.margins[index]),
                attacks=[name for name in beyond if bool(scored.attacks[name].good[index])],
                best_attack=best,
                best_score=reached.get(best, 0.0),
                null_score=float(null[index]),
            )
        )
    return found


def hit_records(found: Sequence[Record], scored: Scored) -> list[Record]:
    """Return the records that fell, each with the best attack beyond chance, those furthest above chance first."""
    hit = []
    for record in found:
        if record.attacks:
            best = max(record.attacks, key=lambda name: float(scored.attacks[name].similarity[record.index]))
            score = float(scored.attacks[best].similarity[record.index])
            hit.append(record.model_copy(update={"best_attack": best, "best_score": score}))
    return sorted(hit, key=lambda record: record.best_score - record.null_score, reverse=True)


def hit_by_chance(scored: Scored, beyond: Sequence[str]) -> int:
    """Return how many records any null control of the attacks beyond chance gets."""
    return int(scored.null_good(beyond).sum())


def by_class(found: Sequence[Record]) -> list[Group]:
    """Return who was hit, by class."""
    labels = sorted({record.label for record in found})
    return [_group(f"class {label}", [one for one in found if one.label == label]) for label in labels]


def by_margin(found: Sequence[Record]) -> list[Group]:
    """Return who was hit, by quarters of the margin, the smallest first; fewer where there are few records."""
    ordered = sorted(found, key=lambda record: record.margin)
    places = torch.linspace(0, len(ordered), len(QUARTERS) + 1).round().long().tolist()
    parts = (ordered[low:high] for low, high in pairwise(places))
    return [_group(name, part) for name, part in zip(QUARTERS, parts, strict=True) if part]


def overlaps(found: Sequence[Record]) -> list[Overlap]:
    """Return who was hit, by the set of attacks that hit, the largest group first."""
    sets = Counter(tuple(record.attacks) for record in found if record.attacks)
    return [Overlap(attacks=list(attacks), records=number) for attacks, number in sets.most_common()]


def _group(name: str, part: Sequence[Record]) -> Group:
    return Group(name=name, records=len(part), hit=sum(bool(record.attacks) for record in part))
