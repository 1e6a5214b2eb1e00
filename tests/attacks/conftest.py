from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def leaving_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], AbstractContextManager[None]]:
    """A block in which nothing may be printed, and no file written to where it is."""

    @contextmanager
    def block() -> Iterator[None]:
        monkeypatch.chdir(tmp_path)
        before = set(tmp_path.rglob("*"))
        capfd.readouterr()
        yield
        assert tuple(capfd.readouterr()) == ("", "")
        assert set(tmp_path.rglob("*")) == before

    return block
