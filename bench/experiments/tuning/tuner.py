"""The trials of a study: each attacks the victim with other parameters and is judged by what the attacker sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import FrozenTrial

from attacks.base import AttackParams
from bench.experiments.tuning.trials import SharedStudy
from bench.plan.run import Run, attack_sha
from bench.run.session import Session
from bench.terminal.progress import Reporter
from bench.terminal.text import describe

if TYPE_CHECKING:
    from attacks.base import Reconstruction

ATTACK_SHA = "attack_sha"
"""The attribute of a trial that holds the hash of the attack's source."""
PARTS = 10
"""Most reports of a trial's objective; the trial may be stopped at each."""


class TrialReporter:
    """Tells the user how a trial goes on, and stops it if the study says so.

    Attributes:
        trial: the trial that is at work, None between trials.
    """

    def __init__(self, shown: Reporter) -> None:
        self.shown = shown
        self.trial: optuna.Trial | None = None
        self._part = 0

    def start(self, trial: optuna.Trial | None) -> None:
        """Watch another trial, or none."""
        self.trial, self._part = trial, 0

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show where the trial is, and hand its objective, the first of the figures, to the study.

        Raises:
            TrialPruned: the study gives the trial up.
        """
        self.shown.progress(task, step, steps, figures)
        part = PARTS * step // steps
        if self.trial is None or not figures or part == self._part:
            return
        self._part = part
        self.trial.report(next(iter(figures.values())), part)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def notice(self, text: str) -> None:
        """Say something in one line."""
        self.shown.notice(text)


@dataclass(frozen=True)
class Tuner:
    """Works on the trials of a study.

    Attributes:
        study: the trials.
        run: what is tuned; a trial replaces some of its parameters.
        session: attacks; its reporter is `reporter`.
        reporter: watches the trials.
        count: the good images of a reconstruction, for an oracle that chooses by them; None for an attacker.
    """

    study: SharedStudy
    run: Run
    session: Session
    reporter: TrialReporter
    count: Callable[[Reconstruction], int] | None

    def work(self, wanted: int) -> Iterator[FrozenTrial]:
        """Attack until the study has `wanted` trials, and yield each one as it ends."""
        while True:
            with self.study.trial(wanted) as trial:
                if trial is None:
                    return
                ended = self.study.tell(trial, self._value(trial))
            yield ended

    def changed_source(self) -> str:
        """Return a line if trials of the study were made by another source of the attack, else an empty one."""
        made_by = {trial.user_attrs.get(ATTACK_SHA, "") for trial in self.study.trials}
        today = attack_sha(self.run.attack)
        if not today or not made_by - {"", today}:
            return ""
        changed = f"the attack's source changed since trials of version {self.run.attack.version} were made"
        return f"{self.run.title}: {changed}; remove {self.study.folder} to make them again"

    def tuned(self, chosen: dict[str, Any]) -> Run:
        """Return the run with the parameters that a trial chose."""
        params: AttackParams = self.run.attack.Params.model_validate(self.run.params.model_dump() | chosen)
        return replace(self.run, params=params)

    def _value(self, trial: optuna.Trial) -> float | None:
        """Attack; return what the study minimises, infinity if the attack failed, None if it was given up."""
        victim = self.session.victim(self.run.victim)
        self.reporter.start(trial)
        trial.set_user_attr(ATTACK_SHA, attack_sha(self.run.attack))
        try:
            attacked = self.session.attack(self.tuned(trial.params), victim)
        except optuna.TrialPruned:
            return None
        except (Exception, SystemExit) as error:  # with --jobs 0 the attack runs in this process
            trial.set_user_attr("reason", describe(error))
            return math.inf
        finally:
            self.reporter.start(None)
        loss = float(attacked.reconstruction.loss)
        trial.set_user_attr("loss", loss)
        trial.set_user_attr("seconds", attacked.seconds)
        if not math.isfinite(loss):
            trial.set_user_attr("reason", "its loss is not finite")
            return math.inf
        if self.count is None:
            return loss
        n_good = self.count(attacked.reconstruction)
        trial.set_user_attr("n_good", n_good)
        return -n_good
