"""Audits of models that plain torch scripts have trained: each verdict is what the training gives away."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.audit.model import Audit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "threat", "outcome"),
    [
        ("ordinary", "the weights alone", "nothing beyond chance"),
        ("converged", "the weights alone", "found"),
        ("finetuned", "the weights and the start of the training", "found"),
        ("small_cnn", "the weights alone", "nothing beyond chance"),
        ("tuned_cnn", "the weights and the start of the training", "found"),
        ("tuned_residual", "the weights and the start of the training", "found"),
        ("tuned_silu", "the weights and the start of the training", "found"),
        ("logistic", "the weights alone", "nothing beyond chance"),
        ("patients", "the weights alone", "nothing beyond chance"),
    ],
)
def test_owners_models(bench: Callable[..., Any], tmp_path: Path, owner: str, threat: str, outcome: str) -> None:
    """Models of plain torch scripts: each verdict is what the training gives away."""
    file = importlib.import_module(f"owners.{owner}").make(tmp_path)
    assert bench("audit", file, "--budget", "30m", "--results-dir", tmp_path / "results").status == 0
    audit = Audit.model_validate_json((tmp_path / "results" / "audits" / "mine" / "audit.json").read_text())
    by_threat = {str(finding.threat): finding for finding in audit.threats}
    assert by_threat[threat].outcome == outcome
    assert by_threat["query access"].outcome == "nothing beyond chance"
    assert audit.exposure.layers == (owner not in ("small_cnn", "tuned_cnn", "tuned_residual", "tuned_silu"))
    assert by_threat["the weights and all records but one"].outcome == (
        "found" if owner == "logistic" else "not tested"
    )
    if owner in ("finetuned", "tuned_cnn", "tuned_residual", "tuned_silu"):
        assert by_threat["the weights alone"].outcome == "nothing beyond chance"
