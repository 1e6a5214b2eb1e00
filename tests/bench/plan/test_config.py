"""A plan from a TOML file, and what the command line changes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attacks.context import Budget
from bench.plan import registry
from bench.plan.config import default_plan, planned, read_plan
from bench.plan.run import told_apart

PAPER_SCALE = Path(__file__).parents[2] / "benchmarks" / "paper_scale.toml"
PLAN = """
device = "cpu"

[[plan]]
attack = ["tiny", "raises"]
victim = ["faces-mlp-4-tiny"]
seeds = "0-1"
smoke = { attack = ["tiny"], seeds = "7" }

[[plan]]
attack = ["tiny"]
victim = ["digits-mlp-6-*"]
variant = "many"
set = { count = 5 }
smoke = { set = { count = 2 }, victim = ["digits-mlp-6-tiny"] }
"""
Bench = Callable[..., Any]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def run_file(bench: Bench, plugins: Path, results: Path) -> Callable[..., Any]:
    def call(*args: object) -> Any:
        return bench("run", *args, "--plugin-dir", plugins, "--results-dir", results, "--controls", "quick")

    return call


def rows(results: Path) -> list[tuple[str, str, int, int]]:
    table = pd.read_csv(results / "runs.csv", keep_default_na=False)
    counts = table["params_json"].map(lambda text: json.loads(text)["count"])
    return sorted(zip(table["attack"], table["victim"], table["seed"], counts, strict=True))


def test_every_section_is_run(run_file: Bench, plan: Path, results: Path) -> None:
    ended = run_file("--config", plan)
    assert ended.status == 1  # `raises` does
    faces = [(name, "faces-mlp-4-tiny", seed, 3) for name in ("raises", "tiny") for seed in (0, 1)]
    digits = [("tiny", f"digits-mlp-6-{name}", 0, 5) for name in ("c3", "tiny")]
    assert rows(results) == sorted([*faces, *digits])


def test_the_command_line_changes_every_section(run_file: Bench, plan: Path, results: Path) -> None:
    run_file("--config", plan, "-a", "tiny", "--set", "count=4", "-v", "faces-mlp-4-tiny", "--seeds", "3")
    assert rows(results) == [("tiny", "faces-mlp-4-tiny", 3, 4)]  # the two sections are the same now


def test_smoke_is_the_plans_small_version(run_file: Bench, plan: Path, results: Path) -> None:
    assert run_file("--config", plan, "--smoke").status == 0
    assert rows(results) == [("tiny", "digits-mlp-6-tiny", 0, 2), ("tiny", "faces-mlp-4-tiny", 7, 3)]


def test_runs_that_differ_in_parameters_alone_are_told_apart_by_these(
    bench: Bench, run_file: Bench, plugins: Path, results: Path, tmp_path: Path
) -> None:
    """In what is planned, on the way, at the end, of a failure, of what is stored, and where it is scored again."""
    section = "[[plan]]\nattack = {}\nvictim = {}\nset = {{ count = {} }}\n"
    faces, digits = "faces-mlp-4-tiny", "digits-mlp-6-tiny"
    text = section.format(["tiny", "raises"], [faces, digits], 2) + section.format(["tiny", "raises"], [faces], 5)
    (path := tmp_path / "alike.toml").write_text(text)
    attacks, victims = registry.attacks(plugins), registry.victims(plugins)
    runs = told_apart(planned(read_plan(path, smoke=False).plan, attacks, victims, Budget()))
    alike = [f"{name} count={count} on {faces} seed 0" for count in (2, 5) for name in ("tiny", "raises")]
    alone = [f"{name} on {digits} seed 0" for name in ("tiny", "raises")]
    assert [run.title for run in runs] == [*alike[:2], *alone, *alike[2:]]

    planning = run_file("--config", path, "--dry-run").out
    made, again = (run_file("--config", path).out for _ in range(2))
    scored = bench("score", "--plugin-dir", plugins, "--results-dir", results).out
    for title in (*alike, *alone):
        assert f"{title} " in planning and title in made and f"{title}: " in again
        good = [f"{title}: of " in text for text in (made, again, scored)]
        assert good == [title.startswith("tiny")] * 3
        assert (f"{title}: 0 of " in made) == title.startswith("tiny")  # on the way
        assert (f"{title}: error" in made) == title.startswith("raises")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plan = 3", "plan: Input should be a valid array"),
        ("[[plan]]\nattack = ['tiny']", "table 1 of [[plan]]: victim: Field required"),
        (
            "[[plan]]\nattack = ['tiny']\nvictim = ['x']\nepochs = 3",
            "table 1 of [[plan]]: epochs: there is no such key; there are",
        ),
        (
            "[[plan]]\nattak = ['tiny']\nvictim = ['x']",
            "table 1 of [[plan]]: attak: there is no such key; did you mean attack?",
        ),
        ("[[plann]]\nattack = ['tiny']", "plann: there is no such key; did you mean plan?"),
        (
            "[[plan]]\nattack = ['tiny']\nvictim = ['x']\n[[plan]]\nattack = 'tiny'\nvictim = ['x']",
            'table 2 of [[plan]]: attack: Input should be a valid array; write attack = ["tiny"]',
        ),
        ("[[plan]", "is no TOML: "),
        ("[[plan]]\nattack = ['tiny']\nvictim = ['faces-mlp-4-tinny']", "did you mean faces-mlp-4-tiny"),
        ("[[plan]]\nattack = ['tiny']\nvictim = ['faces-mlp-4-tiny']\nset = {a = 1}", "tiny has no such parameter"),
        (
            "[[plan]]\nsection = 'a'\nattack = ['tiny']\nvictim = ['faces-mlp-4-tiny']\nset = {count = nan}",
            "wrong.toml: section a: set count=nan: ",
        ),
        ("[[tune]]\nattack = ['tiny']\nvictim = ['x']\nset = {count = true}", "wrong.toml: set count=true: "),
        ("[[plan]]\nattack = ['tiny']\nvictim = []", "table 1 of [[plan]]: victim: array should have at least 1 item"),
        ("[[study]]\nstudy = []", "table 1 of [[study]]: study: array should have at least 1 item"),
        ("", "plans nothing: it has no table [[plan]]"),
        (None, "No such file"),
    ],
)
def test_mistakes_are_one_line(run_file: Bench, tmp_path: Path, text: str | None, line: str) -> None:
    path = tmp_path / "wrong.toml"
    if text is not None:
        path.write_text(text)
    ended = run_file("--config", path)
    assert ended.status == 2
    assert line in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_small_version_that_is_none_names_its_table_and_key(run_file: Bench, tmp_path: Path) -> None:
    table = '[[plan]]\nattack = ["tiny"]\nvictim = ["faces-mlp-4-tiny"]\n'
    (tmp_path / "plan.toml").write_text(f"{table}\n{table}smoke = {{ attack = [1] }}\n")
    ended = run_file("--config", tmp_path / "plan.toml", "--smoke")
    assert ended.status == 2
    assert "table 2 of [[plan]]: smoke.attack.0: Input should be a valid string" in ended.err


def test_smoke_without_a_plan_is_one_line(run_file: Bench) -> None:
    assert "--smoke is of the plan of a file" in run_file("--smoke").err


def test_the_paper_scale_plan_is_what_it_says() -> None:
    attacks, victims = registry.attacks(), registry.victims()
    plan = planned(read_plan(PAPER_SCALE, smoke=False).plan, attacks, victims, Budget())
    assert all(run.attack(run.params).supports(run.victim) is None for run in plan)
    told = {(run.attack.name, run.variant, run.victim.name) for run in plan}
    assert {("kkt", variant, "cifar-mlp-500-gd1e6") for variant in ("", "paper")} <= told
    published = [run for run in plan if run.variant == "paper"]
    assert {run.params.steps for run in published} == {50_000}  # type: ignore[attr-defined]
    assert {run.params.dtype for run in published} == {"float64"}  # type: ignore[attr-defined]
    assert max(run.params.shadows for run in plan if run.attack.name == "reconn") >= 10_000  # type: ignore[attr-defined]


def test_the_paper_scale_plan_runs_on_a_cpu(run_file: Bench, results: Path) -> None:
    """Its small version, on a victim that trains in a moment: the binary attacks run, the others decline it."""
    ended = run_file("--config", PAPER_SCALE, "--smoke", "--device", "cpu", "-v", "faces-mlp-4-tiny")
    assert ended.status == 0, ended.err
    table = pd.read_csv(results / "runs.csv", keep_default_na=False)
    ended_as = dict(zip(table["attack"] + ":" + table["variant"], table["status"], strict=True))
    declined = ("kkt-multiclass:", "kkt-multiclass:paper", "reconn:", "reconn-linear:")
    skipped = dict.fromkeys(declined, "skipped")
    assert ended_as == dict.fromkeys(("kkt:", "kkt:paper", "kkt-general:", "kkt-general:paper"), "ok") | skipped


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ((), ["{attack} on {victim}", "{second} on {victim}"]),
        (("--seeds", "1"), ["{attack} on {victim} seed 1", "{second} on {victim} seed 1"]),
        (("-a", "random"), ["random on {victim}"]),
        (("-v", "faces-mlp-100"), ["{attack} on faces-mlp-100"]),
        (("--variant", "rounds"), ["{attack}:rounds on {victim}"]),
        (("--set", "steps=9"), ["{attack} on {victim}"]),
    ],
)
def test_a_command_that_names_nothing_runs_the_default_plan_and_a_name_its_first_table(
    bench: Bench, words: tuple[str, ...], runs: list[str]
) -> None:
    first, second = default_plan().plan
    names = {"attack": first.attack[0], "victim": first.victim[0], "second": f"{second.attack[0]}:{second.variant}"}
    told = bench("run", "--dry-run", "--only-cached", *words).out
    planned = [line for line in told.splitlines() if " on " in line and "│" in line]
    assert [line.startswith(run.format(**names)) for line, run in zip(planned, runs, strict=True)] == [True] * len(runs)
