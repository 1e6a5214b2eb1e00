from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from torch import Tensor

from bench.experiments import measured
from bench.experiments.study_picture import strips

DRAWN = 2


@pytest.fixture(autouse=True)
def few_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the candidates that a picture sets beside real images few are drawn: a panel each takes long."""

    def few(path: Path, title: str, rows: Sequence[tuple[str, Tensor]]) -> None:
        strips(path, title, [(name, images[:DRAWN]) for name, images in rows])

    monkeypatch.setattr(measured, "strips", few)
