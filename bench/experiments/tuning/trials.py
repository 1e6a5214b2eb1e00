"""The trials of one search, in a folder. Any number of processes work on them; each may be killed at any time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from attacks.search_space import Range
from victims.errors import UserError

IDENTITY, JOURNAL = "identity", "journal.log"
STARTUP_TRIALS = 10
"""Random trials before TPE has a model, and before a trial is measured against the others' median."""
WARM_UP = 3
"""Reports of a trial before it may be stopped."""
Sampler = Literal["random", "tpe"]
"""How the parameters of the next trial are drawn."""


class SharedStudy:
    """The trials of one search.

    Args:
        folder: holds the journal and the locks.
        ranges: what is searched.
        sampler: how; TPE also stops trials that are worse than the median, random search lets all of them end.
        seed: of the sampler.
        identity: what else must be the same for all trials of the study, as JSON.

    Attributes:
        lock: whoever holds it alone changes the study or writes its table.

    Raises:
        UserError: the folder holds a study of something else or a damaged journal, or cannot be written.
    """

    def __init__(
        self, folder: Path, ranges: dict[str, Range], sampler: Sampler, seed: int, identity: dict[str, Any]
    ) -> None:
        self.folder, self.sampler, self.seed = folder.resolve(), sampler, seed
        self.space = {
            name: FloatDistribution(range_.low, range_.high, log=range_.log) for name, range_ in ranges.items()
        }
        described = {name: [range_.low, range_.high, range_.log] for name, range_ in ranges.items()}
        identity = identity | {"search space": described, "sampler": sampler, "sampler seed": seed}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        tpe = sampler == "tpe"
        pruner = optuna.pruners.MedianPruner(STARTUP_TRIALS, WARM_UP) if tpe else optuna.pruners.NopPruner()
        journal = self.folder / JOURNAL
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = FileLock(self.folder / "study.lock")
            _require_whole(journal)
            with self.lock:
                storage = JournalStorage(JournalFileBackend(str(journal), JournalFileOpenLock(str(journal))))
                self._study = optuna.create_study(
                    storage=storage, study_name="trials", direction="minimize", pruner=pruner, load_if_exists=True
                )
                _require_whole(journal)  # optuna has written a line behind one that was cut short
                self._require(json.loads(json.dumps(identity)))
        except OSError as error:
            raise UserError(f"cannot write to {folder} ({error.strerror}); choose another --results-dir") from None

    def _require(self, identity: dict[str, Any]) -> None:
        made_for = self._study.user_attrs.get(IDENTITY)
        if made_for is None:
            self._study.set_user_attr(IDENTITY, identity)
        elif made_for != identity:
            differing = [name for name in made_for | identity if made_for.get(name) != identity.get(name)]
            raise UserError(
                f"{self.folder} holds a study with another {', '.join(differing)}; remove it, or choose another "
                "--results-dir"
            )

    @property
    def trials(self) -> list[FrozenTrial]:
        """The trials in the order of their numbers, without those whose process died (their state is FAIL)."""
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state is not TrialState.FAIL]

    @property
    def running(self) -> int:
        """How many trials are at work, or waiting to be tried again."""
        return sum(not trial.state.is_finished() for trial in self.trials)

    def best(self, count: int) -> list[FrozenTrial]:
        """Return at most `count` complete trials of the smallest finite values, best first; of equals the older."""
        complete = [t for t in self.trials if t.state is TrialState.COMPLETE and math.isfinite(t.values[0])]
        return sorted(complete, key=lambda trial: trial.values[0])[:count]

    @contextmanager
    def trial(self, wanted: int) -> Iterator[optuna.Trial | None]:
        """Yield a new trial, whose outcome the block stores by `tell`; None if there are `wanted` trials already.

        Trials that other processes are at work on count. The parameters of a trial whose process died are tried again.
        """
        with self.lock:
            self._bury()
            trial = self._next(wanted)
            own = None if trial is None else self._trial_lock(trial.number)
            if own is not None:
                own.acquire()
        try:
            yield trial
        finally:
            if own is not None:
                own.release()

    def tell(self, trial: optuna.Trial, value: float | None) -> FrozenTrial:
        """Store how a trial ended and return it: a value, infinity if it failed; None if it was stopped before."""
        return self._study.tell(trial, value, state=TrialState.PRUNED if value is None else TrialState.COMPLETE)

    def _next(self, wanted: int) -> optuna.Trial | None:
        states = [trial.state for trial in self.trials]
        if TrialState.WAITING not in states and len(states) >= wanted:
            return None
        # A sampler of its own for each trial, so that neither a kill nor a second process draws the same ones again.
        seed = (self.seed * 100_003 + len(states)) % 2**32
        if self.sampler == "tpe":
            self._study.sampler = optuna.samplers.TPESampler(
                n_startup_trials=STARTUP_TRIALS, constant_liar=True, seed=seed
            )
        else:
            self._study.sampler = optuna.samplers.RandomSampler(seed=seed)
        return self._study.ask(self.space)  # type: ignore[arg-type]  # dict is invariant in its values

    def _bury(self) -> None:
        """Give up the trials whose process is dead, which is seen from their lock, and queue their parameters."""
        for trial in self.trials:
            if trial.state is not TrialState.RUNNING:
                continue
            try:
                with self._trial_lock(trial.number).acquire(timeout=0):
                    if self._study.get_trials(deepcopy=False)[trial.number].state is TrialState.RUNNING:
                        self._study.enqueue_trial(trial.params)
                        self._study.tell(trial.number, state=TrialState.FAIL)
            except Timeout:
                continue

    def _trial_lock(self, number: int) -> FileLock:
        return FileLock(self.folder / f"trial-{number:04}.lock")


def _require_whole(journal: Path) -> None:
    """Check that every line of a journal that has an end is a JSON object; others may be at work on the last line.

    Raises:
        UserError: one is none.
    """
    lines = journal.read_bytes().split(b"\n") if journal.exists() else []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            dict(json.loads(line))
        except (ValueError, TypeError):
            raise UserError(f"{journal} is damaged in line {number}; remove that line") from None
