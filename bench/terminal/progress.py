"""Progress: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.terminal.console import say
from bench.terminal.text import one_line

LINE_SECONDS = 15.0
MINUTES_FROM = 100.0
"""From this many seconds on, the time left is told in minutes."""
FIGURES = TextColumn("{task.fields[figures]}", markup=False)


class Reporter(Protocol):
    """Tells the user about progress."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show where a task is."""

    def notice(self, text: str) -> None:
        """Say something in one line."""


class Silent:
    """Tells nobody."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show nothing."""

    def notice(self, text: str) -> None:
        """Say nothing."""


@dataclass
class Shown:
    """The display of one job: its bar on a terminal; elsewhere the time of its last line.

    Pace is measured from the first step seen (a resumed task starts late) to the last.
    """

    task: str
    first: int
    since: float
    last: int
    bar: TaskID | None = None
    last_line: float = 0.0

    def left(self, step: int, steps: int, now: float) -> str:
        """Return how long a task still takes at its pace so far, "" while there is none."""
        if not self.first < step < steps or now <= self.since:
            return ""
        seconds = (now - self.since) / (step - self.first) * (steps - step)
        return f"about {seconds:.0f} s left" if seconds < MINUTES_FROM else f"about {seconds / 60:.0f} min left"


class TerminalReporter:
    """Shows what each job is at; a context manager, so that the bars are gone when a table is printed."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None
        self._jobs: dict[str, Shown] = {}

    def __enter__(self) -> TerminalReporter:
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), FIGURES)
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

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float], job: str = "") -> None:
        """Show that `task` has done `step` of `steps`, with its figures, in the place of what `job` did before it."""
        task, text = one_line(task), one_line("  ".join(f"{name} {value:.4g}" for name, value in figures.items()))
        now = time.monotonic()
        shown = self._jobs.get(job)
        if shown is None or shown.task != task:
            self.finished(job)
            shown = self._jobs[job] = Shown(task, step, now, step)
            if self._progress is not None:
                shown.bar = self._progress.add_task(task, total=steps, figures=text)
        if self._progress is not None and shown.bar is not None:
            self._progress.update(shown.bar, completed=step, total=steps, figures=text)
            return
        if step < shown.last:  # it begins again, as with another restart
            shown.first, shown.since = step, now
        shown.last = step
        if now - shown.last_line >= LINE_SECONDS or step >= steps:
            shown.last_line = now
            told = filter(None, (f"{task}: {step}/{steps}", text, shown.left(step, steps, now)))
            say("  ".join(told), self.console)

    def finished(self, job: str) -> None:
        """Show nothing of a job any more."""
        shown = self._jobs.pop(job, None)
        if shown is not None and shown.bar is not None and self._progress is not None:
            self._progress.remove_task(shown.bar)

    def notice(self, text: str) -> None:
        """Print one line."""
        say(text, self.console, "yellow")


def plural(count: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
