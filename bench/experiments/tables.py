"""The tables of a results folder, and its copy, while runs end one after the other."""

from __future__ import annotations

import time

from bench.publish.leaderboard import refresh_tables, unscored
from bench.store.folders import Store
from bench.store.records import RunRecord
from bench.store.remote import Mirror
from bench.terminal.progress import TerminalReporter
from victims.errors import UserError

WRITING_SHARE = 0.1
"""Largest share of the time that goes into writing tables, which takes longer the more runs there are."""


class SweepTables:
    """Tables, and a copy of all results, that follow a sweep; a context manager, after which they hold all its runs.

    Args:
        store: whose tables.
        reporter: told if they cannot be written any more, and at the end what they lack for want of scores.
        copy_to: address of the copy in object storage, empty for none.

    Attributes:
        board: the leaderboard as it was written last.
        behind: whether they lack runs that have ended since.

    Raises:
        UserError: the tables cannot be read or written, or the copy cannot; so no work has been done.
    """

    def __init__(self, store: Store, reporter: TerminalReporter, copy_to: str = "") -> None:
        self.store, self.reporter = store, reporter
        self._changed: list[RunRecord] = []
        self.board, self._next, self.behind = refresh_tables(store), 0.0, False
        self._mirror = Mirror(copy_to, store.root, reporter.notice) if copy_to else None

    def __enter__(self) -> SweepTables:
        return self

    def __exit__(self, *error: object) -> None:
        if self.behind:
            self._write()
        if self._mirror is not None:
            self._mirror.close()
        if line := unscored(self.store):
            self.reporter.notice(line)

    def follow(self, record: RunRecord) -> None:
        """Copy a run; write the tables too, unless that would take more than a tenth of the time."""
        if self._mirror is not None:
            self._mirror.follow(record.run_id)
        self._write_if_due()

    def change(self, row: RunRecord) -> None:
        """Have a row of runs.csv, whose run folder is elsewhere, as it is now; the tables are written as for a run."""
        self._changed.append(row)
        self._write_if_due()

    def _write_if_due(self) -> None:
        self.behind = True
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        began = time.monotonic()
        try:
            self.board, self.behind = refresh_tables(self.store, self._changed), False
            self._changed.clear()  # the table has them: what others write there now is newer
        except UserError as error:
            self.reporter.notice(str(error))
        took = time.monotonic() - began
        self._next = began + took / WRITING_SHARE
