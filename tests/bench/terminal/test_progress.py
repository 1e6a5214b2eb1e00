"""What the user sees of several jobs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bench.terminal import progress as ui
from bench.terminal.progress import TerminalReporter


def reporter(terminal: bool) -> tuple[TerminalReporter, io.StringIO]:
    out = io.StringIO()
    return TerminalReporter(Console(file=out, force_terminal=terminal, width=200)), out


def test_a_terminal_shows_a_bar_for_each_job_and_no_more() -> None:
    shown, out = reporter(terminal=True)
    with shown:
        assert shown._progress is not None
        for job in ("one", "two"):
            shown.progress(f"train {job}", 1, 10, {"loss": 0.5}, job)
        shown.progress("attack one", 3, 10, {}, "one")
        assert [task.description for task in shown._progress.tasks] == ["train two", "attack one"]
        assert [task.completed for task in shown._progress.tasks] == [1, 3]
        shown.finished("two")
        assert [task.description for task in shown._progress.tasks] == ["attack one"]
    assert "loss 0.5" in out.getvalue()


def test_elsewhere_a_line_now_and_then_for_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(ui.time, "monotonic", lambda: now)
    shown, out = reporter(terminal=False)
    with shown:
        for step in range(1, 11):
            for job in ("one", "two"):
                shown.progress(f"train {job}", step, 10, {}, job)
            now += 2
    lines = out.getvalue().splitlines()
    told = ("1/10", "9/10  about 2 s left", "10/10")  # it took 2 s a step
    assert lines == [f"train {job}: {step}" for step in told for job in ("one", "two")]


def test_what_is_left_of_a_task_that_goes_on_is_told_by_the_steps_that_were_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(ui.time, "monotonic", lambda: now)
    shown, out = reporter(terminal=False)
    with shown:
        shown.progress("attack", 5000, 6000, {})
        now += 60
        shown.progress("attack", 5100, 6000, {"loss": 0.5})
        now += 900
        shown.progress("attack", 1, 6000, {})
        now += 60
        shown.progress("attack", 3001, 6000, {})
        shown.progress("other", 1, 6000, {})
    again = "attack: 1/6000", "attack: 3001/6000  about 60 s left"
    lines = out.getvalue().splitlines()
    assert lines == ["attack: 5000/6000", "attack: 5100/6000  loss 0.5  about 9 min left", *again, "other: 1/6000"]


@pytest.mark.parametrize("terminal", [True, False])
def test_what_an_attack_calls_its_figures_steers_no_terminal(terminal: bool) -> None:
    shown, out = reporter(terminal)
    with shown:
        shown.progress("attack", 1, 1, {"\x1b[5m[bold]loss\u202e": 0.5}, "one")
        shown.notice("\x1b[5m\u202e")
    assert r"\x1b[5m[bold]loss\u202e 0.5" in out.getvalue()
    assert "\x1b[5m" not in out.getvalue()
