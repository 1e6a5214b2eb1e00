"""Each sentence of a verdict says what was tried and what came of it, and no more."""

from __future__ import annotations

from typing import Any

from attacks.base import Threat
from bench.experiments.audit import words
from bench.experiments.audit.findings import SIGNIFICANCE, threats
from bench.experiments.audit.model import AuditAttempt, AuditOutcome, ThreatFinding
from bench.plan.prospects import Outlook
from bench.store.records import Status

N = 40


def attempt(name: str = "one", threat: Threat = Threat.WEIGHTS, **fields: Any) -> AuditAttempt:
    """An attack that was left out because it does not apply, but for what is named."""
    known = {
        **{"attack": name, "threat": threat, "outlook": Outlook.DECLINED, "reason": "it takes other models"},
        **{"status": None, "run_id": "", "found": None, "null": None, "null_control": "", "chance": None},
        **{"beyond_chance": False, "seconds": None, "budget_spent": False},
    }
    return AuditAttempt.model_validate(known | fields)


def ran(name: str, found: int, null: int, threat: Threat = Threat.WEIGHTS, **fields: Any) -> AuditAttempt:
    """An attack that was run alone to its end."""
    chance = 2.0 ** (null - found) if found > null else 1.0  # all that chance gets, the attack gets too
    told = {"outlook": Outlook.OPEN, "reason": "", "status": Status.OK, "run_id": name, "seconds": 2.0}
    counts = {"found": found, "null": null, "chance": chance, "beyond_chance": chance < SIGNIFICANCE}
    return attempt(name, threat, **(told | counts | fields))


def doubted(name: str, reason: str, threat: Threat = Threat.WEIGHTS) -> AuditAttempt:
    return attempt(name, threat, outlook=Outlook.DOUBTED, reason=reason)


def of(threat: Threat, *tried: AuditAttempt) -> ThreatFinding:
    return next(finding for finding in threats(tried, N) if finding.threat == threat)


def test_what_was_found_stands_beside_chance() -> None:
    finding = of(Threat.START, ran("weak", 5, 4, Threat.START), ran("strong", 30, 3, Threat.START))
    assert finding.outcome is AuditOutcome.FOUND
    assert finding.sentence == (
        "Somebody who has the weights and the start of the training can reconstruct 30 of 40 training images by "
        "strong; chance gets 3."
    )


def test_a_count_that_chance_reaches_is_nothing() -> None:
    finding = of(Threat.QUERIES, ran("asks", 9, 7, Threat.QUERIES))
    assert finding.outcome is AuditOutcome.NOTHING
    assert finding.sentence == (
        "Somebody who asks the model for its outputs and has nothing else got nothing beyond chance from 1 attack in "
        "2 s: asks got 9 of 40 training images and chance 7."
    )


def test_all_attacks_that_were_tried_are_named_and_those_that_cannot_work_with_their_reason() -> None:
    finding = of(
        Threat.WEIGHTS,
        ran("first", 3, 3),
        ran("second", 2, 4),
        doubted("a", "no gap"),
        doubted("b", "no gap"),
        attempt(),
    )
    assert finding.sentence == (
        "Somebody who has the weights alone got nothing beyond chance from 2 attacks in 4 s: first got 3 of 40 "
        "training images and chance 3; second led chance by no more. a, b cannot work: no gap."
    )
    assert finding.tried == ["first", "second"]


def test_images_that_are_alike_are_counted_by_another_rule_which_is_said() -> None:
    """By SSIM the line of the run had 27, with a null of all."""
    attempt = ran("asks", 0, 27, protocol="nearest-public")
    assert of(Threat.WEIGHTS, attempt).sentence == (
        "Somebody who has the weights alone got nothing beyond chance from 1 attack in 2 s: asks brought none of 40 "
        "training images nearer than any held-out image is; what cannot have seen them, compared in the same way, "
        "passes for 27."
    )
    found = of(Threat.WEIGHTS, ran("asks", 30, 2, protocol="nearest-public")).sentence
    assert found.endswith("30 of 40 training images by asks, each nearer than any held-out image is; chance gets 2.")
    assert words.recounted([attempt], {"asks": "buzaglo2023"}) == (
        "The rule changes here for asks, from SSIM to nearest-public: held-out images pass for most of the training "
        "images by SSIM."
    )
    assert words.recounted([attempt], {"asks": "nearest-public"}) == words.recounted([ran("a", 1, 2)], {"a": "x"}) == ""


def test_nothing_is_said_to_be_safe_where_no_attack_was_run() -> None:
    finding = of(Threat.SEED, doubted("guess", "no seed drew it", Threat.SEED))
    assert finding.outcome is AuditOutcome.RULED_OUT
    assert finding.sentence == (
        "Somebody who has the weights and guesses the seed of the start has no attack here that can work, "
        "so none was run. guess cannot work: no seed drew it."
    )


def test_an_attack_that_failed_says_nothing_about_the_model() -> None:
    failed = attempt("broken", outlook=Outlook.OPEN, reason="error: 1 / 0", status=Status.ERROR, run_id="broken")
    finding = of(Threat.WEIGHTS, failed)
    assert finding.outcome is AuditOutcome.FAILED
    assert "is not known, for the attacks failed: error: 1 / 0" in finding.sentence
    assert of(Threat.WEIGHTS, failed, ran("other", 0, 1)).outcome is AuditOutcome.NOTHING


