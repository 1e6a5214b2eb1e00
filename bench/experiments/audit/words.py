"""What an audit says in words: each sentence says what was tried and what came of it, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attacks.base import Threat
from bench.experiments.audit.model import AuditAttempt, AuditOutcome, ThreatFinding, Unit
from bench.experiments.audit.scores import ALIKE
from bench.publish.numbers import duration
from bench.terminal.progress import plural

if TYPE_CHECKING:
    from victims.base import Victim
    from victims.exposure.card import Exposure

WHO = {
    Threat.QUERIES: "asks the model for its outputs and has nothing else",
    Threat.WEIGHTS: "has the weights alone",
    Threat.SEED: "has the weights and guesses the seed of the start",
    Threat.MOMENTUM: "has the weights and the optimiser's state",
    Threat.SNAPSHOTS: "has several releases of the weights",
    Threat.CHECKPOINTS: "has two checkpoints of the training, each with the optimiser's state",
    Threat.START: "has the weights and the start of the training",
    Threat.RELEASES: "has the weights before and after a deletion",
    Threat.RECORDS: "has the weights and all records but one",
}
WAY_OUT = {
    Threat.START: "the start was not given; `initial` names its file, or that of an earlier release",
    Threat.MOMENTUM: "the optimiser's state was not given, or a defence keeps it back; `optimiser` names its file",
    Threat.SNAPSHOTS: "no weights on the way were given; `snapshots` names their files",
    Threat.CHECKPOINTS: "no earlier checkpoint was given, or a defence keeps it back; `earlier` names its files",
    Threat.RELEASES: "an audit deletes no records; `run` attacks victims that do",
}
"""Why an attacker is not tested, and what the owner can do about it."""
OTHERS, CHANCE = "any held-out image is", "what cannot have seen them"
HELPS = {
    Threat.WEIGHTS: "Release no weights where outputs are enough; limit the number of queries.",
    Threat.START: "Keep the start private: fine-tune from a checkpoint that is not public, or do not say which it was.",
    Threat.SEED: "Draw the seed from the system's randomness, not from a small number, and do not publish it.",
    Threat.MOMENTUM: "Release no optimiser's state: it holds images of the last batches, whatever the weights hide.",
    Threat.SNAPSHOTS: "Release weights once: two releases tell what the training added between them.",
    Threat.CHECKPOINTS: "Release the last weights alone: two states tell the sum of all gradients between them.",
    Threat.RECORDS: (
        "Train with differential privacy if single records matter: it alone bounds every attack, known or not."
    ),
}
"""What helps or may help against an attacker; none of it is measured by an audit."""
HABITS = (
    *HELPS.values(),
    "Stop early and train on more records: few records learnt to the last stay in the weights best.",
    "Audit again before every release, with the weights that are released.",
)
"""The same, and what helps against each of them."""


def sentence(finding: ThreatFinding, n: int, reasons: Sequence[str], unit: Unit = "images", protocol: str = "") -> str:
    """Return what is known of one attacker.

    Args:
        finding: what is known, in fields, its sentence still empty.
        n: the number of training records given.
        reasons: why attacks failed, or were left out.
        unit: what the records are.
        protocol: the scoring protocol of the attack with the largest lead; empty if none was counted.
    """
    who, ruled_out = WHO[finding.threat], _ruled_out(finding)
    nearer = protocol == ALIKE.name
    got = f"{finding.attack} got {finding.found} of {n} training {unit} and chance {finding.null}"
    if nearer:
        got = f"{finding.attack} brought {finding.found or 'none'} of {n} training {unit} nearer than {OTHERS}"
        got += f"; {CHANCE}, compared in the same way, passes for {finding.null}"
    if finding.outcome is AuditOutcome.FOUND:
        rule = f", each nearer than {OTHERS}" if nearer else ""
        best = f"{finding.found} of {n} training {unit} by {finding.attack}{rule}; chance gets {finding.null}"
        return f"Somebody who {who} can reconstruct {best}."
    if finding.outcome is AuditOutcome.NOTHING:
        others = [name for name in finding.tried if name != finding.attack]
        less = f"; {', '.join(others)} led chance by no more" if others else ""
        blind = f" Even all {n} could not be told from chance, so this shows nothing." if finding.blind else ""
        long = f"from {plural(len(finding.tried), 'attack')} in {duration(finding.seconds)}"
        return f"Somebody who {who} got nothing beyond chance {long}: {got}{less}.{blind}{ruled_out}"
    if finding.outcome is AuditOutcome.UNVERIFIED:
        candidates = f"{', '.join(finding.tried)} returned candidates, and there is nothing to compare them with"
        return f"Whether somebody who {who} reconstructs anything is not known: {candidates}.{ruled_out}"
    if finding.outcome is AuditOutcome.RULED_OUT:
        return f"Somebody who {who} has no attack here that can work, so none was run.{ruled_out}"
    if finding.outcome is AuditOutcome.FAILED:
        return f"What somebody who {who} gets is not known, for the attacks failed: {reasons[0]}."
    why = WAY_OUT.get(finding.threat) or (reasons[0] if reasons else "there is no such attack here")
    return f"Somebody who {who} was not tried: {why}."


def recounted(tried: Sequence[AuditAttempt], told: Mapping[str, str]) -> str:
    """Return why the verdict counts otherwise than the lines of the runs did, empty where it does not.

    Args:
        tried: all attacks, with the protocol of the verdict.
        told: by attack, the protocol of the line of its run.
    """
    rule = ALIKE.name
    others = [one.attack for one in tried if one.protocol == rule and told.get(one.attack, rule) != rule]
    if not others:
        return ""
    why = "held-out images pass for most of the training images by SSIM"
    return f"The rule changes here for {', '.join(others)}, from SSIM to {rule}: {why}."


def verdict(findings: Sequence[ThreatFinding]) -> list[str]:
    """Return the sentences on all attackers: what was found, what was not, and in one sentence who was not tested."""
    order = [
        AuditOutcome.FOUND,
        AuditOutcome.NOTHING,
        AuditOutcome.UNVERIFIED,
        AuditOutcome.FAILED,
        AuditOutcome.RULED_OUT,
    ]
    tested = [finding.sentence for outcome in order for finding in findings if finding.outcome is outcome]
    left = [finding.threat for finding in findings if finding.outcome is AuditOutcome.NOT_TESTED]
    return [*tested, *([f"Not tested: {'; '.join(left)}."] if left else [])]


def _ruled_out(finding: ThreatFinding) -> str:
    """Return why attacks cannot work, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for attack, reason in finding.ruled_out.items():
        by_reason.setdefault(reason, []).append(attack)
    return "".join(f" {', '.join(names)} cannot work: {reason}." for reason, names in by_reason.items())


