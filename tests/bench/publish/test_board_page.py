"""leaderboard.md: what an audience reads of the boards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.base import Knowledge, Threat
from bench.plan import registry
from bench.plan.registry import Registry
from bench.publish.best import Best, attacker, families_of, given_away
from bench.publish.board_file import read_leaderboard
from bench.publish.leaderboard import write_tables
from bench.publish.numbers import COVERAGE, ONE_TRAINING, ROW_BY_ROW
from bench.publish.parameters import knowing
from bench.store.good_images import encode
from bench.store.records import OVERLAPPED, RunRecord

Make = Callable[..., RunRecord]


def good(count: int, null: int = 0) -> dict[str, Any]:
    images = np.arange(100)
    mask, nulls = encode(images < count), encode(images >= 100 - null)
    masks = {"good_images": mask, "one_to_one_images": mask, "null_images": nulls}
    return {"n": 100, "n_good": count, "n_good_unique": count, "null_n_good_unique": null, **masks}


def page(folder: Path, *records: RunRecord) -> dict[str, list[list[str]]]:
    """The tables of the page by the heading above them, cells by row."""
    write_tables(folder, list(records))
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (folder / "leaderboard.md").read_text().splitlines():
        if line.startswith(("#", "<summary>")):
            heading = line.strip("# ")
        elif line.startswith("|") and not line.startswith("|:"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_best_attack_of_each_kind_of_network_comes_first(record: Make, tmp_path: Path) -> None:
    two, several = {"family": "two classes"}, {"family": "several classes"}
    tables = page(
        tmp_path,
        record(attack="weak", victim="v1", **two, **good(30)),
        record(attack="strong", victim="v1", knowledge="labels+weights", **two, **good(80, 10), wall_s=90),
        record(attack="control", victim="v1", control=True, **two, **good(95)),
        record(attack="lucky", victim="v2", **two, **good(20, 18)),
        record(attack="nothing", victim="v3", **several, **good(5, 5)),
    )
    head, *rows = tables["The best attack on each kind of network"]
    best = {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    assert head[2:6] == ["the attacker has", "best attack", "gain ↑", "of"]
    assert head[-1] == "must know", "the longest, what the attacker has in short, parts nothing else"
    assert best["several classes"]["best attack"] == "none surely beats its null controls"
    assert best["two classes"]["best attack"] == "`strong`"
    gain = best["two classes"]["gain ↑"]
    assert gain.startswith("+70 [") and gain.endswith("], one training")
    assert (best["two classes"]["time ↓"], best["two classes"]["must know"]) == ("1.5 min", "labels, weights")
    assert best["two classes"]["give something away"] == "1 of 2"


def test_all_attacks_of_a_network_stand_together_and_single_ones_are_folded(record: Make, tmp_path: Path) -> None:
    tables = page(
        tmp_path,
        record(attack="first", victim="v1", victim_sha="abcdef0123456789", **good(80)),
        record(attack="second", victim="v1", victim_sha="abcdef0123456789", tuned_by="user",
               params_json='{"lr": 0.1}', params_hash="x", **good(30)),
        record(attack="noise", victim="v1", control=True, **good(40)),
        record(attack="alone", victim="v2", **good(3, 9)),
    )  # fmt: skip
    _, *rows = tables["All attacks, network by network"]
    assert [row[:3] for row in rows] == [
        ["`v1`", "1", "`first`"],
        ["", "2", "`second` lr=0.1"],
        ["", "–", "`noise` (control)"],
    ]
    assert rows[0][-1] == "abcdef"
    (folded,) = (name for name in tables if "Networks that one attack was tried on: 1" in name)
    assert tables[folded][1][:3] == ["`v2`", "–", "`alone`"]
    assert tables[folded][1][3].startswith("−6 [−")
    assert "nan" not in (tmp_path / "leaderboard.md").read_text()


def test_a_network_counts_once_and_is_told_with_its_twin(record: Make, tmp_path: Path) -> None:
    two = {"family": "two classes"}
    tables = page(
        tmp_path,
        record(attack="a", victim="v1", victim_key="", **two, **good(90)),
        record(attack="a", victim="v1", victim_key="today", victim_sha="1" * 64, null_disjoint=3, **two, **good(60)),
        record(attack="a", victim="v2", victim_key="k", **two, **good(50)),
    )
    _, row = tables["The best attack on each kind of network"]
    assert row[1] == "2 of 2"
    words = " ".join((tmp_path / "leaderboard.md").read_text().split())
    assert "All 2 models attacked give training records away" in words
    assert "for 1 of the 2 models that give something away one of them is the same attack on a twin" in words


@pytest.mark.parametrize(("others", "led"), [(4, 1), (5, 0), (None, 1)])
def test_a_twin_that_gets_the_most_is_told(others: int | None, led: int, record: Make, tmp_path: Path) -> None:
    nulls = {"null_disjoint": 5, "null_untrained": 2, "null_random": others, "null_held_out": 3}
    page(tmp_path, record(attack="a", victim="v", **good(90), **nulls))
    words = " ".join((tmp_path / "leaderboard.md").read_text().split())
    assert f"and for {led} of these it gets more than the others" in words


def test_rows_of_another_protocol_are_not_shown_twice(record: Make, tmp_path: Path) -> None:
    both = [record(attack=name, protocol=scored, **good(9)) for name in "ab" for scored in ("buzaglo2023", "assigned")]
    assert len(page(tmp_path, *both)["All attacks, network by network"]) == 1 + 2


def test_different_weights_are_told_and_nobody_is_ranked(record: Make, tmp_path: Path) -> None:
    tables = page(
        tmp_path,
        record(attack="a", victim_key="k", victim_sha="1" * 64, **good(80)),
        record(attack="b", victim_key="k", victim_sha="2" * 64, **good(10)),
    )
    assert [row[1] for row in tables["All attacks, network by network"][1:]] == ["weights differ"] * 2
    text = (tmp_path / "leaderboard.md").read_text()
    assert (
        "## Not ranked, and not counted above\n\n* `faces-mlp-4`: attacks met different weights under one definition"
        in text
    )


def test_a_network_whose_attacks_met_different_weights_is_not_one_that_gives_nothing_away(
    record: Make, tmp_path: Path
) -> None:
    family = {"family": "two classes"}
    apart = [
        record(attack=name, victim="v2", victim_key="k", victim_sha=sha * 64, **family, **good(80))
        for name, sha in (("a", "1"), ("b", "2"))
    ]
    heading = "The best attack on each kind of network"
    assert heading not in page(tmp_path / "alone", *apart)

    tables = page(tmp_path / "both", *apart, record(attack="a", victim="v1", **family, **good(60)))
    (row,) = tables[heading][1:]
    assert (row[:2], row[3], row[-2]) == (["two classes", "1 of 1"], "`a`", "`v1`")


def test_a_rank_of_another_protocol_is_shown_where_weights_differ(record: Make, tmp_path: Path) -> None:
    told = {"victim": "v1", "victim_key": "k", **good(60)}
    rivals = [
        record(attack=name, victim_sha=sha * 64, protocol="assigned", **told) for name, sha in (("a", "1"), ("b", "2"))
    ]
    tables = page(tmp_path, *rivals, record(attack="c", victim_sha="1" * 64, protocol="nearest-public", **told))
    shown = {row[2]: row[1] for row in tables["All attacks, network by network"][1:]}
    assert shown == {"`a`": "weights differ", "`b`": "weights differ", "`c`": "1"}
    assert dict(read_leaderboard(tmp_path / "leaderboard.csv")[["attack", "rank"]].to_numpy()) == {
        "a": "",
        "b": "",
        "c": "1",
    }


def test_each_attacker_has_a_line_of_their_own_and_the_networks_that_they_attacked(
    record: Make, tmp_path: Path
) -> None:
    family, start = {"family": "ordinary training"}, {"knowledge": "architecture+initial weights+weights"}
    tables = page(
        tmp_path,
        record(attack="blind", victim="v1", **family, **good(30)),
        record(attack="blind", victim="v2", **family, **good(0)),
        record(attack="noise", victim="v3", **family, control=True, **good(0)),
        record(attack="told", victim="v1", **family, **start, **good(80)),
        record(attack="worse", victim="v1", **family, **start, **good(70)),
        record(attack="queries", victim="v1", **family, knowledge="logits of chosen inputs", **good(0)),
    )
    assert [row[:4] for row in tables["The best attack on each kind of network"][1:]] == [
        ["ordinary training", "0 of 1", "query access", "none surely beats its null controls"],
        ["", "1 of 2", "the weights alone", "`blind`"],
        ["", "1 of 1", "the weights and the start of the training", "`told`"],
    ]


def test_a_guess_of_the_start_is_no_attack_on_the_weights_alone() -> None:
    params = registry.attacks().items["kkt-delta"].Params(start="guess").model_dump_json()
    row = {"attack": "kkt-delta", "params_json": params, "knowledge": "architecture+weights"}
    assert attacker(row) is Threat.SEED
    assert attacker(row | {"params_json": '{"start": 3}'}) is Threat.WEIGHTS, "parameters of another version"


def test_an_attack_of_ones_own_that_cannot_say_what_it_knows_has_what_its_row_tells() -> None:
    class Mine(registry.attacks().items["random"]):  # type: ignore[misc, name-defined]
        name = "mine"
        control = False

        @property
        def knowledge(self) -> frozenset[Knowledge]:
            raise KeyError("renamed")

    attacks = Registry("attack", {"mine": Mine})
    row = {"attack": "mine", "params_json": "{}", "knowledge": "architecture+weights"}
    with knowing(attacks, registry.victims()):
        assert attacker(row) is Threat.WEIGHTS


def test_protocols_that_say_other_things_of_one_run_each_have_a_line(record: Make, tmp_path: Path) -> None:
    """Held-out digits pass one protocol, and not the other: a page that kept one line would hide the finding."""
    alone = record(victim="v1", protocol="assigned", **good(84, 80))
    same = alone.model_copy(update={"protocol": "buzaglo2023"})
    strict = record(victim="v1", protocol="nearest-public", **good(97, 15))
    tables = page(tmp_path, alone, same, strict)
    (folded,) = (name for name in tables if "Networks that one attack was tried on: 1" in name)
    head, *rows = tables[folded]
    shown = [(row[head.index("protocol")], row[head.index("rank")], row[head.index("gain ↑")][:3]) for row in rows]
    assert shown == [("assigned", "–", "+4 "), ("nearest-public", "1", "+82")]


def test_definitions_of_one_name_are_told_apart(record: Make, tmp_path: Path) -> None:
    tables = page(
        tmp_path,
        record(victim="v1", victim_key="a" * 16, victim_sha="1" * 64, **good(80)),
        record(victim="v1", victim_sha="2" * 64, **good(70)),
        record(victim="v2", victim_key="b" * 16, **good(60)),
    )
    (folded,) = (name for name in tables if "tried on: 3" in name)
    assert [row[0] for row in tables[folded][1:]] == [
        "`v1`, definition not stored", "`v1`, definition aaaaaa", "`v2`",
    ]  # fmt: skip


def test_a_row_that_tells_no_family_takes_none_from_its_victim() -> None:
    told = {"victim": "mine", "family": "ordinary training"}
    assert (
        families_of([told, told | {"family": ""}])
        == families_of([told | {"family": ""}, told])
        == {"mine": told["family"]}
    )


def test_seconds_of_a_shared_machine_are_at_most_those(record: Make, tmp_path: Path) -> None:
    shared = {"flags": f"budget;{OVERLAPPED}: the machine was shared, the attack had 40% of a core", **good(50)}
    tables = page(
        tmp_path,
        record(victim="v1", wall_s=30, **good(50)),
        record(victim="v1", wall_s=90, seed=1, **shared),
        record(victim="v2", wall_s=90, **shared),
    )
    (folded,) = (name for name in tables if "tried on: 2" in name)
    head, *rows = tables[folded]
    assert [row[head.index("time ↓")] for row in rows] == ["30 s", "≤ 1.5 min"]
    assert list(read_leaderboard(tmp_path / "leaderboard.csv")["overlapped"]) == [1, 1]


NOTHING = "Of the one model attacked, no attack surely got more than its null controls"


def test_without_runs_the_page_says_so(tmp_path: Path) -> None:
    write_tables(tmp_path, [])
    assert "No run is stored yet" in (tmp_path / "leaderboard.md").read_text()


@pytest.mark.parametrize(
    ("beaten", "tried", "words"),
    [
        (0, 1, f"{NOTHING}, which does not show that it is safe."),
        (1, 1, "The one model attacked gives AWAY."),
        (0, 3, "None of the 3 models attacked gives AWAY, which does not show that they are safe."),
        (3, 3, "All 3 models attacked give AWAY."),
        (1, 3, "Of 3 models attacked, 1 gives AWAY; on the other 2 none does, which does not show that they are safe."),
    ],
)
def test_no_gain_is_not_called_safety(beaten: int, tried: int, words: str) -> None:
    told = given_away([Best("a kind", {}, {}, beaten, tried, 0, 0)])
    assert told == words.replace("AWAY", "training records away to an attack that surely beats its null controls")


def test_the_page_says_how_little_few_trainings_tell_and_shows_several_first(record: Make, tmp_path: Path) -> None:
    more = [record(attack="a", victim="v2", victim_seed=seed, run_id=str(seed), **good(60)) for seed in (0, 1)]
    more.append(record(attack="lucky", victim="v3", **good(99)))
    tables = page(tmp_path, record(attack="a", victim="v1", family="two classes", **good(50)), *more)
    gains = [row[4] for row in tables["The best attack on each kind of network"][1:]]
    assert [gain.endswith("one training") for gain in gains] == [False, True]
    text = (tmp_path / "leaderboard.md").read_text()
    words = " ".join(text.split())
    assert COVERAGE in words and ROW_BY_ROW in words and ONE_TRAINING in words
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))
