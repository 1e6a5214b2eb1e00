"""`verify`: a number that is changed by hand, in a README or in a table, turns it red; what no row tells does not."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.rerun import remeasured
from bench.plan import registry
from bench.publish.claims import Claim, ClaimOutcome, Finding, Tables, read_claims, verify
from bench.publish.claims.check import READMES, documents
from bench.publish.claims.tables import made_of_runs
from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord
from victims.errors import UserError

ROOT = Path(__file__).parents[4]
Make = Callable[..., RunRecord]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what `verify` reads of this repository."""
    root = tmp_path_factory.mktemp("repository")
    for name in READMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    ignored = shutil.ignore_patterns("*.png", "*.html", "runs")
    shutil.copytree(ROOT / "results", root / "results", ignore=ignored, dirs_exist_ok=True)
    return root


def found(root: Path) -> list[Finding]:
    return verify(read_claims(root / "results" / "claims.toml"), root / "results", root)


def changed(path: Path, old: str, new: str) -> Callable[[], int]:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return lambda: path.write_text(text)


def test_the_stored_tables_support_every_sentence(published: Path) -> None:
    findings = found(published)
    assert [finding for finding in findings if finding.outcome is ClaimOutcome.FAILS] == []
    assert sum(finding.outcome is ClaimOutcome.HOLDS for finding in findings) >= 90
    untold = [finding.why for finding in findings if finding.outcome is ClaimOutcome.UNKNOWN]
    assert all(untold)
    assert [why for why in untold if " stored row" in why or "there is no table" in why] == []


def test_numbers_of_documents_changed_by_hand_turn_it_red(published: Path) -> None:
    """Each by itself: of the words that are gone their claim tells, and of a figure without an entry its line."""
    patients = "| 100 patients, each the missing one of a logistic regression | all others, weights | 100 of 100 | {} |"
    words = [
        ("README.md", "497 of the 500", "496 of the 500"),
        ("README.md", patients.format(2), patients.format(3)),
        ("results/findings/several-classes.md", "331, 370 (6, 9, 8)", "331, 370 (5, 9, 8)"),
        ("victims/README.md", "| 71.4 | 74.4 |", "| 71.4 | 74.5 |"),
        ("tests/benchmarks/README.md", "| 115 MiB |", "| 15 MiB |"),
    ]
    lines = [
        ("README.md", "## Attacks\n", "The best gets 77 of 80 images.", 77),
        ("tests/README.md", "## Markers\n", "3 of 4 tests are slow.", 3),
    ]
    with ExitStack() as restored:
        for name, old, new in words:
            restored.callback(changed(published / name, old, new))
        for name, head, line, _ in lines:
            restored.callback(changed(published / name, head, f"{head}\n{line}\n"))
        findings = list(documents(read_claims(published / "results" / "claims.toml"), published))
    told = [
        (finding.why.partition(";")[0], finding.text) for finding in findings if finding.outcome is ClaimOutcome.FAILS
    ]
    for name, old, _ in words:
        assert any(why == f"{name} has no such words any more" and old in text for why, text in told), old
    for name, _, line, figure in lines:
        assert (f"{name}: the figure {figure} has no entry", line) in told


def test_numbers_of_tables_changed_by_hand_turn_it_red(published: Path) -> None:
    """In a claim, in the table of runs, and in that of a study, each of which is a line of its own."""
    hands = [
        ("claims.toml", "n_good_haim_min = 402,", "n_good_haim_min = 401,", "n_good_haim_min is 402 and not 401"),
        ("runs.csv", ",417,402,403,411,", ",417,402,403,410,", "n_good_unique is 410 and not 411"),
        ("studies/decay/decay.csv", ",65,64,6,", ",66,64,6,", "n_good is 66 and not 65"),
    ]
    with ExitStack() as restored:
        for name, old, new, _ in hands:
            restored.callback(changed(published / "results" / name, old, new))
        findings = found(published)
    for *_, words in hands:
        assert any(words in finding.why for finding in findings if finding.outcome is ClaimOutcome.FAILS)