def test_who_was_not_tested_is_told_with_the_way_out() -> None:
    every = threats([attempt("starts", Threat.START)], N)
    assert {finding.outcome for finding in every} == {AuditOutcome.NOT_TESTED}
    told = words.verdict(every)
    assert told == [f"Not tested: {'; '.join(str(finding.threat) for finding in every)}."]
    assert [finding.threat for finding in every] == list(Threat)
    told_once = [finding.sentence for finding in every if "earlier release" in finding.sentence]
    assert told_once == [next(one.sentence for one in every if one.threat == Threat.START)]
    assert told_once[0].endswith("the start was not given; `initial` names its file, or that of an earlier release.")
    assert words.headline(every, N) == "No attack was run to its end, so nothing is known of what can be reconstructed."


def test_the_verdict_begins_with_what_was_found() -> None:
    every = threats([ran("asks", 0, 1, Threat.QUERIES), ran("strong", 30, 3), doubted("x", "y", Threat.SEED)], N)
    told = words.verdict(every)
    assert [sentence.split(" ")[0] for sentence in told] == ["Somebody"] * 3 + ["Not"]
    assert "can reconstruct 30" in told[0]
    assert "nothing beyond chance" in told[1]
    assert "no attack here that can work" in told[2]


def test_the_headline_is_the_count_with_the_largest_lead_and_its_own_null() -> None:
    every = threats([ran("a", 30, 12), ran("b", 25, 2, Threat.START)], N)
    assert words.headline(every, N) == (
        "25 of 40 training images can be reconstructed by somebody who has the weights and the start of the training, "
        "where chance gets 2."
    )
    nothing = threats([ran("a", 3, 2)], N)
    assert words.headline(nothing, N) == (
        "None of 40 training images was reconstructed beyond chance, by the attacks that were tried. a came nearest to "
        "that, with 3, where chance gets 2: look at its pictures."
    )
    assert words.headline(threats([ran("a", 2, 2)], N), N).endswith("by the attacks that were tried.")
    assert words.headline(nothing, N, read=False) == (
        "None of 40 training images was reconstructed beyond chance, by the few attacks that apply. a came nearest to "
        f"that, with 3, where chance gets 2: look at its pictures. {words.UNREAD}"
    )


def test_where_chance_leaves_no_room_nothing_was_shown() -> None:
    """As of small digits. Of two attacks, 7 more than chance have p = 2^-7 > 0.01 / 2, and 8 have less."""
    every = threats([ran("a", 36, N), ran("b", 23, 33, Threat.QUERIES)], N)
    assert words.headline(every, N) == (
        "Whether training images can be reconstructed was not shown: even all 40 could not be told from chance, which "
        "gets 33."
    )
    assert all(told.endswith("so this shows nothing.") for told in words.verdict(every)[:2])
    room = threats([ran("a", 36, N), ran("b", 23, 32, Threat.QUERIES)], N)
    assert words.headline(room, N).startswith("None of 40 training images was reconstructed beyond chance")
    another = threats([ran("a", 36, N), ran("c", 10, 12), ran("b", 23, N, Threat.QUERIES)], N)
    assert words.headline(another, N).startswith("None of 40")  # c could have been told from chance


def test_habits_that_concern_what_was_found_come_first() -> None:
    every = threats([ran("b", 25, 2, Threat.START)], N)
    assert words.advice(every)[0].startswith("Keep the start private")
    assert sorted(words.advice(every)) == sorted(words.HABITS)
    single = threats([ran("b", 25, 2, Threat.RECORDS)], N)
    assert words.advice(single)[0].startswith("Train with differential privacy")
    state = threats([ran("b", 25, 2, Threat.MOMENTUM)], N)
    assert words.advice(state)[0].startswith("Release no optimiser's state")


def test_an_attack_that_does_not_apply_is_named_with_its_reason() -> None:
    """Once for what each attack says of itself; who has only attacks that do not apply was not tried."""
    finding = of(Threat.RECORDS, attempt("last", Threat.RECORDS, reason="it needs all 9 training records"))
    assert finding.outcome is AuditOutcome.NOT_TESTED
    assert finding.sentence == (
        "Somebody who has the weights and all records but one was not tried: last does not apply "
        "(it needs all 9 training records)."
    )
    assert of(Threat.SEED).sentence.endswith("was not tried: there is no such attack here.")


def test_rows_of_a_table_are_called_rows() -> None:
    every = threats([ran("a", 30, 12), ran("b", 1, 1, Threat.QUERIES)], N, "rows")
    told = [words.headline(every, N, "rows"), *words.verdict(every), words.headline(threats([], 0), 0, "rows")]
    assert not any("image" in sentence for sentence in told)
    assert words.headline(threats([ran("a", 3, 2)], N), N, "rows").startswith("None of 40 training rows was")
    assert "30 of 40 training rows by a; chance gets 12" in told[1]
    assert "b got 1 of 40 training rows and chance 1" in told[2]


def test_what_is_tested_with_too_few_candidates_shows_nothing() -> None:
    """Of four candidates that all are right chance is one in 16, above a hundredth."""
    few, enough = (of(Threat.WEIGHTS, ran("a", 3, 2, compared=count)) for count in (4, 7))
    assert (few.blind, enough.blind) == (True, False)
    assert "could not be told from chance, so this shows nothing" in few.sentence
