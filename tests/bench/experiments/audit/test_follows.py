"""What follows from an audit is said in sentences that its findings and the attacks' own declarations make true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacks.base import Threat
from attacks.context import Budget
from bench.experiments.audit import verb
from bench.experiments.audit.findings import SIGNIFICANCE, threats
from bench.experiments.audit.follows import follows, with_more
from bench.experiments.audit.model import Audit, AuditAttempt
from bench.plan import registry
from bench.plan.prospects import Outlook, prospects
from bench.store.records import Status
from victims.recipes import Released
from victims.spec import MLPSpec, VictimSpec

N = 40
ASKED = verb.Asked(Path("mine.py"), Budget(seconds=60))


def model(
    initial: str | None = None,
    state: str | None = "optimizer.pt",
    earlier: str | None = "earlier.pt",
    n: int = N,
    hidden: tuple[int, ...] = (50,),
) -> VictimSpec:
    """A model of somebody's own, of which `n` of 40 images are given."""
    known: dict[str, Any] = {"weights_sha256": "", "network_sha256": "", "mean": (0.0,), "std": (1.0,), "n_trained": N}
    known |= {
        "initial": initial and Path(initial),
        "state": state and Path(state),
        "earlier": earlier and Path(earlier),
    }
    training = Released(weights=Path("w.safetensors"), **known)
    architecture = MLPSpec(hidden=hidden, outputs=10, biases="every", first_layer_scale=None)
    dataset = "mine.npz" if n else ""
    return VictimSpec(name="mine", dataset=dataset, n=n, architecture=architecture, training=training)


def attempt(name: str, found: int | None = None, **fields: Any) -> AuditAttempt:
    """An attack on the weights that ended with the null 1, or that was not run."""
    ended: dict[str, Any] = {"status": None, "null": None, "chance": None, "seconds": None, "outlook": Outlook.DOUBTED}
    if found is not None:
        ended = {"status": Status.OK, "null": 1, "chance": 2.0 ** min(0, 1 - found), "seconds": 2.0}
        ended |= {"outlook": Outlook.OPEN, "beyond_chance": 2.0 ** (1 - found) < SIGNIFICANCE}
    known = {"attack": name, "threat": Threat.WEIGHTS, "reason": "", "run_id": "", "null_control": "", "found": found}
    return AuditAttempt.model_validate(known | {"beyond_chance": False, "budget_spent": False} | ended | fields)


def told(*tried: AuditAttempt, more: dict[str, list[str]] | None = None, victim: VictimSpec | None = None) -> list[str]:
    return follows(threats(tried, N), tried, more or {}, victim or model(), ASKED)


def more_for(victim: VictimSpec) -> dict[str, list[str]]:
    kinds = list(registry.attacks().items.values())
    return with_more(kinds, victim, list(prospects(kinds, victim, None)))


def test_nothing_found_is_not_called_safe() -> None:
    first, last = told(attempt("one", 1))
    assert first.startswith("Nothing found means that these attacks, in this time and with what was given, got no more")
    assert "It does not mean that the weights hold no records" in first
    defended = "`python -m bench audit mine.py -v mine --budget 60s --defence noise=1e-3`"
    assert last == f"{defended} says what is left under a defence."


def test_what_was_found_cannot_be_taken_back() -> None:
    assert told(attempt("one", 30))[0].startswith("records.csv names the records that fell.")


def test_attacks_that_time_ended_are_named_with_the_command_that_gives_more() -> None:
    late = attempt("late", outlook=Outlook.OPEN, status=Status.TIMEOUT)
    _, time, _ = told(attempt("slow", 1, budget_spent=True), attempt("quick", 1), late)
    assert time == (
        "More time may find more: slow would have gone on; late did not return in time and said nothing. "
        "`python -m bench audit mine.py -v mine --budget 240s` shares out 4 min."
    )
    failed = told(attempt("broken", outlook=Outlook.OPEN, status=Status.ERROR))[0]
    assert failed == "broken failed, which says nothing of the model; the same command tries again."


def test_an_attack_that_got_nothing_is_quoted_and_one_that_got_something_is_not() -> None:
    shown = told(attempt("one", 1, remarks=["no seed drew it"]), attempt("two", 30, remarks=["all is well"]))
    assert "one remarked: no seed drew it." in shown
    assert not any("all is well" in line for line in shown)


def test_attacks_that_the_weights_speak_against_can_be_run_all_the_same() -> None:
    line = told(attempt("one:seed"), attempt("two"))[0]
    assert line.startswith("The weights speak against one:seed, two, so they were not run; ")
    assert "`python -m bench run -a one --variant seed -v mine --plugin-dir mine.py`" in line
    assert not any("run -a" in line for line in told(attempt("one"), victim=model(n=0)))  # which `run` refuses


def test_a_run_of_them_goes_where_the_audit_went() -> None:
    elsewhere = replace(ASKED, device="cuda", results_dir=Path("my results"))
    tried = [attempt("one")]
    line = follows(threats(tried, N), tried, {}, model(), elsewhere)[0]
    assert "-v mine --plugin-dir mine.py --device cuda --results-dir 'my results'`" in line


@pytest.mark.parametrize(
    ("victim", "opened"),
    [
        (model(), {"the weights that its training started from": {"kkt-delta", "cocktail-party"}}),
        (model(initial="start.safetensors"), {}),
        (model(initial="start.safetensors", n=0), {"all 40 training images (`images` in its file)": {"inversion"}}),
        (model(initial="start.safetensors", n=9, hidden=()), {"all 40 training images (`images`": {"glm"}}),
        (
            model(initial="start.safetensors", state=None),
            {
                "the optimiser's state at its end (`optimiser`": {
                    "cocktail-party:momentum",
                    "cocktail-party:momentum-lora",
                }
            },
        ),
        (
            model(initial="start.safetensors", earlier=None),
            {
                "the weights of earlier epochs (`snapshots`": {"cocktail-party:snapshots"},
                "an earlier checkpoint (`earlier` in its file)": {"cocktail-party:checkpoints"},
            },
        ),
    ],
    ids=[
        "no start",
        "all given",
        "no images",
        "some images of a linear model",
        "no optimiser's state",
        "no checkpoint",
    ],
)
def test_more_knowledge_opens_the_attacks_that_declare_its_need(
    victim: VictimSpec, opened: dict[str, set[str]]
) -> None:
    found = more_for(victim)
    assert len(found) == len(opened)
    for (what, names), (begin, some) in zip(found.items(), opened.items(), strict=True):
        assert what.startswith(begin)
        assert some <= set(names)
        assert sum(some <= set(others) for others in found.values()) == 1
        line = f"Given {what}, this audit could also try {', '.join(names)}."
        assert line in told(attempt("one", 1), more=found)


def test_the_page_ends_with_what_follows(done: Any) -> None:
    page = (done.folder / "audit.html").read_text()
    audit = Audit.model_validate_json((done.folder / "audit.json").read_text())
    end = page[page.index('<section id="advice">') :].replace("&#39;", "'")
    assert "<section" not in end.removeprefix("<section")
    assert audit.follows
    coded = [re.sub("`(.*?)`", r"<code>\1</code>", line) for line in audit.follows]
    assert any("<code>" in line for line in coded)
    assert all(line in end for line in (*coded, *audit.advice))
    assert all(line in done.out for line in audit.follows)
