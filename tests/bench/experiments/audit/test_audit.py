"""The verb `audit`, on a model of which it is known what each attack gets."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from owners.ordinary import N

from bench.experiments import audit
from bench.experiments.audit.model import Audit, AuditOutcome

Audited = Callable[..., Any]
KNOWN = 20
"""Training images that the attack `leak` of the model's file returns."""
SCHEMA = Path(audit.__file__).parent / "audit.schema.json"


def calls() -> int:
    """How often an attack of the model's file has run."""
    plugins = (module for name, module in sys.modules.items() if name.startswith("bench_plugin_"))
    return sum(getattr(module, "ENDS", {}).get("calls", 0) for module in plugins)


@pytest.fixture(scope="session")
def found(done: Any) -> Audit:
    return Audit.model_validate_json((done.folder / "audit.json").read_text())


def test_the_verdict_is_what_the_attacks_got(found: Audit) -> None:
    by_threat = {finding.threat: finding for finding in found.threats}
    weights = by_threat["the weights alone"]

    assert (weights.outcome, weights.attack, weights.found) == (AuditOutcome.FOUND, "leak", KNOWN)
    assert weights.null is not None
    assert weights.null < KNOWN / 2
    assert weights.ruled_out == {"sceptic": "it has 2 hidden layers"}
    assert by_threat["query access"].outcome is AuditOutcome.NOTHING
    assert by_threat["query access"].tried == ["blind"]
    assert by_threat["the weights and the start of the training"].outcome is AuditOutcome.NOT_TESTED
    assert found.headline == (
        f"{KNOWN} of {N} training images can be reconstructed by somebody who has the weights alone, "
        f"where chance gets {weights.null}."
    )
    assert found.verdict[0].startswith(f"Somebody who has the weights alone can reconstruct {KNOWN} of {N}")
    assert (found.records_given, found.records_trained, found.held_out) == (N, N, 30)
    assert not any(attempt.attack == "sceptic" and attempt.status for attempt in found.attempts)


def test_every_record_has_the_attacks_that_got_it(found: Audit, done: Any) -> None:
    table = pd.read_csv(done.folder / "records.csv", keep_default_na=False)
    half = next(attempt for attempt in found.attempts if attempt.attack == "half")

    assert list(table["index"]) == list(range(N))
    leaked = [
        index for index, attacks in zip(table["index"], table["attacks"], strict=True) if "leak" in attacks.split()
    ]
    assert leaked == list(range(KNOWN))
    assert (table["best_score"][:KNOWN] > table["best_score"][KNOWN:].max()).all()
    assert found.hit == (table["attacks"] != "").sum() == KNOWN
    assert sum(group.hit for group in found.by_class) == sum(group.hit for group in found.by_margin) == found.hit
    assert sum(group.records for group in found.by_margin) == N
    assert sum(overlap.records for overlap in found.overlaps) == found.hit
    if half.beyond_chance:
        both = next(overlap for overlap in found.overlaps if set(overlap.attacks) == {"leak", "half"})
        assert both.records >= KNOWN // 2
    smallest = found.by_margin[0]
    assert smallest.records == (table["margin"].rank() <= N / 4).sum()
    ordered = table.sort_values("margin").head(smallest.records)
    assert smallest.hit == (ordered["attacks"] != "").sum()


def test_the_exposure_is_told_before_any_attack(done: Any) -> None:
    assert done.out.index("directions that stand out") < done.out.index("leak on mine")
    assert "sceptic cannot work: it has 2 hidden layers" in done.out


def test_it_goes_on_where_it_was_and_a_pipeline_can_fail_on_it(audited: Audited, done: Any, results: Path) -> None:
    """A page that was not written, and a run that was not made, are made; what is stored is not attacked again."""
    shutil.copytree(done.results, results)
    folder, before = results / "audits" / "mine", calls()
    (folder / "audit.html").unlink()
    shutil.rmtree(next((folder / "runs").glob("half-*")))

    assert audited("--fail-above", KNOWN - 1).status == 1
    assert calls() == before + 1
    assert (folder / "audit.html").exists()
    again = Audit.model_validate_json((folder / "audit.json").read_text())
    assert again.hit == KNOWN
    assert audited("--fail-above", KNOWN).status == 0
    assert calls() == before + 1


