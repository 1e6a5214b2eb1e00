"""`verify`: a number that is changed by hand, in a README or in a table, turns it red; what no row tells does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.rerun import runs_of
from bench.plan import registry
from bench.publish.claims import Claim, Finding, Outcome, read_claims, verify
from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord
from victims.errors import UserError

ROOT = Path(__file__).parents[4]
Make = Callable[..., RunRecord]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what `verify` reads of this repository."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copy(ROOT / "README.md", root)
    shutil.copytree(ROOT / "results", root / "results", ignore=shutil.ignore_patterns("*.png", "*.html", "runs"))
    return root


def found(root: Path) -> list[Finding]:
    return verify(read_claims(root / "results" / "claims.toml"), root / "results", root)


def failures(root: Path) -> list[Finding]:
    return [finding for finding in found(root) if finding.outcome is Outcome.FAILS]


def changed(path: Path, old: str, new: str) -> Callable[[], int]:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return lambda: path.write_text(text)


def test_the_stored_tables_support_every_sentence(published: Path) -> None:
    assert failures(published) == []
    assert sum(finding.outcome is Outcome.HOLDS for finding in found(published)) >= 90
    assert all(finding.why for finding in found(published) if finding.outcome is Outcome.UNKNOWN)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("README.md", "412 of the 500 are good", "413 of the 500 are good", "no such words any more"),
        (
            "README.md",
            "| 100 of 100 patients, each the one unknown record of a logistic regression | 2 |",
            "| 100 of 100 patients, each the one unknown record of a logistic regression | 3 |",
            "no such wor",
        ),
        ("README.md", "## Attacks\n", "## Attacks\n\nThe best gets 77 of 80 images.\n", "the figure 77 has no entry"),
        ("results/README.md", "(null 5)", "(null 4)", "no such words any more"),
        ("results/claims.toml", "n_good = 412", "n_good = 411", "n_good is 412 and not 411"),
        ("results/runs.csv", ",412,398,398,405,", ",409,398,398,405,", "n_good is 409 and not 412"),
        ("results/studies/decay/decay.csv", ",65,64,6,", ",66,64,6,", "n_good is 66 and not 65"),
    ],
)
def test_a_number_changed_by_hand_turns_it_red(published: Path, name: str, old: str, new: str, words: str) -> None:
    restore = changed(published / name, old, new)
    try:
        assert any(words in finding.why for finding in failures(published))
    finally:
        restore()


def test_the_verb_says_so_and_exits_with_1(bench: Callable[..., Any], tmp_path: Path) -> None:
    good = bench("verify", "--results-dir", ROOT / "results")
    assert (good.status, good.err) == (0, "")
    assert "0 does not hold" in good.out.splitlines()[-1]

    shutil.copy(ROOT / "results" / "runs.csv", tmp_path)
    text = (ROOT / "results" / "claims.toml").read_text().replace("n_good = 412", "n_good = 500")
    (tmp_path / "claims.toml").write_text(text)
    bad = bench("verify", "--results-dir", tmp_path)
    assert bad.status == 1
    assert "n_good is 412 and not 500" in bad.err


def test_a_document_that_is_not_there_is_one_line(published: Path) -> None:
    with pytest.raises(UserError, match=r"REDME.md: No such file or directory; change `file`"):
        verify([claim(file="REDME.md")], published / "results", published)


def claim(**changes: Any) -> Claim:
    return Claim.model_validate({"text": "kkt gets 3", "where": {"attack": "kkt"}, "values": {"n_good": 3}} | changes)


@pytest.mark.parametrize(
    ("changes", "outcome", "why"),
    [
        ({}, Outcome.HOLDS, ""),
        ({"values": {"n_good": 4}}, Outcome.FAILS, "n_good is 3 and not 4 (attack kkt)"),
        ({"values": {"n_good": 4}, "tolerance": 1}, Outcome.HOLDS, ""),
        ({"values": {"ssim_mean": 0.12}, "digits": 2}, Outcome.HOLDS, ""),
        ({"values": {"ssim_mean": 0.13}, "digits": 2}, Outcome.FAILS, "ssim_mean is 0.123457 and not 0.13"),
        ({"values": {"kl_mean": 1}}, Outcome.UNKNOWN, "the row of attack kkt lacks kl_mean"),
        ({"values": {"kl_mean": 1, "n_good": 9}}, Outcome.FAILS, "n_good is 3"),
        ({"where": {"attack": "other"}}, Outcome.UNKNOWN, "no stored row of attack other"),
        ({"where": {"param.steps": 300}}, Outcome.HOLDS, ""),
        ({"where": {"victim": "faces-mlp-4"}}, Outcome.HOLDS, ""),  # of two rows that of default parameters
        ({"where": {"dataset": "faces", "tuned_by": "user"}, "values": {"n_good": 1}}, Outcome.HOLDS, ""),
        ({"table": "studies/absent.csv"}, Outcome.UNKNOWN, "there is no table studies/absent.csv"),
        ({"unsupported": "nobody ran it"}, Outcome.UNKNOWN, "nobody ran it"),
    ],
)
def test_a_claim_holds_or_does_not_or_cannot_be_compared(
    record: Make, tmp_path: Path, changes: dict[str, Any], outcome: Outcome, why: str
) -> None:
    tuned = record(attack="span", tuned_by="user", params_json='{"steps": 30}', params_hash="b", n_good=1)
    write_tables(tmp_path, [record(params_json='{"steps": 300}'), tuned])
    (finding,) = verify([claim(**changes)], tmp_path)

    assert finding.outcome is outcome
    assert why in finding.why and bool(why) == bool(finding.why)


def test_what_a_paper_has_stands_beside_and_decides_nothing(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record()])
    (finding,) = verify([claim(source="Haim et al. 2022", theirs={"n_good": 90})], tmp_path)

    assert (finding.outcome, finding.beside) == (Outcome.HOLDS, "n_good: paper 90, here 3")


def test_two_rows_that_a_claim_may_mean_are_not_compared(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(), record(victim="faces-mlp-8")])
    (finding,) = verify([claim()], tmp_path)

    assert (finding.outcome, finding.why) == (Outcome.UNKNOWN, "2 stored rows of attack kkt")


def test_a_claim_is_measured_again(bench: Callable[..., Any], tmp_path: Path) -> None:
    text = '[[claim]]\ntext = "glm"\ntier = "quick"\nwhere = {{ attack = "glm", victim = "cancer-logistic" }}\n'
    text += 'values = {{ n_good = {} }}\n\n[[claim]]\ntext = "long"\nwhere = {{ attack = "kkt" }}\n'
    for count, status in ((100, 0), (99, 1)):
        (tmp_path / "claims.toml").write_text(text.format(count))
        words = ("--results-dir", tmp_path, "--rerun-dir", tmp_path / "again", "--device", "cpu")
        ended = bench("verify", "--rerun", "quick", *words)
        assert ended.status == status
        assert f"{1 - status} holds, {status} does not hold" in ended.out
    refused = bench("verify", "--rerun", "all", *words)
    assert refused.status == 2 and "names no attack and victim" in refused.err


def test_a_mean_over_trainings_and_seeds_is_measured_again_with_all_of_them() -> None:
    where = {"attack": "glm", "victim": "cancer-logistic"}
    runs = runs_of([claim(where=where, victim_seeds="0-2", seeds="0,4")], registry.attacks(), registry.victims())
    assert sorted((run.victim.retraining, run.seed) for run in runs) == [(k, s) for k in range(3) for s in (0, 4)]


@pytest.mark.parametrize(
    ("text", "words"),
    [("[[claim]\n", "is no TOML"), ("[[claim]]\ntext = 1\n", "claim.0.text"), ("[[claim]]\ntxt = 'a'\n", "claim.0")],
)
def test_a_file_that_is_no_list_of_claims_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "claims.toml").write_text(text)
    with pytest.raises(UserError, match=words):
        read_claims(tmp_path / "claims.toml")
