"""What the driver hears of runs that have not ended: progress, lines for the user, and checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.run.executors.cluster.bundles import FileBundle, Stamps, pack, stamps

PROGRESS_SECONDS = 1.0
WATCH_SECONDS = 1.0
"""How often files are looked at for a new checkpoint; attacks and trainings write one every half a minute."""
MOST_NOTICES = 1000
"""The most lines that wait for the driver; further ones are dropped."""


@dataclass
class News:
    """What has come since the driver asked last.

    Attributes:
        progress: where each job is: the arguments of `Reporter.progress`.
        notices: lines for the user.
        checkpoints: by job, the files of its last checkpoint.
    """

    progress: dict[str, tuple[str, int, int, dict[str, float]]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    checkpoints: dict[str, FileBundle] = field(default_factory=dict)


class Mailbox:
    """Takes what workers tell, and keeps of each job the last; an actor beside the driver."""

    def __init__(self) -> None:
        self._news = News()

    def progress(self, job: str, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Take where a job is."""
        self._news.progress[job] = task, step, steps, figures

    def notice(self, text: str) -> None:
        """Take a line for the user."""
        if len(self._news.notices) < MOST_NOTICES:
            self._news.notices.append(text)

    def keep(self, job: str, checkpoint: FileBundle) -> None:
        """Take the last checkpoint of a job."""
        self._news.checkpoints[job] = checkpoint

    def collect(self) -> News:
        """Return what has come since the last call."""
        news, self._news = self._news, News()
        return news


class MailboxReporter:
    """Tells a mailbox, from a worker, where a job is, once a second at most.

    Args:
        mailbox: handle of the actor.
        job: name of the job.
    """

    def __init__(self, mailbox: Any, job: str) -> None:
        self.mailbox, self.job = mailbox, job
        self._told = 0.0

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float], job: str = "") -> None:
        """Tell where the job is."""
        if (now := time.monotonic()) - self._told >= PROGRESS_SECONDS:
            self._told = now
            self.mailbox.progress.remote(self.job, task, step, steps, figures)

    def notice(self, text: str) -> None:
        """Tell a line."""
        self.mailbox.notice.remote(text)

    def finished(self, job: str) -> None:
        """Tell nothing: the driver sees it."""

    @contextmanager
    def checkpoints(self, root: Path, patterns: tuple[str, ...]) -> Iterator[None]:
        """Send the files below a folder that globs name, whenever they change, until the block ends."""
        ended = threading.Event()
        before = stamps(root, patterns)
        arguments = root, patterns, before, ended, lambda bundle: self.mailbox.keep.remote(self.job, bundle)
        watch = threading.Thread(target=_watch, args=arguments, daemon=True)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()


def _watch(
    root: Path, patterns: tuple[str, ...], last: Stamps, ended: threading.Event, send: Callable[[FileBundle], Any]
) -> None:
    while not ended.wait(WATCH_SECONDS):
        now = stamps(root, patterns)
        if now != last and (bundle := pack(root, patterns)):
            send(bundle)
        last = now