UNREAD = "Its layers could not be read, so the attacks that get most out of other models were not tried on it."


def headline(findings: Sequence[ThreatFinding], n: int, unit: Unit = "images", read: bool = True) -> str:
    """Return the verdict in one sentence, of a model whose layers are not known in two.

    Args:
        findings: of all attackers.
        n: the number of training records given.
        unit: what the records are.
        read: whether the model's layers are known, so that the attacks on layers apply.
    """
    found = [one for one in findings if one.outcome is AuditOutcome.FOUND]
    if found:
        best = max(found, key=lambda one: (one.found or 0) - (one.null or 0))
        who = f"somebody who {WHO[best.threat]}"
        return f"{best.found} of {n} training {unit} can be reconstructed by {who}, where chance gets {best.null}."
    nothing = [finding for finding in findings if finding.outcome is AuditOutcome.NOTHING]
    if nothing and all(finding.blind for finding in nothing):
        least = min(finding.null or 0 for finding in nothing)
        told = f"even all {n} could not be told from chance, which gets {least}"
        return f"Whether training {unit} can be reconstructed was not shown: {told}."
    if nothing:
        nobody = f"None of {n} training {unit} was reconstructed beyond chance, by the"
        nobody += " attacks that were tried." if read else " few attacks that apply."
        return f"{nobody}{_nearest(nothing)}" if read else f"{nobody}{_nearest(nothing)} {UNREAD}"
    if any(finding.outcome is AuditOutcome.UNVERIFIED for finding in findings):
        return f"Nothing could be verified: no training {unit} were given to compare the attacks' candidates with."
    return "No attack was run to its end, so nothing is known of what can be reconstructed."