def test_the_audit_of_another_model_of_the_name_is_not_written_over(audited: Audited, done: Any, results: Path) -> None:
    shutil.copytree(done.results, results)
    path, before = results / "audits" / "mine" / "audit.json", calls()
    theirs = json.dumps(json.loads(path.read_text()) | {"weights_sha256": "f" * 64})
    path.write_text(theirs)

    ended = audited()
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "is the audit of other weights of the name mine; choose another --results-dir" in ended.err
    assert (path.read_text(), calls()) == (theirs, before)


def test_the_schema_is_shipped_and_explains_every_field() -> None:
    schema = Audit.model_json_schema()
    assert json.loads(SCHEMA.read_text()) == schema
    for definition in (schema, *schema["$defs"].values()):
        for name, field in definition.get("properties", {}).items():
            assert field.get("description"), name


def test_images_of_another_normalisation_stop_it(audited: Audited, model: Path, tmp_path: Path) -> None:
    home = f"HERE = Path({str(model.parent)!r})"
    text = model.read_text().replace("HERE = Path(__file__).parent", home).replace("mean=0.5", "mean=500.0")
    (tmp_path / "shifted.py").write_text(text)
    ended = audited(file=tmp_path / "shifted.py")

    assert ended.status == 2
    assert "are mean and std those of its training" in ended.err
    assert ended.err.count("\n") == 1


BAD = {
    "no model": (lambda text: text[: text.index("VICTIMS")], (), "describes no model of your own"),
    "no Python": (lambda text: "this is no Python", (), "does not import: SyntaxError"),
    "another model": (lambda text: text, ("-v", "yours"), "has no model 'yours'; there are: mine"),
    "no time": (lambda text: text, ("--budget", "500steps"), "takes a time, such as 20m"),
    "a download": (
        lambda text: text.replace(
            "return nn.Sequential", "raise ConnectionError('no network')\n    return nn.Sequential"
        ),
        (),
        "build the module without loading anything",
    ),
}


@pytest.mark.parametrize(("change", "words", "told"), BAD.values(), ids=BAD)
def test_a_mistake_is_one_line(
    audited: Audited, model: Path, tmp_path: Path, change: Callable[[str], str], words: tuple[str, ...], told: str
) -> None:
    home = f"HERE = Path({str(model.parent)!r})"
    (tmp_path / "bad.py").write_text(change(model.read_text().replace("HERE = Path(__file__).parent", home)))
    ended = audited(*words, file=tmp_path / "bad.py")

    assert ended.status == 2
    assert told in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err


def test_a_folder_that_cannot_be_written_is_told(audited: Audited, results: Path) -> None:
    results.write_text("this is a file")
    ended = audited()
    assert ended.status == 2
    assert "choose another folder with --results-dir" in ended.err


def test_a_defended_release_is_audited_under_its_name(audited: Audited, results: Path, done: Any, found: Audit) -> None:
    ended = audited("--defence", "round=int8")
    assert (ended.status, ended.err) == (0, "")
    rounded = Audit.model_validate_json((results / "audits" / "mine+round=int8" / "audit.json").read_text())

    assert (rounded.name, found.name) == ("mine+round=int8", "mine")
    assert rounded.weights_sha256 != found.weights_sha256
    assert "-v mine+round=int8" in rounded.command  # which names the defence to whoever repeats it
    assert f"--results-dir {results}" in rounded.command
    assert "--device cpu" in rounded.command
    assert audited("-v", "mine+noise").err == (
        "bench: the defence 'noise': its strength is missing; write for instance noise=1e-3\n"
    )