CELLS = [
    {"leaderboard.csv": r",(0\.\d{5})(\d),", "leaderboard.md": r"(\| \+\d*)(\d) \["},
    {"runs.csv": r",(0\.\d{5})(\d),"},
]


@pytest.mark.parametrize("patterns", CELLS, ids=" ".join)
def test_a_cell_changed_by_hand_turns_it_red_though_no_sentence_quotes_it(
    published: Path, patterns: dict[str, str]
) -> None:
    with ExitStack() as restored:
        for name, pattern in patterns.items():
            path = published / "results" / name
            cell = re.search(pattern, path.read_text())
            assert cell is not None
            other = cell.group().replace(cell[1] + cell[2], f"{cell[1]}{(int(cell[2]) + 1) % 10}")
            restored.callback(changed(path, cell.group(), other))
        findings = made_of_runs(Tables(published / "results"))
        told = {finding.text for finding in findings if "what runs.csv makes" in finding.why}
    assert told == {"leaderboard.csv", "leaderboard.md"} & patterns.keys() or ("runs.csv" in patterns and told)


def test_a_cell_that_lost_its_last_digit_is_shown_and_the_command_that_is_named_mends_it(
    bench: Callable[..., Any], record: Make, tmp_path: Path
) -> None:
    write_tables(tmp_path, [record(cpu="a machine of a long name", gpu="0123456789")])
    board = tmp_path / "leaderboard.csv"
    board.write_text(board.read_text().replace("0123456789\n", "012345678\n"))
    (finding,) = made_of_runs(Tables(tmp_path))
    assert "line 2 is not what runs.csv makes ('me,012345678' and not 'me,0123456789')" in finding.why

    command = re.search(r"`python -m bench (.*)`", finding.why)
    assert command is not None
    assert bench(*command[1].split()).status == 0
    assert not list(made_of_runs(Tables(tmp_path)))


def test_different_weights_under_one_definition_turn_it_red(record: Make, tmp_path: Path) -> None:
    told = {"n": 4, "victim_key": "k"}
    write_tables(tmp_path, [record(attack="a", victim_sha="1" * 64, **told), record(victim_sha="2" * 64, **told)])
    (finding,) = made_of_runs(Tables(tmp_path))
    assert (finding.outcome, finding.text) == (ClaimOutcome.FAILS, "faces-mlp-4")
    assert "different weights under one definition" in finding.why


def test_a_document_that_is_not_there_is_one_line(published: Path) -> None:
    with pytest.raises(UserError, match=r"REDME.md: No such file or directory; change `file`"):
        list(documents([claim(file="REDME.md")], published))


def claim(**changes: Any) -> Claim:
    return Claim.model_validate({"text": "kkt gets 3", "where": {"attack": "kkt"}, "values": {"n_good": 3}} | changes)


@pytest.mark.parametrize(
    ("changes", "outcome", "why"),
    [
        ({}, ClaimOutcome.HOLDS, ""),
        ({"values": {"n_good": 4}}, ClaimOutcome.FAILS, "n_good is 3 and not 4 (attack kkt)"),
        ({"values": {"n_good": 4}, "tolerance": 1}, ClaimOutcome.HOLDS, ""),
        ({"values": {"ssim_mean": 0.12}, "digits": 2}, ClaimOutcome.HOLDS, ""),
        ({"values": {"ssim_mean": 0.13}, "digits": 2}, ClaimOutcome.FAILS, "ssim_mean is 0.123457 and not 0.13"),
        ({"values": {"kl_mean": 1}}, ClaimOutcome.UNKNOWN, "the row of attack kkt lacks kl_mean"),
        ({"values": {"kl_mean": 1, "n_good": 9}}, ClaimOutcome.FAILS, "n_good is 3"),
        ({"where": {"attack": "other"}}, ClaimOutcome.UNKNOWN, "no stored row of attack other"),
        ({"where": {"param.steps": 300}}, ClaimOutcome.HOLDS, ""),
        ({"where": {"victim": "faces-mlp-4"}}, ClaimOutcome.HOLDS, ""),  # of two rows that of default parameters
        ({"where": {"dataset": "faces", "tuned_by": "user"}, "values": {"n_good": 4}}, ClaimOutcome.HOLDS, ""),
        ({"table": "studies/absent.csv"}, ClaimOutcome.UNKNOWN, "there is no table studies/absent.csv"),
        ({"unsupported": "nobody ran it"}, ClaimOutcome.UNKNOWN, "nobody ran it"),
    ],
)
def test_a_claim_holds_or_does_not_or_cannot_be_compared(
    record: Make, tmp_path: Path, changes: dict[str, Any], outcome: ClaimOutcome, why: str
) -> None:
    tuned = record(attack="span", tuned_by="user", params_json='{"steps": 30}', params_hash="b", n_good=4)
    write_tables(tmp_path, [record(params_json='{"steps": 300}'), tuned])
    (finding,) = verify([claim(**changes)], tmp_path)

    assert finding.outcome is outcome
    assert why in finding.why and bool(why) == bool(finding.why)


