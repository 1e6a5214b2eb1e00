"""What cannot be told of a victim is known from its description, and its attack is declined before it is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from attacking import BATCH_NORM, BIASES, ORDINARY, digits_network, victim_of

from attacks.base import Knowledge
from bench.plan import registry
from bench.plan.capability import tellable, untold
from bench.run.disclosure import disclosed
from victims.defences.spec import RandomSeed
from victims.defences.stacking import defended
from victims.informed.spec import AnySpec

Bench = Callable[..., Any]
SNAPSHOTS = ORDINARY.model_copy(update={"training": ORDINARY.training.model_copy(update={"snapshots": (1,)})})
SECRET = defended(ORDINARY, [RandomSeed()])
INFORMED = digits_network(n=10, targets=2, epochs=1)
PLUGIN = """
from attacks.base import Attack, AttackParams, Knowledge
class Asks(Attack[AttackParams]):
    name, summary, paper, Params = "asks-{name}", "asks for what there is none of", "-", AttackParams
    needs = frozenset({{Knowledge.ARCHITECTURE, Knowledge.{item}}})
    def reconstruct(self, view, ctx):
        raise AssertionError("it was run")
"""


@pytest.mark.parametrize(
    "spec", [BIASES, ORDINARY, SNAPSHOTS, SECRET, BATCH_NORM, INFORMED], ids=lambda spec: spec.name
)
def test_what_is_tellable_is_what_is_disclosed(spec: AnySpec) -> None:
    victim = victim_of(spec)
    for item in Knowledge:
        try:
            fact = disclosed(victim, frozenset({item}))[item]
        except LookupError:
            fact = None
        there = fact is not None and fact != ()
        if item is Knowledge.LOGITS:  # they are answered where the victim is
            continue
        if item is Knowledge.INITIAL_WEIGHTS and spec.setting == "informed":  # None where each model had its own
            continue
        assert (item in tellable(spec)) == there, item


def test_without_images_it_says_what_they_would_tell() -> None:
    bare = ORDINARY.model_copy(update={"dataset": ""})
    assert untold(frozenset({Knowledge.WEIGHTS, Knowledge.LABELS}), bare) == "only images would tell it the labels"
    assert untold(frozenset({Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS}), bare) is None


@pytest.mark.parametrize("item", ["KNOWN_POINTS", "EARLIER_WEIGHTS", "INITIAL_WEIGHTS"])
def test_it_is_declined_before_anything_is_trained(
    item: str, run: Bench, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugins: Path
) -> None:
    folder, name = tmp_path / "plug", item.lower().replace("_", "-")
    folder.mkdir()
    (folder / "asks.py").write_text(PLUGIN.format(item=item, name=name))
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))
    ended = run("-a", f"asks-{name}", "--plugin-dir", folder)
    assert ended.status == 0, ended.err
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert row["status"] == "skipped"
    assert Knowledge[item].value in row["reason"]
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_no_shipped_attack_supports_a_victim_that_cannot_tell_it_what_it_needs() -> None:
    """Their own reasons come first, and say what to do."""
    victims: list[AnySpec] = list(registry.victims().items.values())
    for kind in registry.attacks().items.values():
        attack = kind(kind.Params())
        for spec in (spec for spec in victims if spec.setting == kind.setting):
            if attack.supports(spec) is None:
                assert untold(attack.knowledge, spec) is None, (kind.name, spec.name)
