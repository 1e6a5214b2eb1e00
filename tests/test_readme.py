"""What READMEs and findings say exists: links, flags, verbs, attacks, victims, files; and they are short enough."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from bench.cli import executing, making, reading, verifying  # noqa: F401 where the verbs join
from bench.cli.app import app
from bench.plan import registry

ROOT = Path(__file__).parent.parent
FOLDERS = ("attacks", "victims", "bench", "results", "tests")
FINDINGS = sorted((ROOT / "results" / "findings").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *(ROOT / folder / "README.md" for folder in FOLDERS), ROOT / ".github/CONTRIBUTING.md"]
DOCUMENTS += FINDINGS
ELSEWHERE = {"--check", "--accept", "--shown-by", "--write"}
"""Flags of other programs: of `ruff format` and of `.ci/versions.py`."""
ELSEWHERE |= {"--array", "--nodes", "--ntasks-per-node", "--cpus-per-task", "--gpus-per-node"}
ELSEWHERE |= {"--address", "--min-nodes", "--num-cpus", "--num-gpus"}
"""Of Slurm and of `ray symmetric-run`."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def verbs() -> dict[str, Any]:
    """The verbs of the command line."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def options(verb: Any) -> dict[str, Any]:
    """The parameters of a verb by their flags."""
    return {flag: parameter for parameter in verb.params for flag in getattr(parameter, "opts", ()) if flag[0] == "-"}


def blocks(document: Path) -> Iterator[str]:
    """The contents of the shell blocks, a command a line."""
    for language, content in FENCE.findall(document.read_text()):
        if language == "bash":
            yield content.replace("\\\n", " ")


def commands(document: Path) -> Iterator[list[str]]:
    """The words behind `python -m bench` of every command in a shell block."""
    for block in blocks(document):
        for line in block.splitlines():
            for part in line.split("&&"):
                words = shlex.split(part)
                if words[1:3] == ["-m", "bench"] and words[0].endswith("python"):
                    yield words[3:]


def inline_commands(document: Path) -> Iterator[list[str]]:
    """The words behind `python -m bench`, or from the verb on, of commands that stand in a line of text."""
    for code in re.findall(r"`([^`]+)`", FENCE.sub("", document.read_text())):
        words = code.replace("\n", " ").split()
        if words[:3] == ["python", "-m", "bench"]:
            yield words[3:]


def rows(document: Path) -> Iterator[list[str]]:
    """The words of the runs that rows of a table name: attack, network and trainings in the last cells."""
    cells = re.compile(r"\| `([^`]+)` \| `([^`]+)`, ([\d,-]+) \|$", re.MULTILINE)
    for attack, victim, seeds in cells.findall(document.read_text()):
        yield ["run", "-a", *attack.split(), "-v", victim, "--victim-seeds", seeds]


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_results_of_the_readme_are_rows_that_can_be_run() -> None:
    table = (ROOT / "README.md").read_text().partition("## Results")[2].partition("\n\n**")[0]
    assert len(list(rows(ROOT / "README.md"))) == table.count("\n|") - 2 > 0


@pytest.mark.parametrize(("name", "most"), [("README.md", 150), ("results/README.md", 160)])
def test_the_readme_is_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= most


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_is_short_and_begins_with_its_question_which_the_list_of_findings_has(finding: Path) -> None:
    heading, question = finding.read_text().split("\n\n")[:2]
    assert len(finding.read_text().splitlines()) <= 300
    row = f"| [{heading.removeprefix('# ')}](findings/{finding.name}) | {' '.join(question.split())} |"
    assert row in (ROOT / "results" / "README.md").read_text().splitlines()


def test_every_picture_of_the_results_is_shown() -> None:
    shown = {
        (document.parent / place).resolve()
        for document in DOCUMENTS
        for place in re.findall(r"\]\(([^)]+\.png)\)", document.read_text())
    }
    assert {*(ROOT / "results").glob("*.png")} - shown == set()


@every_document
def test_lines_of_text_are_short(document: Path) -> None:
    text = FENCE.sub("", document.read_text())
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", document.read_text()))
    for link in links:
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@every_document
def test_flags_are_those_of_a_verb(document: Path) -> None:
    known = {flag for verb in verbs().values() for flag in options(verb)} | {"--help"} | ELSEWHERE
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", document.read_text()))
    assert named - known == set()


@every_document
def test_commands_have_their_verb_and_its_flags(document: Path) -> None:
    known = verbs()
    for words in [*commands(document), *inline_commands(document)]:
        verb = words[0] if words else ""
        if not verb or verb == "VERB":
            continue
        assert verb in known, words
        flags = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
        assert flags - options(known[verb]).keys() - {"--help"} == set(), words


@every_document
def test_commands_name_attacks_and_victims_that_there_are(document: Path) -> None:
    attacks, victims = registry.attacks(), registry.victims()
    for words in [*commands(document), *inline_commands(document), *rows(document)]:
        if "--plugin-dir" in words or words[:1] == ["new"] or "ATTACK" in words:
            continue
        for flag, value in pairwise(words):
            if flag in ("-a", "--attack") and value != "mine":
                assert attacks.match([value]), words
            if flag in ("-v", "--victim"):
                assert victims.match([value.strip("'")]), words


@every_document
def test_runs_can_be_planned(document: Path, bench: Callable[..., Any], tmp_path: Path) -> None:
    """Every `run` of a document, with its parameters: it is planned, not executed."""
    for words in [*commands(document), *inline_commands(document), *rows(document)]:
        if words[:1] != ["run"] or {"--plugin-dir", "--executor", "mine", "X", "ATTACK"} & {*words}:
            continue
        given = [str(tmp_path) if word == "DIR" else word.strip("'") for word in words]
        ended = bench(*given, "--dry-run", "--device", "cpu", "--results-dir", tmp_path / "results")
        assert (ended.status, ended.err) == (0, ""), words


@every_document
def test_files_that_are_named_exist(document: Path) -> None:
    text = FENCE.sub("", document.read_text())
    named = re.findall(r"`((?:attacks|bench|victims|tests|results|\.ci)/[\w./-]*)`", text)
    generated = ("results/runs/", "results/tune/", "results/studies/NAME/")
    assert [path for path in named if not (ROOT / path).exists() and not path.startswith(generated)] == []


@pytest.mark.parametrize("document", DOCUMENTS[:2], ids=["README.md", "attacks/README.md"])
def test_every_attack_is_in_the_table(document: Path) -> None:
    rows = {cell for line in document.read_text().splitlines() for cell in re.findall(r"^\| `([\w-]+)` \|", line)}
    assert registry.attacks().items.keys() - rows == set()


def test_every_attack_needs_what_the_table_says() -> None:
    table = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", (ROOT / "attacks" / "README.md").read_text(), re.MULTILINE)
    for name, attack in registry.attacks().items.items():
        assert dict(table)[name] == ", ".join(sorted(attack.needs))


@pytest.mark.parametrize(
    ("document", "kind"), [("attacks", "attack"), ("victims", "victim"), ("victims", "model")], ids=str
)
def test_the_examples_are_what_new_writes(bench: Any, tmp_path: Path, document: str, kind: str) -> None:
    text = (ROOT / document / "README.md").read_text()
    (name,) = set(re.findall(rf"bench new {kind} (\w+)`", text))
    assert bench("new", kind, name, "--folder", tmp_path).status == 0
    assert (tmp_path / f"{name}.py").read_text() in text


def test_the_block_of_compare_is_what_compare_prints_of_an_attack_that_gets_nothing(bench: Any, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    ((old, shown),) = re.findall(
        r"bench compare (\S+) mine/leaderboard.csv\n```\n\n.*\n\n```\n(.*?)```", text, re.DOTALL
    )
    rows = pd.read_csv(ROOT / "results" / "runs.csv", dtype=str, keep_default_na=False)
    row = rows[rows.run_id.str.fullmatch("kkt-span-photos-mlp-100-c10-wd1e-4-s0-.*") & (rows.variant == "")]
    none = {"n_good": "0", "n_good_unique": "0", "good_images": "0" * 25, "one_to_one_images": "0" * 25}
    row.assign(attack="mine", control="False", **none).to_csv(tmp_path / "runs.csv", index=False)
    ended = bench("compare", ROOT / old, tmp_path / "runs.csv")
    assert ended.out.splitlines()[: len(shown.splitlines())] == shown.splitlines()
