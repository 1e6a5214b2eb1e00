"""What follows from an audit: what it does not show, and what more time or more knowledge would let it try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.experiments.audit.model import AuditAttempt, AuditOutcome, ThreatFinding
from bench.plan.prospects import Outlook, Prospect, prospects
from bench.publish.numbers import duration
from bench.store.records import Status
from bench.terminal.text import command
from victims.defences.spec import Noise

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.experiments.audit.verb import Asked
    from victims.spec import VictimSpec

START = "the weights that its training started from (`initial` in its file), which others have too if they are public"
STATE = "the optimiser's state at its end (`optimiser` in its file), which others have too if it was released"
ON_THE_WAY = "the weights of earlier epochs (`snapshots` in its file), which others have too if they were released"
EARLIER = "an earlier checkpoint (`earlier` in its file), which others have too if they have the folder of the training"
LONGER = 4
"""Times as long as they had, for attacks that their time ended."""


def with_more(
    attacks: Iterable[type[Attack[Any]]], victim: VictimSpec, found: Sequence[Prospect]
) -> dict[str, list[str]]:
    """Return the attacks that would apply if an owner gave more, by what that is; without what opens none.

    What is given is pretended in the description of the model, and the attacks are asked again whether they take it.

    Args:
        attacks: all that are known.
        victim: the model.
        found: what was said of the attacks on it.
    """
    training = victim.training
    assert training.kind == "released"
    pretended = {}
    if training.initial is None:
        known = training.model_copy(update={"initial": training.weights})
        pretended[START] = victim.model_copy(update={"training": known})
    if training.state is None:
        known = training.model_copy(update={"state": training.weights})
        pretended[STATE] = victim.model_copy(update={"training": known})
    if not training.on_the_way:
        files: dict[str, object] = {"earlier_weights": (training.weights,), "earlier_weights_sha256": ("",)}
        pretended[ON_THE_WAY] = victim.model_copy(update={"training": training.model_copy(update=files)})
    if training.earlier is None:
        files = {"state": training.state or training.weights, "earlier": training.weights}
        pretended[EARLIER] = victim.model_copy(update={"training": training.model_copy(update=files)})
    if victim.n < training.n_trained:
        unit, file, option = ("images", "images.npz", "images")
        if victim.tabular:
            unit, file, option = ("rows", "rows.csv", "records")
        pretended[f"all {training.n_trained} training {unit} (`{option}` in its file)"] = victim.model_copy(
            update={"dataset": victim.dataset or file, "n": training.n_trained}
        )
    kinds, declined = list(attacks), {one.name for one in found if one.outlook is Outlook.DECLINED}
    opened = {
        what: [one.name for one in prospects(kinds, spec, None) if one.outlook is Outlook.OPEN and one.name in declined]
        for what, spec in pretended.items()
    }
    if EARLIER in opened:  # it has weights, and goes with a state at the end, which alone open some of these
        less = {*opened.get(ON_THE_WAY, ()), *opened.get(STATE, ())}
        opened[EARLIER] = [name for name in opened[EARLIER] if name not in less]
    return {what: names for what, names in opened.items() if names}


def follows(
    findings: Sequence[ThreatFinding],
    tried: Sequence[AuditAttempt],
    more: Mapping[str, Sequence[str]],
    victim: VictimSpec,
    asked: Asked,
) -> list[str]:
    """Return sentences on what follows from the findings: what they mean, and what would tell more.

    Args:
        findings: of all attackers.
        tried: all attacks.
        more: the attacks that would apply if an owner gave more, as `with_more`.
        victim: the model.
        asked: what the user asked for, whose command the sentences repeat with a change.
    """
    told = [
        *_meaning(findings),
        *_remarks(tried),
        *_time(tried, victim, asked),
        *_knowledge(tried, more, victim, asked),
    ]
    if not victim.defences:
        told.append(f"`{_audit(victim, asked, '--defence', Noise.example)}` says what is left under a defence.")
    return told


def _meaning(findings: Sequence[ThreatFinding]) -> Iterator[str]:
    outcomes = {finding.outcome for finding in findings}
    if AuditOutcome.FOUND in outcomes:
        yield "records.csv names the records that fell. Once the weights are out, nothing takes these records back."
    elif AuditOutcome.NOTHING in outcomes:
        yield (
            "Nothing found means that these attacks, in this time and with what was given, got no more than chance. "
            "It does not mean that the weights hold no records, nor that another attack gets none."
        )


def _remarks(tried: Sequence[AuditAttempt]) -> Iterator[str]:
    """Yield what attacks that got no more than chance said of their own runs."""
    for one in tried:
        if one.remarks and one.found is not None and not one.beyond_chance:
            yield f"{one.attack} remarked: {'; '.join(one.remarks)}."


def _time(tried: Sequence[AuditAttempt], victim: VictimSpec, asked: Asked) -> Iterator[str]:
    """Yield what more time would change: attacks that theirs ended, and those that did not return or failed."""
    spent = [one.attack for one in tried if one.budget_spent]
    late = [one.attack for one in tried if one.status is Status.TIMEOUT]
    failed = [one.attack for one in tried if one.status not in (None, Status.OK, Status.TIMEOUT)]
    assert asked.budget.seconds is not None
    longer = duration(LONGER * asked.budget.seconds)
    if spent or late:
        ended = [f"{', '.join(spent)} would have gone on"] if spent else []
        ended += [f"{', '.join(late)} did not return in time and said nothing"] if late else []
        again = _audit(victim, asked, "--budget", f"{LONGER * asked.budget.seconds:g}s")
        yield f"More time may find more: {'; '.join(ended)}. `{again}` shares out {longer}."
    if failed:
        yield f"{', '.join(failed)} failed, which says nothing of the model; the same command tries again."


def _knowledge(
    tried: Sequence[AuditAttempt], more: Mapping[str, Sequence[str]], victim: VictimSpec, asked: Asked
) -> Iterator[str]:
    """Yield what more knowledge would let an audit try, and how attacks that were left out are run all the same."""
    for what, names in more.items():
        yield f"Given {what}, this audit could also try {', '.join(names)}."
    doubted = [one.attack for one in tried if one.outlook is Outlook.DOUBTED]
    if doubted and victim.n:
        attack, _, variant = doubted[0].partition(":")
        words = ["run", "-a", attack, *(["--variant", variant] if variant else []), "-v", victim.name]
        run = command(*words, "--plugin-dir", str(asked.file), *asked.shared)
        yield f"The weights speak against {', '.join(doubted)}, so they were not run; `{run}` runs one all the same."


def _audit(victim: VictimSpec, asked: Asked, option: str, value: str) -> str:
    """Return the command of the audit with another value of an option."""
    return asked.command(victim, {option: value})
