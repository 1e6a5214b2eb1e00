"""An audit without training images: candidates by the attacks' own confidence, and no word of what they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from owners.files import SIDE
from owners.ordinary import N

from attacks.base import Reconstruction
from bench.check.victim import victim_claims
from bench.experiments.audit import words
from bench.experiments.audit.candidates import MOST, surest
from bench.experiments.audit.findings import threats
from bench.experiments.audit.model import Audit, AuditAttempt, AuditOutcome, Record
from bench.plan import registry
from bench.plan.prospects import Outlook
from bench.store.folders import Store
from bench.store.records import Status

Audited = Callable[..., Any]
GIVEN = 'images=HERE / "images.npz",'
INSTEAD = f"shape=(3, {SIDE}, {SIDE}), n_trained={N},"
OWN = '''

class Sure(Leak):
    """Is surest of its last candidates, which are white."""

    name = "sure"

    def reconstruct(self, view, ctx):
        ENDS["calls"] += 1
        dark, light = -torch.ones(12, *view.architecture.input_shape), 2 * torch.ones(3, *view.architecture.input_shape)
        return Reconstruction(candidates=torch.cat([dark, light]), confidence=torch.arange(15.0))


class Told(Leak):
    """Asks what only the images tell."""

    name = "told"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.LABELS, Knowledge.CLASS_BALANCE})


class Fails(Leak):
    name = "fails"

    def reconstruct(self, view, ctx):
        raise ValueError("no luck")
'''


@pytest.fixture(scope="session")
def described(model: Path) -> Callable[..., str]:
    """Return the file of the model without its images, as text."""

    def text(instead: str = INSTEAD, old: str = "", new: str = "") -> str:
        home = f"HERE = Path({str(model.parent)!r})"
        described = model.read_text().replace("HERE = Path(__file__).parent", home).replace(GIVEN, instead) + OWN
        return described.replace(old, new) if old else described

    return text


@pytest.fixture
def blindfold(described: Callable[..., str], tmp_path: Path) -> Callable[..., Path]:
    """Write it."""

    def write(*changes: str, **other: str) -> Path:
        (tmp_path / "mine.py").write_text(described(*changes, **other))
        return tmp_path / "mine.py"

    return write


@pytest.fixture(scope="session")
def blind(
    described: Callable[..., str],
    cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    alone: Callable[[pytest.MonkeyPatch], None],
    make_audit: Callable[..., Any],
) -> Any:
    """An audit without images, made once."""
    root = tmp_path_factory.mktemp("blind")
    (root / "mine.py").write_text(described())
    return make_audit(root / "mine.py", cache_dir, root / "results", alone)


@pytest.fixture
def audit(blind: Any) -> tuple[Audit, Path, str]:
    """What it wrote: its data, its folder, and what it printed."""
    return Audit.model_validate_json((blind.folder / "audit.json").read_text()), blind.folder, blind.out


def test_it_shows_candidates_and_claims_nothing(audit: tuple[Audit, Path, str]) -> None:
    found, folder, out = audit
    by_threat = {str(finding.threat): finding for finding in found.threats}
    weights = by_threat["the weights alone"]
    attempts = {attempt.attack: attempt for attempt in found.attempts}

    assert found.headline == (
        "Nothing could be verified: no training images were given to compare the attacks' candidates with."
    )
    assert (found.records_given, found.records_trained, found.hit, found.null_hit) == (0, N, None, None)
    assert weights.outcome is AuditOutcome.UNVERIFIED
    assert weights.tried == ["leak", "half", "sure"]
    assert weights.ruled_out == {"sceptic": "it has 2 hidden layers"}
    assert by_threat["query access"].outcome is AuditOutcome.UNVERIFIED
    assert (attempts["sure"].candidates, attempts["fails"].candidates) == (15, None)
    assert all(
        (one.found, one.null, one.chance, one.beyond_chance) == (None, None, None, False) for one in found.attempts
    )
    assert attempts["told"].outlook is Outlook.DECLINED
    assert attempts["told"].reason == "only images would tell it the class balance, the labels"
    assert found.exposure.train_accuracy is None
    assert (found.exposure.residual, found.exposure.margins) == ([], [])
    assert "accuracy on the images given: no images were given" in out
    assert "sure on mine seed 0: 15 candidates, and no training images to compare them with" in out

    table = pd.read_csv(folder / "records.csv")
    assert len(table) == 0
    assert list(table.columns) == list(Record.model_fields)
    told = "\n".join([found.headline, *found.verdict, *found.limits])
    assert not re.search(r"of \d+ training images|chance gets|beyond chance", told)
    assert "fails failed: " in told
    assert "sure failed" not in told
    assert sum("No training images were given" in line for line in found.limits) == 1


def test_the_page_shows_the_surest_candidates_first(audit: tuple[Audit, Path, str]) -> None:
    found, folder, _ = audit
    page = (folder / "audit.html").read_text()

    assert page.index(found.headline.replace("'", "&#39;")) < page.index("Candidates, not verified")
    assert f"The {MOST} of 15 candidates of which the attack is surest, with its confidence." in page
    assert re.findall(r"<figcaption>([\d.]+)</figcaption>", page) == [str(place) for place in range(14, 14 - MOST, -1)]
    assert f"The first {MOST} of 25 candidates, in no order: the attack states no confidence." in page
    assert page.count("<img ") == 4 * MOST
    assert "Nothing is counted without training images." in page
    assert "Counts are training images" not in page
    assert "Who is hit" not in page


def test_what_is_stored_is_not_attacked_again(
    blind: Any, cache_dir: Path, alone: Callable[[pytest.MonkeyPatch], None], make_audit: Callable[..., Any]
) -> None:
    pattern = "runs/*/reconstruction.safetensors"
    before = {path: path.stat().st_mtime_ns for path in blind.folder.glob(pattern)}
    assert len(before) == 4
    make_audit(blind.results.parent / "mine.py", cache_dir, blind.results, alone)
    assert {path: path.stat().st_mtime_ns for path in blind.folder.glob(pattern)} == before


def test_what_scores_is_refused_and_show_and_check_are_not(
    bench: Audited, blindfold: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("victims.exposure.reading.SEEDS", 200)
    text = blindfold().read_text()
    file = blindfold(old=text[text.index("class Leak") :], new="")
    for verb in ("run", "tune"):
        ended = bench(verb, "-v", "mine", "-a", "random", "--plugin-dir", file)
        assert ended.status == 2
        assert "victim mine has no training images to score with; give `images` in its file" in ended.err
        assert ended.err.count("\n") == 1
    spec = registry.released_model(registry.victims(file), file, "")
    claims = list(victim_claims(spec, list(registry.attacks().items.values()), None))
    fits, taken = (claim.text for claim in claims)
    assert fits == "its weights fit its network"
    assert "attacks take it: " in taken
    assert all(claim.holds for claim in claims)
    shown = bench("show", "mine", "--plugin-dir", file)
    assert shown.status == 0
    assert "no images were given" in shown.out
    assert "does not apply: only images would tell it the class balance" in shown.out


def test_a_run_without_images_is_not_scored(bench: Audited, blind: Any) -> None:
    words = "--plugin-dir", blind.results.parent / "mine.py", "--results-dir", blind.folder
    before = [record.model_dump() for record in Store(blind.folder).records()]
    ended = bench("score", *words)
    assert (ended.status, "is meant" in ended.err) == (2, True), ended.err
    assert [record.model_dump() for record in Store(blind.folder).records()] == before


MISTAKES = {
    "no shape": (f"n_trained={N},", "give shape=(C, H, W) of an input, C = 1 or 3, or `images`"),
    "no shape that is one": (f"shape=(16, 16), n_trained={N},", "give shape=(C, H, W) of an input"),
    "another shape": (f"shape=(3, 8, 8), n_trained={N},", "does not take inputs of shape (n, 3, 8, 8)"),
    "no number": (f"shape=(3, {SIDE}, {SIDE}),", "give n_trained, how many it was trained on"),
    "shape and images": (f"{GIVEN} shape=(3, {SIDE}, {SIDE}),", "`shape` is for a model without images"),
}


@pytest.mark.parametrize(("instead", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(audited: Audited, blindfold: Callable[..., Path], instead: str, told: str) -> None:
    ended = audited(file=blindfold(instead))
    assert ended.status == 2
    assert told in ended.err
    assert ended.err.count("\n") == 1


def test_the_mean_of_images_that_are_not_given_is_refused(audited: Audited, blindfold: Callable[..., Path]) -> None:
    ended = audited(file=blindfold(old="mean=0.5", new="mean='training'"))
    assert ended.status == 2
    assert "mean='training' is that of the images, and none are given; give numbers" in ended.err


def test_a_count_cannot_fail_a_pipeline(audited: Audited, blindfold: Callable[..., Path], results: Path) -> None:
    ended = audited("--fail-above", 0, file=blindfold())
    assert ended.status == 2
    assert "--fail-above counts training images, and mine was given without; give `images`" in ended.err
    assert not (results / "audits" / "mine" / "runs").exists()


def attempt(name: str, **fields: Any) -> AuditAttempt:
    known = {
        **{"attack": name, "threat": "the weights alone", "outlook": Outlook.OPEN, "reason": "", "run_id": name},
        **{"status": Status.OK, "found": None, "null": None, "null_control": "", "candidates": 5, "chance": None},
        **{"beyond_chance": False, "seconds": 1.0, "budget_spent": False},
    }
    return AuditAttempt.model_validate(known | fields)


def test_the_sentence_names_who_returned_candidates_and_who_cannot_work() -> None:
    doubted = attempt("a", outlook=Outlook.DOUBTED, reason="no gap", status=None, candidates=None, seconds=None)
    failed = attempt("broken", reason="error: 1 / 0", status=Status.ERROR, candidates=None)
    every = threats([attempt("first"), failed, attempt("second"), doubted], 0)
    finding = next(one for one in every if one.threat == "the weights alone")

    assert finding.sentence == (
        "Whether somebody who has the weights alone reconstructs anything is not known: first, second returned "
        "candidates, and there is nothing to compare them with. a cannot work: no gap."
    )
    assert words.verdict(every)[0] == finding.sentence
    assert (finding.found, finding.null, finding.attack, finding.seconds) == (None, None, "", 3.0)
    alone = threats([failed], 0)
    assert words.headline(alone, 0) == (
        "No attack was run to its end, so nothing is known of what can be reconstructed."
    )


def test_candidates_that_are_not_finite_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    candidates = torch.stack([torch.full((1, 2, 2), value) for value in (0.1, float("nan"), 0.3, 0.4)])
    found = Reconstruction(candidates, confidence=torch.tensor([1.0, 9.0, float("nan"), 2.0]))
    monkeypatch.setattr("bench.experiments.audit.candidates.read_reconstruction", lambda folder: found)

    class Pixels:
        @staticmethod
        def images(inputs: np.ndarray) -> np.ndarray:
            return inputs / 2

    shown = surest("one", "id", Pixels(), Store(tmp_path))  # type: ignore[arg-type]
    torch.testing.assert_close(shown.images[:, 0, 0, 0], torch.tensor([0.2, 0.05, 0.15]))
    assert shown.confidence is not None
    assert shown.confidence[:2] == (2.0, 1.0)
    assert shown.of == 4
