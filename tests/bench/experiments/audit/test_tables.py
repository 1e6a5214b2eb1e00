"""An audit of a model on a table: rows beside rows in the table's own units, and no word of images."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from owners import patients
from owners.patients import LABEL, N

from bench.experiments.audit.model import Audit, AuditOutcome
from bench.experiments.audit.rows import NEAREST, RECONSTRUCTION, TRAINING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KNOWN, NEAR = 15, 5
"""Rows that the attack `leak` returns as they are, and those of which it has 28 of 30 columns."""
ATTACKS = f'''
import pandas as pd

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Leak(Attack[AttackParams]):
    """Returns training rows, some of them with two wrong columns, and noise."""

    name = "leak"
    summary = "returns training rows"
    needs = frozenset({{Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        table = pd.read_csv(HERE / "patients.csv").drop(columns="{LABEL}").to_numpy()[:{KNOWN + NEAR}]
        recipe = VICTIMS[0].training
        rows = torch.tensor((table - recipe.mean) / recipe.std, dtype=torch.float32)
        rows[{KNOWN}:, :2] += 3
        noise = torch.randn(20, 30, generator=ctx.generator)
        return Reconstruction(torch.cat([rows, noise]).reshape(-1, *view.architecture.input_shape))


class Blind(Leak):
    name = "blind"
    needs = frozenset({{Knowledge.ARCHITECTURE, Knowledge.LOGITS}})

    def reconstruct(self, view, ctx):
        noise = torch.randn(30, *view.architecture.input_shape, generator=ctx.generator)
        view.logits(noise)
        return Reconstruction(noise, confidence=torch.arange(30.0))
'''


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = patients.make(tmp_path_factory.mktemp("patients"))
    file.write_text(file.read_text() + ATTACKS)
    return file


@pytest.fixture(scope="module")
def tabular(
    table: Path,
    cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    alone: Callable[[pytest.MonkeyPatch], None],
    make_audit: Callable[..., Any],
) -> Any:
    return make_audit(table, cache_dir, tmp_path_factory.mktemp("tabular") / "results", alone)


@pytest.fixture
def found(tabular: Any) -> Audit:
    return Audit.model_validate_json((tabular.folder / "audit.json").read_text())


def test_rows_are_counted_and_called_rows(found: Audit, tabular: Any) -> None:
    weights = next(finding for finding in found.threats if finding.threat == "the weights alone")
    assert (weights.outcome, weights.attack, weights.found, weights.null) == (
        AuditOutcome.FOUND,
        "leak",
        KNOWN + NEAR,
        0,
    )
    assert found.hit == KNOWN + NEAR
    assert found.unit == found.exposure.unit == "rows"
    assert found.headline == (
        f"{KNOWN + NEAR} of {N} training rows can be reconstructed by somebody who has the weights alone, "
        "where chance gets 0."
    )
    assert (found.records_given, found.held_out) == (N, patients.TEST)
    told = "\n".join([found.headline, *found.verdict, *found.limits, tabular.out])
    assert (
        f"leak on mine seed 0: of {N} rows, good {KNOWN + NEAR} (chance 0) under vero2023; test accuracy" in tabular.out
    )
    assert not re.search(r"training images|held-out image|the images given", told)


def test_every_row_has_the_share_of_its_columns_that_are_right(tabular: Any) -> None:
    records = pd.read_csv(tabular.folder / "records.csv")
    assert records["best_score"][:KNOWN].tolist() == [1] * KNOWN
    assert records["best_score"][KNOWN : KNOWN + NEAR].tolist() == pytest.approx([28 / 30] * NEAR)
    assert records["best_score"][KNOWN + NEAR :].max() < 0.9


def test_rows_stand_beside_rows_in_the_units_of_the_table(tabular: Any, table: Path) -> None:
    rows = pd.read_csv(tabular.folder / "rows.csv")
    members = pd.read_csv(table.parent / "patients.csv").drop(columns=LABEL)
    others = pd.read_csv(table.parent / "others.csv").drop(columns=LABEL)
    assert rows["record"].tolist() == [place for place in range(KNOWN + NEAR) for _ in range(3)]
    by_kind = {kind: part[members.columns].reset_index(drop=True) for kind, part in rows.groupby("row")}
    low, high = members.min(), members.max()
    pd.testing.assert_frame_equal(by_kind[TRAINING], members[: KNOWN + NEAR], rtol=1e-4, atol=1e-6, check_dtype=False)
    close = (by_kind[RECONSTRUCTION] - members[: KNOWN + NEAR]).abs() <= 1e-4 * (high - low)
    assert close[:KNOWN].all(axis=None)
    assert not close.iloc[KNOWN:, :2].any(axis=None)
    spread = pd.concat([members, others]).agg(lambda column: column.max() - column.min())
    distance = ((others - members.iloc[0]) / spread).pow(2).sum(axis=1)
    expected = others.loc[[distance.idxmin()]].reset_index(drop=True)
    pd.testing.assert_frame_equal(by_kind[NEAREST][:1], expected, rtol=1e-4, check_dtype=False)


def test_the_page_shows_three_rows_with_their_columns_names(tabular: Any) -> None:
    page = (tabular.folder / "audit.html").read_text()
    section = page[page.index('<section id="rows">') : page.index('<section id="threats">')]
    assert section.count("<caption>") == 3
    assert all(kind in section for kind in (RECONSTRUCTION, TRAINING, NEAREST))
    assert section.count("mean radius") == 3
    assert section.count("20 more columns are in rows.csv.") == 3
    records = pd.read_csv(tabular.folder / "records.csv")[: KNOWN + NEAR]
    ahead = (records["best_score"] - records["null_score"]).sort_values(ascending=False, kind="stable")
    shown = [int(place) for place in re.findall(r"<caption>Record (\d+),", section)]
    assert shown == ahead.index[:3].tolist()
    assert section.count('aria-label="right"') == sum(10 if place < KNOWN else 8 for place in shown)
    assert "<img" not in section
    assert "Counts are training rows of which more than 90% of the columns are right" in page


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_cut_off_and_it_prints_on_few_sheets(browser: Browser, tabular: Any, width: int) -> None:
    shown = browser.new_page(viewport={"width": width, "height": 900})
    shown.goto((tabular.folder / "audit.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    sheets = len(re.findall(rb"/Type\s*/Page\b", shown.pdf(format="A4", print_background=True)))
    assert 0 < sheets <= 4


def test_the_exposure_card_tells_rows(tabular: Any) -> None:
    assert f"weights for {N} rows of 30 numbers" in tabular.out
    assert "accuracy on the rows given: " in tabular.out


def test_without_rows_candidates_are_shown_by_column(
    bench: Callable[..., Any],
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: Callable[[pytest.MonkeyPatch], None],
) -> None:
    alone(monkeypatch)
    columns = list(pd.read_csv(table.parent / "patients.csv").drop(columns=LABEL).columns)
    text = table.read_text().replace("HERE = Path(__file__).parent", f"HERE = Path({str(table.parent)!r})")
    text = re.sub(r'records=.*?label="benign",', f"columns={columns}, n_trained={N},", text, flags=re.DOTALL)
    (tmp_path / "mine.py").write_text(text)
    results = tmp_path / "results"
    folder = results / "audits" / "mine"
    folder.mkdir(parents=True)
    (folder / "rows.csv").write_text("of an audit when the rows were given")
    ended = bench("audit", tmp_path / "mine.py", "--budget", "60s", "--results-dir", results, "--device", "cpu")

    assert (ended.status, ended.err) == (0, "")
    blind = Audit.model_validate_json((folder / "audit.json").read_text())
    assert blind.headline.startswith("Nothing could be verified: no training rows were given")
    assert blind.hit is None
    assert any("`records` names their file" in line for line in blind.limits)
    assert not (folder / "rows.csv").exists()
    page = (folder / "audit.html").read_text()
    section = page[page.index('<section id="candidates">') : page.index('<section id="threats">')]
    assert section.count("mean radius") == 2
    assert "<img" not in section
    assert "The 8 of 30 candidates of which the attack is surest" in section
    refused = bench("audit", tmp_path / "mine.py", "--fail-above", "0", "--results-dir", results)
    assert refused.status == 2
    assert "--fail-above counts training rows, and mine was given without; give `records`" in refused.err
