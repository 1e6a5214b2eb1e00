"""Ctrl-C and SIGTERM while the program starts, and when its work has begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.terminal import interrupts

HEARD = [signal.SIGINT, signal.SIGTERM]


def held(body: str) -> subprocess.CompletedProcess[str]:
    script = (
        "from bench.terminal.interrupts import abrupt, withheld, work_begins\nimport os, signal, subprocess, sys\n"
        + body
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("number", HEARD)
def test_an_interrupt_at_the_start_is_one_line(number: signal.Signals) -> None:
    done = held(f"with abrupt():\n  os.kill(os.getpid(), {number:d})\n  print('it went on')")

    assert (done.returncode, done.stdout) == (interrupts.INTERRUPTED, "")
    assert done.stderr == "bench: interrupted; nothing had begun\n"


def test_an_interrupt_at_the_start_ends_what_was_started() -> None:
    sleeper = "with abrupt():\n  subprocess.Popen(['sleep', '600'])\n  os.kill(os.getpid(), signal.SIGINT)"
    assert held(sleeper).returncode == interrupts.INTERRUPTED  # whose output ends only when the sleeper has ended


@pytest.mark.parametrize("number", HEARD)
def test_an_interrupt_of_the_work_is_an_exception(number: signal.Signals) -> None:
    body = f"with abrupt():\n  work_begins()\n  try: os.kill(os.getpid(), {number:d})\n"
    done = held(body + "  except KeyboardInterrupt: print('in order')")

    assert (done.returncode, done.stdout) == (0, "in order\n")


def test_what_is_started_while_interrupts_are_withheld_never_hears_them() -> None:
    child = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('still here')"
    done = held(f"with withheld():\n  subprocess.run([sys.executable, '-c', {child!r}])")

    assert (done.returncode, done.stdout) == (0, "still here\n")


def test_an_interrupt_that_was_withheld_comes_when_it_may() -> None:
    body = (
        "with abrupt():\n  with withheld():\n    os.kill(os.getpid(), signal.SIGINT)\n    print('kept', flush=True)\n"
    )
    done = held(f"{body}  print('it went on')")

    assert (done.returncode, done.stdout) == (interrupts.INTERRUPTED, "kept\n")


@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("number", HEARD)
def test_the_handler_that_was_there_is_there_again(number: signal.Signals, ignored: bool) -> None:
    handler = signal.SIG_IGN if ignored else interrupts.HEARD[number]
    before = signal.signal(number, handler)
    try:
        with interrupts.abrupt():
            assert (signal.getsignal(number) is signal.SIG_IGN) == ignored
            interrupts.work_begins()
            assert (signal.getsignal(number) is signal.SIG_IGN) == ignored
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_the_verbs_are_imported_under_the_handler(tmp_path: Path) -> None:
    """An interrupt that comes while `bench.cli` is imported finds the handler in its place."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    variables = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"}
    command = [sys.executable, "-m", "bench", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)

    assert (done.returncode, done.stderr) == (interrupts.INTERRUPTED, "bench: interrupted; nothing had begun\n")


def test_the_server_that_processes_are_forked_from_never_hears_an_interrupt() -> None:
    told = (
        "from multiprocessing import forkserver\nfrom bench.run.executors import server\nserver.start(1)\n"
        "number = forkserver._forkserver._forkserver_pid\n"
        "with open(f'/proc/{number}/status') as file: blocked = dict(line.split(':', 1) for line in file)['SigBlk']\n"
        "print(int(blocked, 16) >> (signal.SIGINT - 1) & 1)\nos.kill(number, signal.SIGKILL)\n"
    )
    assert held(told).stdout == "1\n"