def test_what_a_paper_has_stands_beside_and_decides_nothing(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record()])
    (finding,) = verify([claim(source="Haim et al. 2022", theirs={"n_good": 90})], tmp_path)

    assert (finding.outcome, finding.beside) == (ClaimOutcome.HOLDS, "n_good: paper 90, here 3")


def test_two_rows_that_a_claim_may_mean_are_not_compared(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(), record(victim="faces-mlp-8")])
    (finding,) = verify([claim()], tmp_path)

    assert (finding.outcome, finding.why) == (ClaimOutcome.UNKNOWN, "2 stored rows of attack kkt")


def test_a_claim_is_measured_again(bench: Callable[..., Any], tmp_path: Path) -> None:
    text = '[[claim]]\ntext = "glm"\ntier = "quick"\nwhere = {{ attack = "glm", victim = "cancer-logistic" }}\n'
    text += 'values = {{ n_good = {} }}\n\n[[claim]]\ntext = "long"\nwhere = {{ attack = "kkt" }}\n'
    text += "values = {{ n_good = 1 }}\n"
    for count, status in ((100, 0), (99, 1)):
        (tmp_path / "claims.toml").write_text(text.format(count))
        words = ("--results-dir", tmp_path, "--rerun-dir", tmp_path / "again", "--device", "cpu")
        ended = bench("verify", "--rerun", "quick", *words)
        assert ended.status == status
        assert f"{1 - status} holds, {status} does not hold" in ended.out
        assert ("1 run made\n" if status == 0 else "0 runs made; 1 more run stored in ") in ended.out
    ended = bench("verify", "--rerun", "all", *words)
    assert "not comparable: long: cannot be run again: it names no attack and victim" in ended.out


def test_a_mean_over_trainings_and_seeds_is_measured_again_with_all_of_them(tmp_path: Path) -> None:
    where = {"attack": "glm", "victim": "cancer-logistic"}
    stated = [claim(where=where, victim_seeds="0-2", seeds="0,4")]
    _, runs = remeasured(stated, "all", tmp_path, registry.attacks(), registry.victims())
    assert sorted((run.victim.retraining, run.seed) for run in runs) == [(k, s) for k in range(3) for s in (0, 4)]


