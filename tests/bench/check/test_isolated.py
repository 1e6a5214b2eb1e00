"""`check` outlives what it tries: a crash, an exit and a hang are claims that do not hold."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from processes import ROOT
from test_check import written

from bench.check import isolated
from bench.check.isolated import SURVIVES, isolated_claims
from bench.run.executors import server
from victims.errors import UserError

Bench = Callable[..., Any]
ENDS: dict[str, tuple[str, str]] = {
    "segfault": ("import ctypes; ctypes.string_at(0)", "it was killed by SIGSEGV, after the claim `takes one of the"),
    "exit": ("import os; os._exit(3)", "it left with exit status 3, after the claim `takes one of the"),
    "closes": ("import os; os.closerange(3, 64); os._exit(0)", "it left with exit status 0, after the claim"),
}


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is forked by a server that has imported torch; one that is spawned takes seconds to import it."""
    monkeypatch.setattr(isolated, "multiprocessing", SimpleNamespace(get_context=lambda method: server.start(1)))


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("body", "words"), ENDS.values(), ids=ENDS)
def test_what_ends_the_process_is_a_claim_that_does_not_hold(tmp_path: Path, body: str, words: str) -> None:
    *_, last = isolated_claims(written(tmp_path, body=body), {}, None)

    assert (last.subject, last.text, last.holds) == ("own.py", SURVIVES, False)
    assert words in last.trouble


@pytest.mark.usefixtures("forked")
def test_a_process_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, pid, wait = tmp_path / "blocks", tmp_path / "pid", isolated.wait
    body = (
        "import os, pathlib, signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); "
        f"open({str(pid)!r}, 'w').write(str(os.getpid())); pathlib.Path({str(blocks)!r}).touch(); time.sleep(3600)"
    )

    def impatient(heard: list[Any], seconds: float) -> list[Any]:
        """Wait until it blocks, and then for what it has said before."""
        assert seconds == isolated.SILENT_SECONDS
        while not blocks.exists():
            if found := wait(heard, 0.1):
                return found
        return wait(heard, 0.5)

    monkeypatch.setattr(isolated, "wait", impatient)
    *_, last = isolated_claims(written(tmp_path, body=body), {}, None)

    assert last.trouble.startswith("nothing was heard of it for 300 s, after the claim `takes one of the")
    assert not psutil.pid_exists(int(pid.read_text()))


def test_an_import_that_changes_torch_is_a_claim_that_does_not_hold(bench: Bench, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(f"import torch\ntorch.set_default_dtype(torch.float64)\n{path.read_text()}")
    checked = bench("check", path)

    assert (checked.status, checked.err) == (1, "")
    assert "makes torch.float64 the default of torch" in " ".join(checked.out.split())
    assert checked.out.count("✗") == 1


def test_an_import_that_ends_the_process_is_a_claim_that_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import os\nos._exit(0)\n")
    (claim,) = isolated_claims(tmp_path / "own.py", {}, None)

    assert claim.trouble == "its import ends the process with exit status 0"


@pytest.mark.usefixtures("forked")
def test_a_mistake_is_a_mistake_of_the_user_still(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no such parameter"):
        list(isolated_claims(written(tmp_path), {"size": 3}, None))


def test_nothing_outlives_the_check_that_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    body = (
        "import os, signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM}); "
        f"open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    )
    checking = subprocess.Popen(
        [sys.executable, "-m", "bench", "check", str(written(tmp_path, body=body))], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not (marker.exists() and marker.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    tried = psutil.Process(int(marker.read_text()))
    checking.kill()
    checking.wait()
    assert psutil.wait_procs([tried], timeout=20)[1] == []
