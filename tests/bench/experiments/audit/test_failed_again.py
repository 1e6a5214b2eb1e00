"""An attack that failed in an audit is tried again by the same command, and one that ended says what it remarked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from owners import ordinary

from attacks.base import Threat
from bench.experiments.audit.findings import attempts
from bench.experiments.audit.model import Audit
from bench.plan import registry
from bench.plan.prospects import Outlook, Prospect
from bench.store.records import OVERLAPPED, RunRecord

FLAKY = """
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Flaky(Attack[AttackParams]):
    name, summary, Params = "flaky", "fails once", AttackParams
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})

    def reconstruct(self, view, ctx):
        mark = HERE / "mark"
        if not mark.exists():
            mark.touch()
            raise RuntimeError("the machine was busy")
        return Reconstruction(torch.zeros(1, *view.architecture.input_shape))
"""


def test_the_same_command_tries_again_what_failed(tmp_path: Path, audited: Callable[..., Any], results: Path) -> None:
    file = ordinary.make(tmp_path)
    file.write_text(file.read_text() + FLAKY)

    def ended() -> tuple[str, list[str]]:
        assert audited(file=file).status == 0
        found = Audit.model_validate_json((results / "audits" / "mine" / "audit.json").read_text())
        (tried,) = (one for one in found.attempts if one.attack == "flaky")
        return str(tried.status), found.follows

    status, follows = ended()
    assert status == "error"
    assert "flaky failed, which says nothing of the model; the same command tries again." in follows
    assert ended()[0] == "ok"


def test_the_sentences_of_an_attack_are_told_and_the_flags_of_the_harness_are_not(
    record: Callable[..., RunRecord],
) -> None:
    kind = registry.attacks().items["first-layer"]
    found = Prospect(kind, "", kind.Params(), Threat.WEIGHTS, Outlook.OPEN)
    flags = [
        "not_homogeneous",
        "budget",
        f"{OVERLAPPED}: shared",
        "absent_null_held_out: there are none",
        "no seed fits",
    ]
    row = record(attack="first-layer", n=0, flags=";".join(flags))
    (attempt,) = attempts([found], {"first-layer": row}, {}, SimpleNamespace(attacks={}))  # type: ignore[arg-type]
    assert attempt.remarks == ["no seed fits"]
    assert attempt.budget_spent
