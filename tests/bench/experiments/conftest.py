from __future__ import annotations

import pytest

from bench.experiments import measured


@pytest.fixture(autouse=True)
def few_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of candidates beside real images hold few of them: each is a panel, and takes as long as its scores."""
    monkeypatch.setattr(measured, "SHOWN", 2)