def test_a_claim_on_a_run_is_measured_again_whatever_its_id_was(record: Make, tmp_path: Path) -> None:
    params = json.dumps(registry.attacks().items["kkt-span"].Params(steps=7).model_dump(mode="json") | {"gone": None})
    told = {"attack": "kkt-span", "params_json": params, "wall_s": 20.0, "train_s": 2.0, "n": 4}
    rows = [
        record(run_id="old", victim="faces-mlp-20", victim_seed=2, seed=3, **told),
        record(run_id="long", victim="faces-mlp-100", **(told | {"wall_s": 500.0})),
        record(run_id="data", victim="cifar-mlp-50", **told),
        record(run_id="lost", victim="no-such-victim", **told),
    ]
    write_tables(tmp_path, rows)
    stated = [claim(table="runs.csv", where={"run_id": row.run_id}) for row in rows]
    known = registry.attacks(), registry.victims()

    (quick,), (run,) = remeasured(stated, "quick", tmp_path, *known)
    assert (run.title, run.victim.name, run.params.steps) == ("kkt-span on faces-mlp-20@2 seed 3", run.victim.name, 7)
    write_tables(tmp_path, [rows[0].model_copy(update={"run_id": "new", "params_hash": run.params_hash, "n_good": 3})])
    assert verify([quick], tmp_path)[0].outcome is ClaimOutcome.HOLDS

    kept, runs = remeasured(stated, "all", tmp_path, *known)
    assert len(runs) == 3
    assert next(one.unsupported for one in kept if one.unsupported).startswith("cannot be run again: no victim")


def test_of_rows_of_several_versions_a_claim_means_the_highest(record: Make, tmp_path: Path) -> None:
    """As in the folder of --rerun after the version of an attack was raised."""
    write_tables(tmp_path, [record(n_good=1), record(run_id="new", attack_version=2)])
    old, new, either = (claim(table="runs.csv", where={"attack": "kkt", **more}) for more in (
        {"attack_version": 1}, {"attack_version": 2}, {},
    ))  # fmt: skip
    outcomes = [finding.outcome for finding in verify([old, new, either], tmp_path)]
    assert outcomes == [ClaimOutcome.FAILS, ClaimOutcome.HOLDS, ClaimOutcome.HOLDS]


def test_folders_that_are_not_there_or_cannot_be_written_are_one_line(
    bench: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "claims.toml").write_text(
        '[[claim]]\ntext = "a"\nwhere = { attack = "glm", victim = "cancer-logistic" }\nvalues = { n = 1 }'
    )
    absent = bench("verify", "--results-dir", tmp_path / "absent", "--claims", tmp_path / "claims.toml")
    assert (absent.status, absent.err.count("\n")) == (2, 1) and "there is no results folder" in absent.err
    words = ("--rerun", "all", "--rerun-dir", tmp_path / "claims.toml", "--device", "cpu")
    taken = bench("verify", "--results-dir", tmp_path, *words)
    assert taken.status == 2 and "choose another folder with --rerun-dir" in taken.err
    same = bench("verify", "--results-dir", tmp_path, "--rerun", "all", "--rerun-dir", tmp_path / "x" / "..")
    assert same.status == 2 and "holds the stored runs themselves" in same.err
    none = bench("verify", "--results-dir", tmp_path, "--rerun", "quick")
    assert none.status == 2 and "nothing is run again" in none.err


@pytest.mark.parametrize(
    ("cells", "outcome", "why"),
    [
        ("attack,n_good,status\nkkt,3,error\n", ClaimOutcome.UNKNOWN, "its run ended as error (attack kkt)"),
        ("attack,n_good,failed\nkkt,3,1\n", ClaimOutcome.HOLDS, ""),
    ],
)
def test_a_table_of_somebody_s_own_has_what_columns_it_has(
    tmp_path: Path, cells: str, outcome: ClaimOutcome, why: str
) -> None:
    (tmp_path / "own.csv").write_text(cells)
    (found,) = verify([claim(table="own.csv", theirs={"mse_mean": 0.5})], tmp_path)
    assert (found.outcome, found.why) == (outcome, why)
    assert found.beside == ("" if why else "mse_mean: paper 0.5, here –")


def test_a_run_that_failed_is_not_compared(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(status="error", reason="cifar10.npz is not there", n_good=None)])
    (of_run,) = verify([claim(table="runs.csv")], tmp_path)
    assert (of_run.outcome, of_run.why) == (
        ClaimOutcome.UNKNOWN, "its run ended as error: cifar10.npz is not there (attack kkt)",
    )  # fmt: skip
    assert verify([claim()], tmp_path)[0].why == "1 of its 1 runs failed (attack kkt)"