def _nearest(nothing: Sequence[ThreatFinding]) -> str:
    """Return what came nearest to being beyond chance; empty if nothing got more than chance."""
    best = max(nothing, key=lambda one: (one.found or 0) - (one.null or 0))
    if (best.found or 0) <= (best.null or 0):
        return ""
    return (
        f" {best.attack} came nearest to that, with {best.found}, where chance gets {best.null}: look at its pictures."
    )


def limits(
    victim: Victim, card: Exposure, findings: Sequence[ThreatFinding], tried: Sequence[AuditAttempt], seconds: float
) -> list[str]:
    """Return who was not tested, and what the audit lacked.

    Args:
        victim: the model.
        card: its exposure card.
        findings: of all attackers.
        tried: all attacks.
        seconds: the time that each of them had.
    """
    said = [finding.sentence for finding in findings if finding.outcome is AuditOutcome.NOT_TESTED]
    if not card.layers:
        whole = "The attacks on layers do not apply, for the layers are not known"
        network = victim.spec.architecture
        if network.kind == "front" and network.tailed:
            whole = "Attacks use one fully connected layer, and what stands before and behind it as wholes"
        elif network.kind == "front":
            whole = "Attacks use its last fully connected layers, and what stands before them as a whole"
        elif network.kind == "tail":
            whole = "Attacks use its first layer, and what is behind it as a whole"
        said.append(f"{whole}: {card.uncovered}.")
    said += _lacked(victim)
    if few := {one.attack: one.compared for one in tried if one.compared is not None}:
        told = ", ".join(f"{count} of {attack}" for attack, count in few.items())
        said.append(
            f"Held-out images are fewer than candidates, so the surest of these alone were tested: {told}; "
            "with more held-out images more can be told from chance."
        )
    if spent := [one.attack for one in tried if one.budget_spent]:
        told = f"{', '.join(spent)} spent the {seconds:g} s that each attack had; more time may find more."
        said.append(told)
    failed = (one for one in tried if one.status is not None and one.found is None and one.candidates is None)
    said += [f"{one.attack} failed: {one.reason}." for one in failed]
    said.append("An attack that is not in this program may find what these do not; an audit is no proof of safety.")
    return said


def _lacked(victim: Victim) -> list[str]:
    """Return what images an audit lacked, and what that leaves open."""
    given, trained = len(victim.split.labels), victim.spec.n_trained
    unit, option = ("rows", "records") if victim.spec.tabular else ("images", "images")
    if not given:
        return [
            f"No training {unit} were given: nothing is counted, no null control was run, and no candidate is known to "
            f"be right or wrong; `{option}` names their file.",
            f"The weights were not tried on any of the {unit}: whether they, mean and std fit each other is not known.",
        ]
    said = []
    if given < trained:
        said.append(f"{given} of the {trained} training {unit} were given; nothing is known of the others.")
    if not len(victim.split.test_labels):
        mean = f"the mean {unit[:-1]}"
        said.append(f"No held-out {unit} were given: chance is measured by random candidates and {mean} alone.")
    return [*said, "No control repeats the training on other records: the audit cannot train the model again."]


def advice(findings: Sequence[ThreatFinding]) -> list[str]:
    """Return the habits that help, those that concern what was found first."""
    found = [finding.threat for finding in findings if finding.outcome is AuditOutcome.FOUND]
    return list(dict.fromkeys([*(habit for threat, habit in HELPS.items() if threat in found), *HABITS]))
