"""A plan file in sections: what is left of each, how long it takes, and that runs, studies and searches are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.experiments.forecast import Forecast, forecast
from bench.plan import registry
from bench.plan.config import planned, read_plan
from bench.plan.run import Run
from bench.publish.runs_table import current, read_runs
from bench.run.setup import Setup
from bench.run.steps import Step
from bench.run.todo import Todo
from victims.files import sha256_json
from victims.informed.spec import AnySpec
from victims.recipes.released import Released

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results" / "plan.toml"
Bench = Callable[..., Any]
PLAN = """
[[plan]]
section = "one"
attack = ["tiny"]
victim = ["faces-mlp-4-tiny"]
seeds = "0-1"
victim_seeds = "0-1"

[[plan]]
section = "two"
attack = ["first-layer"]
victim = ["faces-mlp-4-tiny"]

[[study]]
section = "read"
study = ["tiny-study"]
"""
STUDY = """
from attacks.studies.base import Cell, Study

CELL = Cell({"which": "only"}, "first-layer", "faces-mlp-4-tiny")
OTHER = Cell({"which": "other"}, "random", "faces-mlp-4-tiny")
STUDIES = (Study("tiny-study", "two cells", "nobody's", cells=(CELL, OTHER), smoke=(CELL,)),)
"""


@pytest.fixture
def run_plan(bench: Bench, plugins: Path, results: Path, tmp_path: Path) -> Bench:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "tiny.py").write_bytes((plugins / "tiny.py").read_bytes())
    (folder / "study.py").write_text(STUDY)
    (tmp_path / "plan.toml").write_text(PLAN)

    def call(*args: object) -> Any:
        words = ("--plugin-dir", folder, "--results-dir", results, "--controls", "quick", "--device", "cpu")
        return bench("run", "--config", tmp_path / "plan.toml", *args, *words)

    return call


def test_a_section_is_made_alone(run_plan: Bench, results: Path) -> None:
    ended = run_plan("--only", "two")
    assert (ended.status, ended.err) == (0, "")
    assert pd.read_csv(results / "runs.csv")["attack"].tolist() == ["first-layer"]
    assert "one:" not in ended.out and "two: 1 run to make, 0 stored" in ended.out
    assert not (results / "studies").exists()


def test_the_whole_plan_is_made_and_goes_on_where_it_was(run_plan: Bench, results: Path) -> None:
    run_plan("--only", "one")
    ended = run_plan()
    assert (ended.status, ended.err) == (0, "")
    assert "one: 0 runs to make, 4 stored" in ended.out
    rows = pd.read_csv(results / "runs.csv")
    assert sorted(rows["attack"]) == ["first-layer"] + ["tiny"] * 4
    assert sorted(rows.loc[rows["attack"] == "tiny", "victim_seed"]) == [0, 0, 1, 1]
    assert (results / "studies" / "tiny-study" / "tiny-study.csv").exists()
    again = run_plan("--dry-run")
    assert "read: study tiny-study, 2 runs, 2 in its table, which took" in again.out


def test_a_dry_run_says_how_long_and_does_nothing(run_plan: Bench, results: Path) -> None:
    ended = run_plan("--dry-run")
    assert "one: 4 runs to make, 0 stored; no stored run tells how long" in ended.out
    assert "read: study tiny-study, 2 runs" in ended.out
    assert not results.exists()
    run_plan("--only", "one", "--seeds", "0")
    ended = run_plan("--dry-run", "--only", "one")
    assert "one: 2 runs to make, 2 stored; about" in ended.out


def test_what_is_shown_from_the_store_runs_no_study(run_plan: Bench, results: Path) -> None:
    ended = run_plan("--only-cached")
    assert ended.status == 0 and "5 runs of 5 not stored" in ended.out
    assert not (results / "studies").exists()


def test_the_small_version_makes_the_studies_few_cells_and_no_search(run_plan: Bench, results: Path) -> None:
    ended = run_plan("--smoke", "--only", "read")
    assert (ended.status, ended.err) == (0, "")
    assert "read: study tiny-study, 1 run" in ended.out
    (folder,) = (results / "studies").iterdir()
    assert folder.name == "tiny-study-smoke"
    assert len(pd.read_csv(folder / "tiny-study.csv")) == 1

    assert read_plan(PUBLISHED, smoke=False).tune and not read_plan(PUBLISHED, smoke=True).tune


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--only", "three"], "the plan has no such section; there are: one, two, read"),
        (["--only", ""], "the plan has no such section"),
    ],
)
def test_a_section_that_is_not_there_is_one_line(run_plan: Bench, words: list[str], reason: str) -> None:
    ended = run_plan(*words)
    assert ended.status == 2 and reason in ended.err and ended.err.count("\n") == 1


def test_a_small_version_whose_parameters_are_none_is_one_line(bench: Bench, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[plan]]\nattack = ["kkt"]\nvictim = ["faces-mlp-20"]\nsmoke = { set = 3 }\n')
    ended = bench("run", "--config", plan, "--smoke", "--dry-run")
    assert ended.status == 2 and "plan.toml: table 1 of [[plan]]: smoke.set: Input should be a valid table" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ('attack = ["kt"]\nvictim = ["faces-mlp-20"]', "no attack is called 'kt'"),
        ('attack = ["kkt"]\nvictim = ["faces-mlp"]', "no victim is called 'faces-mlp'"),
        ('attack = ["kkt"]\nvictim = ["faces-mlp-20"]\nvariant = "huge"', "kkt has no variant 'huge'"),
        ('attack = ["kkt"]\nvictim = ["faces-mlp-20"]\nset = { stepz = 3 }', "kkt has no such parameter"),
        ('attack = ["random"]\nvictim = ["faces-mlp-20"]', "there is nothing to search"),
    ],
)
def test_a_search_that_cannot_be_made_is_told_before_the_runs(
    run_plan: Bench, tmp_path: Path, results: Path, search: str, reason: str
) -> None:
    (tmp_path / "plan.toml").write_text(f"{PLAN}\n[[tune]]\n{search}\n")
    ended = run_plan()
    assert ended.status == 2 and reason in ended.err and "Traceback" not in ended.err
    assert not list((results / "runs").glob("*"))


def test_a_search_of_an_attack_that_declines_the_victim_stops_no_plan(run_plan: Bench, tmp_path: Path) -> None:
    search = '[[tune]]\nattack = ["glm"]\nvictim = ["faces-mlp-20"]\n'  # it has no ranges, and is for other victims
    (tmp_path / "plan.toml").write_text(PLAN + search)
    assert run_plan("--dry-run").status == 0
    (tmp_path / "plan.toml").write_text(search)
    ended = run_plan("--smoke")
    assert ended.status == 2 and "has no small version" in ended.err


def test_studies_are_meant_by_globs_and_made_once(run_plan: Bench, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[[study]]\nsection = "read"\nstudy = ["tiny-*", "tiny-study"]\n')
    ended = run_plan("--dry-run")
    assert ended.status == 0 and ended.out.count("study tiny-study") == 1


def test_only_is_of_a_file(bench: Bench) -> None:
    ended = bench("run", "--only", "one")
    assert ended.status == 2 and "--only is of the plan of a file; name one with --config" in ended.err


def test_the_published_plan_can_be_planned() -> None:
    plan = read_plan(PUBLISHED, smoke=False)
    attacks, victims = registry.attacks(), registry.victims()
    for name in plan.sections:
        assert name, "every table of the published plan is of a section"
        for section in plan.only([name]).plan:
            assert planned([section], attacks, victims, budget=None)  # type: ignore[arg-type]
    for table in plan.study:
        assert registry.studies().match(table.study)
    for search in plan.tune:
        assert all(kind.search_spaces for kind in attacks.match(search.attack)) and victims.match(search.victim)


def test_all_that_is_published_is_in_the_plan() -> None:
    plan = read_plan(PUBLISHED, smoke=False)
    runs = planned(plan.plan, registry.attacks(), registry.victims(), budget=None)  # type: ignore[arg-type]
    made = {(run.attack.name, run.params.model_dump_json(), run.victim.described.name, run.seed) for run in runs}
    rows = current(read_runs(ROOT / "results" / "runs.csv"))
    for row in rows[rows["schema_version"] > 3].to_dict("records"):  # some of schema 3 have parameters that are gone
        params = registry.attacks().items[row["attack"]].Params.model_validate_json(row["params_json"])
        assert (row["attack"], params.model_dump_json(), row["victim"], row["seed"]) in made, row["run_id"]

    studies = {name for table in plan.study for name in table.study}
    assert {path.name for path in (ROOT / "results" / "studies").iterdir() if path.is_dir()} <= studies


# --- how long


NAME = "cifar-mlp-100"


def left(attack: str, *victim_seeds: int, seeds: int = 1, victim: str = NAME) -> list[Todo]:
    kind, spec = registry.attacks().items[attack], registry.victims().items[victim]
    runs = [Run(kind, kind.Params(), "", "default", spec.retrained(k), s) for k in victim_seeds for s in range(seeds)]
    return [Todo(run, "id", None, Step.ATTACK) for run in runs]


def times(*rows: tuple[str, str, str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["attack", "params_hash", "victim", "wall_s", "train_s"])


def untrained(spec: AnySpec) -> bool:
    return False


def setup(twins: bool) -> Setup:
    return Setup(Path(), None, None, "cpu", twins)


KKT = sha256_json(registry.attacks().items["kkt"].Params().model_dump(mode="json"))[:10]


@pytest.mark.parametrize(
    ("entries", "twins", "seconds"),
    [
        (left("kkt", 0), False, 10 + 100),
        (left("kkt", 0, seeds=3), False, 3 * 10 + 100),  # trained once
        (left("kkt", 0, 1), False, 2 * 10 + 2 * 100),  # and once for each retraining
        (left("kkt", 0), True, 3 * 10 + 2 * 100),  # two twins are attacked, one is trained
        (left("kkt", 0, seeds=3), True, (3 + 2) * 10 + 2 * 100),  # once for all seeds
        (left("kkt", 0) * 0, True, 0),
    ],
)
def test_the_time_is_that_of_all_attacks_and_trainings(entries: list[Todo], twins: bool, seconds: float) -> None:
    known = times(("kkt", KKT, "cifar-mlp-100", 10, 100), ("kkt", "other", "cifar-mlp-100", 999, 100))
    assert forecast(entries, known, setup(twins), untrained).seconds == seconds


@pytest.mark.parametrize(
    ("trained", "seconds"),
    [({NAME}, 3 * 10 + 100), ({f"{NAME}~disjoint"}, 3 * 10 + 100), ({NAME, f"{NAME}~disjoint"}, 30)],
)
def test_what_the_cache_holds_takes_no_time(trained: set[str], seconds: float) -> None:
    known = times(("kkt", KKT, NAME, 10, 100))
    found = forecast(left("kkt", 0), known, setup(twins=True), lambda spec: spec.name in trained)
    assert found.seconds == seconds


def test_a_network_without_a_known_training_has_no_twin_to_wait_for() -> None:
    """Nor has an attack whose candidate i is for image i: its row has other null controls."""
    (entry,) = left("kkt", 0)
    told: dict[str, Any] = {"weights": "w.safetensors", "mean": (0.0,), "std": (1.0,), "n_trained": 100}
    weights = Released(weights_sha256="", network_sha256="", **told)
    released = Todo(
        replace(entry.run, victim=entry.run.victim.model_copy(update={"training": weights})), "id", None, Step.ATTACK
    )
    aligned = Todo(replace(entry.run, attack=registry.attacks().items["glm"]), "id", None, Step.ATTACK)
    known = times(*((attack, "other", "cifar-mlp-100", 10, 100) for attack in ("kkt", "glm")))

    for one, seconds in ((entry, 3 * 10 + 2 * 100), (released, 10 + 100), (aligned, 10 + 100)):
        assert forecast([one], known, setup(twins=True), untrained).seconds == seconds


def test_other_parameters_tell_where_the_same_do_not_and_nothing_tells_of_other_attacks() -> None:
    entries = [*left("kkt", 0), *left("kkt-general", 0)]
    found = forecast(entries, times(("kkt", "other", "cifar-mlp-100", 20, 0)), setup(twins=False), untrained)
    assert found == Forecast(runs=2, stored=0, seconds=20, unknown=1)
    assert (
        found.text
        == "2 runs to make, 0 stored; about 20 s for 1 of them, by what stored runs took; 1 of unknown length"
    )
