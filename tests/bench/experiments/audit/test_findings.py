"""From rows and scores to findings: who was hit, by what, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from attacks.base import Threat
from bench.experiments.audit import findings
from bench.experiments.audit.cells import runs_of
from bench.experiments.audit.scores import Hits, Scored
from bench.plan import registry
from bench.plan.options import parse_budget
from bench.plan.prospects import Outlook, Prospect
from bench.store.records import RunRecord, Status
from victims.errors import UserError
from victims.spec import VictimSpec

N = 8


def hits(good: list[int], ssim: float = 0.7, null: float = 0.1) -> Hits:
    mask = torch.zeros(N, dtype=torch.bool)
    mask[good] = True
    return Hits(torch.where(mask, ssim, 0.2), mask, torch.full((N,), null), torch.zeros(N, 1, 4, 4))


@pytest.fixture
def scored() -> Scored:
    return Scored(
        images=torch.zeros(N, 1, 4, 4),
        labels=torch.arange(N) % 2,
        margins=torch.tensor([3.0, 1.0, 2.0, 8.0, 7.0, 6.0, 5.0, 4.0]),
        nearest=None,
        attacks={"a": hits([0, 1, 2], 0.9), "b": hits([2, 3], null=0.5), "chance": hits([5], 0.95)},
    )


def test_a_record_has_the_attacks_that_got_it(scored: Scored) -> None:
    records = findings.records(scored, ["a", "b"])
    assert [record.attacks for record in records] == [["a"], ["a"], ["a", "b"], ["b"], [], [], [], []]
    assert records[2].best_attack == "a"
    assert records[5].best_attack == "chance", "the nearest is told even where it is chance"
    assert records[2].null_ssim == pytest.approx(0.5)
    assert findings.hit_by_chance(scored, ["a"]) == 0
    assert findings.hit_by_chance(scored, ["a", "b"]) == N
    assert findings.hit_by_chance(scored, []) == 0


def test_groups_count_every_record_once(scored: Scored) -> None:
    records = findings.records(scored, ["a", "b"])
    assert [(group.name, group.records, group.hit) for group in findings.by_class(records)] == [
        ("class 0", 4, 2),
        ("class 1", 4, 2),
    ]
    margins = findings.by_margin(records)
    assert [(group.records, group.hit) for group in margins] == [(2, 2), (2, 1), (2, 0), (2, 1)]
    assert margins[0].name == "smallest quarter"
    assert [(one.attacks, one.records) for one in findings.overlaps(records)] == [
        (["a"], 2),
        (["a", "b"], 1),
        (["b"], 1),
    ]


def test_few_records_make_fewer_quarters(scored: Scored) -> None:
    records = findings.records(scored, [])[:3]
    assert sum(group.records for group in findings.by_margin(records)) == 3


def prospect(name: str, outlook: Outlook = Outlook.OPEN, variant: str = "") -> Prospect:
    kind = registry.attacks().items[name]
    return Prospect(kind, variant, kind.Params(), Threat.WEIGHTS, outlook, "" if outlook is Outlook.OPEN else "why not")


def test_an_attempt_is_what_its_row_says(record: Callable[..., RunRecord]) -> None:
    """The level is shared between the attacks that were run."""
    row = record(attack="kkt", n=40, n_good=13, n_good_unique=12, null_n_good=4, null_n_good_unique=3, flags="budget;x")
    failed = record(attack="inversion", status=Status.OOM, reason="no memory", n_good=None)
    found = [prospect("kkt"), prospect("inversion"), prospect("kkt-span", Outlook.DOUBTED)]
    kkt, inversion, span = findings.attempts(found, {"kkt": row, "inversion": failed})

    assert (kkt.found, kkt.null, kkt.budget_spent, kkt.run_id) == (12, 3, True, row.run_id)
    assert findings.SIGNIFICANCE / 2 < findings.p_value(12, 3, 40) < findings.SIGNIFICANCE
    assert not kkt.beyond_chance
    assert findings.attempts(found[:1], {"kkt": row})[0].beyond_chance
    assert (inversion.status, inversion.found, inversion.reason) == (Status.OOM, None, "oom: no memory")
    assert (span.status, span.reason, span.outlook) == (None, "why not", Outlook.DOUBTED)


def test_the_time_is_shared_by_what_can_be_tried(record: Callable[..., RunRecord]) -> None:
    spec = VictimSpec(name="v", dataset="faces", n=4)
    found = [prospect("kkt"), prospect("kkt-span"), prospect("kkt-general", Outlook.DOUBTED)]
    runs = runs_of(found, spec, parse_budget("10m"))
    assert [(run.attack.name, run.budget.seconds) for run in runs] == [("kkt", 300), ("kkt-span", 300)]
    assert runs_of(found[2:], spec, parse_budget("10m")) == []
    with pytest.raises(UserError, match="give at least 10s"):
        runs_of(found, spec, parse_budget("9s"))
