"""What the user sees while a run goes on: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_SECONDS = 15.0


class Reporter(Protocol):
    """Who tells the user how things go: the terminal here, nothing at all in a library."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show where a task is."""

    def notice(self, text: str) -> None:
        """Say something in one line."""


class TerminalReporter:
    """Shows one task at a time; a context manager, so that the bar is gone when a table is printed."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None
        self._bar: TaskID | None = None
        self._task = ""
        self._last_line = 0.0

    def __enter__(self) -> TerminalReporter:
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
            self._progress = Progress(
                *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self.console, transient=True
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show that `task` has done `step` of `steps`, with its figures."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
        if self._progress is None:
            self._line(task, step, steps, text)
            return
        if self._bar is None or task != self._task:
            if self._bar is not None:
                self._progress.remove_task(self._bar)
            self._bar, self._task = self._progress.add_task(task, total=steps, figures=text), task
        self._progress.update(self._bar, completed=step, total=steps, figures=text)

    def notice(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)

    def _line(self, task: str, step: int, steps: int, text: str) -> None:
        now = time.monotonic()
        if task == self._task and now - self._last_line < LINE_SECONDS and step < steps:
            return
        self._task, self._last_line = task, now
        self.console.print(f"{task}: {step}/{steps}  {text}", highlight=False, markup=False, soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
