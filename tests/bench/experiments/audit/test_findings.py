"""From rows and scores to findings: who was hit, by what, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb

import pytest
import torch

from attacks.base import Threat
from bench.experiments.audit import findings
from bench.experiments.audit.cells import runs_of
from bench.experiments.audit.findings import SIGNIFICANCE
from bench.experiments.audit.scores import Hits, Reached, Scored
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
    chance = torch.full((N,), null), torch.zeros(N)
    names = ("null_random", "null_mean_image")
    nulls = {name: Reached(reached, reached > 0.4) for name, reached in zip(names, chance, strict=True)}
    return Hits("buzaglo2023-unique", Reached(torch.where(mask, ssim, 0.2), mask), nulls, torch.zeros(N, 1, 4, 4))


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
    assert records[2].null_score == pytest.approx(0.5)
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


@pytest.mark.parametrize(("both", "own", "others"), [(0, 8, 0), (3, 5, 1), (2, 0, 4), (8, 0, 0), (0, 3, 3)], ids=str)
def test_chance_is_a_coin_for_each_record_that_one_of_them_gets(both: int, own: int, others: int) -> None:
    """Summed by hand: at least `own` heads in as many throws as there are records that one of them gets alone."""
    good, by_chance = torch.zeros(20, dtype=torch.bool), torch.zeros(20, dtype=torch.bool)
    good[: both + own] = True
    by_chance[:both] = True
    by_chance[both + own : both + own + others] = True
    throws = own + others
    expected = sum(comb(throws, heads) for heads in range(own, throws + 1)) / 2**throws
    assert findings.p_value(good, by_chance) == pytest.approx(expected)


def test_an_attempt_is_what_its_row_says(record: Callable[..., RunRecord], scored: Scored) -> None:
    """The level is shared between the attacks that were run: eight records, that no control gets, are 2^-8."""
    all_good = replace(scored, attacks={"kkt": hits(list(range(N)))})
    counts = {"n_good": 7, "n_good_unique": N, "null_n_good": 2, "null_n_good_unique": 1}
    row = record(attack="kkt", n=N, flags="budget;queries: 5;gamma 0.5", **counts)
    failed = record(attack="inversion", status=Status.OOM, reason="no memory", n_good=None)
    found = [prospect("kkt"), prospect("inversion"), prospect("kkt-span", Outlook.DOUBTED)]
    rows = {"kkt": row, "inversion": failed, "third": failed}
    kkt, inversion, span = findings.attempts(found, rows, {}, all_good)

    assert (kkt.found, kkt.null, kkt.budget_spent, kkt.run_id) == (N, 0, True, row.run_id), "as records.csv has it"
    assert kkt.remarks == ["gamma 0.5"], "and not what the harness says of its run"
    assert kkt.chance == pytest.approx(2**-N)
    assert SIGNIFICANCE / 3 < 2**-N < SIGNIFICANCE / 2
    assert not kkt.beyond_chance
    assert (kkt.status, kkt.seconds) == (row.status, row.wall_s)
    strict = replace(scored, attacks={"kkt": hits(list(range(N)), null=0.9)})
    assert findings.attempts(found[:1], {"kkt": row}, {}, strict)[0].chance == 1, "the strictest control decides"
    assert findings.attempts(found[:1], {"kkt": row, "inversion": failed}, {}, all_good)[0].beyond_chance
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
