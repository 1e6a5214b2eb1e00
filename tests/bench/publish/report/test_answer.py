"""The first screen says what the tables say, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.publish.leaderboard import write_tables
from bench.publish.report import write_report
from bench.publish.report.answer import answer
from bench.publish.report.collect import collect
from bench.publish.report.profiles import profiles
from bench.store.records import OVERLAPPED, RunRecord, Status

Scored = Callable[..., RunRecord]
START = "architecture+initial weights+weights"


def told(root: Path, records: list[RunRecord]) -> Any:
    write_tables(root, records)
    return answer(collect(root))


def test_processors_of_several_runs_of_a_cell_are_told_one_by_one(results: Path, scored: Scored) -> None:
    runs = [scored("kkt", n_good=16, wall_s=30.0, seed=seed, cpu=cpu) for seed, cpu in enumerate("BACB")]
    assert told(results, runs).sentences[2] == "The best attack of each attacker took 30 s on A, B and C."


def test_one_core_is_no_cores_and_a_bound_on_the_time_is_called_one(results: Path, scored: Scored) -> None:
    runs = [
        scored("kkt", n_good=16, wall_s=30.0, cpu="EPYC (1 cores)", flags=OVERLAPPED),
        scored("kkt-delta", n_good=18, knowledge=START, wall_s=9.0, cpu="EPYC (2 cores)"),
    ]
    assert told(results, runs).sentences[2] == (
        "The best attack of each attacker took 9 s to at most 30 s on EPYC (1 core) and EPYC (2 cores)."
    )


def test_each_kind_of_attacker_is_told_with_what_leads_for_him(results: Path, scored: Scored) -> None:
    more = {"victim": "mnist-mlp-100", "dataset": "mnist"}
    records = [
        scored("kkt", n_good=16, wall_s=30.0, cpu="a CPU"),
        scored("first-layer", n_good=9),
        scored("kkt-delta", n_good=18, knowledge=START, wall_s=90.0, cpu="an older CPU", **more),
        scored("inversion", n_good=3, victim="digits-mlp-100", null_n_good=4, null_n_good_unique=4),
    ]
    found = told(results, records)

    assert found.sentences[0] == (
        "Of 3 models attacked, 2 give training records away to an attack that surely beats its null controls; on the "
        "other one none does, which does not show that it is safe."
    )
    assert found.sentences[1] == (
        "With the weights alone, kkt gets 15 of 20 training records of faces-mlp-20, where chance gets 1 "
        "(one training). With the weights and the start of the training, kkt-delta gets 17 of 20 training records of "
        "mnist-mlp-100, where chance gets 1 (one training)."
    )
    assert found.uncounted == ""
    assert found.sentences[2] == "The best attack of each attacker took 30 s to 1.5 min on a CPU and an older CPU."
    weights, start = found.led
    assert (weights.attacker, weights.attack, weights.gets, weights.chance) == (
        "the weights alone",
        "kkt",
        "15 of 20",
        "1",
    )
    assert (start.attacker, start.attack, start.gets) == (
        "the weights and the start of the training", "kkt-delta", "17 of 20",
    )  # fmt: skip
    low, high = map(float, weights.gain.split(" to "))
    assert (low < 14 < high, start.time) == (True, "1.5 min")
    assert [one.name for one in found.kinds["two classes: 2 of 3"]] == ["kkt-delta", "kkt", "first-layer", "inversion"]
    assert [one.ranked for one in found.kinds["two classes: 2 of 3"]] == [True, True, True, False]


def test_an_attacker_who_saw_weights_on_the_way_is_said_to_have_them(results: Path, scored: Scored) -> None:
    known = f"architecture+earlier weights+{START.partition('+')[2]}"
    (led,) = told(results, [scored("kkt-delta", variant="snapshots", n_good=18, knowledge=known)]).led
    assert led.attacker == "the weights and the start of the training, and weights on the way"
    assert led.attack == "kkt-delta:snapshots"


def test_where_nothing_beats_its_null_it_says_so(results: Path, scored: Scored) -> None:
    found = told(results, [scored(n_good=3, null_n_good=4, null_n_good_unique=4)])
    (sentence,) = found.sentences
    assert sentence == (
        "Of the one model attacked, no attack surely got more than its null controls, which does not show that it is "
        "safe."
    )
    assert found.best is None


def test_the_trainings_of_the_rows_that_lead_and_their_twins_are_told(results: Path, scored: Scored) -> None:
    records = [scored("kkt", victim_seed=seed, run_id=str(seed), null_disjoint=1) for seed in (0, 1)]
    records.append(scored("kkt-delta", n_good=18, knowledge=START))
    found = told(results, records)
    assert [(one.trainings, one.twin, one.chance) for one in found.led] == [(2, True, "1"), (1, False, "1")]
    assert "where chance gets 1 (the mean of 2 trainings). With" in found.sentences[1]
    page = write_report(results).read_text()
    assert page.count('<td class="number">1 *</td>') == 1
    assert "* No twin was attacked" in page


def test_records_that_are_sought_among_others_are_not_called_training_records(results: Path, scored: Scored) -> None:
    known = "architecture+known points+training algorithm+weights"
    found = told(results, [scored("glm", victim="cancer-logistic", knowledge=known)])
    assert found.sentences[1].startswith(
        "With the weights and all records but one, glm gets 11 of 20 records sought in cancer-logistic, where"
    )


def test_a_network_met_with_different_weights_is_left_out(results: Path, scored: Scored) -> None:
    weights = [scored("kkt", victim_sha="a" * 64), scored("first-layer", victim_sha="b" * 64)]
    found = told(results, [*weights, scored("kkt", victim="digits-mlp-100")])
    assert found.sentences[0].startswith("The one model attacked gives training records away")
    assert found.uncounted == "Not counted: faces-mlp-20, where attacks met different weights."


def test_why_the_page_has_more_models_than_are_counted(results: Path, scored: Scored) -> None:
    twice = [scored(victim="cifar-mlp-20", victim_key=key * 16, victim_sha=key * 64, run_id=key) for key in "ab"]
    idle = [
        scored(victim=f"{name}-mlp-20", run_id=name, status=Status.SKIPPED, good_images="")
        for name in ("one", "two", "three", "four")
    ]
    assert told(results, [*twice, *idle]).uncounted == (
        "Not counted: four-mlp-20, one-mlp-20, three-mlp-20 and 1 more, where no attack was made. A name counts once; "
        "some have several definitions, so 2 models stand below."
    )


def test_the_picture_is_that_of_the_row_that_leads(built: Path) -> None:
    best = answer(collect(built)).best
    assert best is not None
    assert (best.row["attack"], best.row["victim"]) == ("kkt", "faces-mlp-20")


def test_the_picture_is_of_who_has_the_weights_alone_though_others_get_more(
    results: Path, scored: Scored, stored: Callable[[Path, RunRecord], None]
) -> None:
    runs = [scored("kkt", n_good=9), scored("kkt-delta", n_good=18, knowledge=START, victim="mnist-mlp-100")]
    for one in runs:
        stored(results, one)
    best = told(results, runs).best
    assert best is not None and best.row["attack"] == "kkt"


def test_the_picture_is_of_the_attack_that_the_sentences_name(
    results: Path, scored: Scored, stored: Callable[[Path, RunRecord], None]
) -> None:
    often = [scored("kkt", n_good=12, victim_seed=seed, run_id=str(seed)) for seed in (0, 1)]
    once = scored("kkt-span", n_good=18, victim="mnist-mlp-100")
    for one in (*often, once):
        stored(results, one)
    found = told(results, [*often, once])
    assert "kkt gets 11 of 20" in found.sentences[1]
    assert found.best is not None and found.best.row["attack"] == "kkt"


def test_a_profile_tells_where_an_attack_does_not_surely_beat_chance(results: Path, scored: Scored) -> None:
    lost = {"null_n_good": 4, "null_n_good_unique": 4}
    records = [scored("kkt"), scored("kkt", victim="digits-mlp-100", n_good=3, **lost), scored("random", control=True)]
    write_tables(results, records)
    (found,) = profiles(collect(results))
    page = " ".join(write_report(results).read_text().split())
    assert "no sure gain" in page and "there it does not surely beat chance, which does not show" in page
    assert "fails on" not in page

    missed = [row["victim"] for row in found.missed]
    assert (found.name, found.beaten, missed) == ("kkt", 1, ["digits-mlp-100"])
    assert found.best is not None and found.best.row["victim"] == "faces-mlp-20"
    assert set(found.needs) == {"architecture", "class balance", "weights"}


def test_a_profile_does_not_judge_where_weights_differ(results: Path, scored: Scored) -> None:
    told = {"victim_key": "k", "null_n_good_unique": 1}
    rivals = [scored(name, run_id=name, victim_sha=sha * 64, **told) for name, sha in (("kkt", "1"), ("kkt-span", "2"))]
    write_tables(results, rivals)
    assert [(found.name, found.best, found.missed) for found in profiles(collect(results))] == [
        ("kkt", None, ()), ("kkt-span", None, ()),
    ]  # fmt: skip


def test_where_all_weights_differ_nothing_is_said_of_what_networks_give_away(results: Path, scored: Scored) -> None:
    told = {"victim_key": "k", "null_n_good_unique": 1}
    write_tables(results, [scored(sha, run_id=sha, victim_sha=sha * 64, **told) for sha in "12"])
    assert answer(collect(results)).sentences == (
        "No attack is ranked: on every network attacks met different weights.",
    )


def test_what_is_ours_is_told_apart_from_a_papers(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(name, run_id=name) for name in ("kkt", "kkt-span", "kkt-delta", "nobodys")])
    assert {found.name: found.ours for found in profiles(collect(results))} == {
        "kkt": False, "kkt-span": True, "kkt-delta": True, "nobodys": False,
    }  # fmt: skip
