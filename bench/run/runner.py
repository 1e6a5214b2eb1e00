"""Executes one run, from its claim to its record; a failure is a record too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from bench.plan.run import Run
from bench.run.failures import Failure, Fault, failure_of, scores_reason
from bench.run.provenance import blank_record
from bench.run.scorer import Scorer
from bench.run.session import Attacked, Session
from bench.run.steps import Again, Step, next_step
from bench.store.folders import Store, write_record
from bench.store.records import ENVIRONMENT, RunRecord, ScoreState, Status
from bench.terminal.text import describe, one_line
from victims.errors import UserError

if TYPE_CHECKING:
    from victims.informed.victim import AnyVictim


@dataclass(frozen=True)
class Outcome:
    """How one run of a plan ended.

    Attributes:
        record: its row.
        cached: whether the row was there already.
        stored: whether the row is on disk. A failure for want of data is stored once another run is.
        trouble: what went wrong and is not in the row, one line; empty if nothing.
    """

    record: RunRecord
    cached: bool = False
    stored: bool = True
    trouble: str = ""


class Runner:
    """Executes runs, stores them and has them scored.

    What an attack found is stored before it is scored, and stays whatever happens then: a failure to score is a state
    of the run's scores, and a failure to attack again is told and not stored.

    Args:
        store: where results go.
        session: trains victims and runs attacks.
        scorer: scores what is stored.
        again: which stored runs are run again.
        output: file descriptor of what this process prints, for the run's log; None if nobody catches it.
        debugger: called with every exception of an attack before it is recorded.
    """

    def __init__(
        self,
        store: Store,
        session: Session,
        scorer: Scorer,
        again: Again = Again.NEVER,
        output: int | None = None,
        debugger: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.store, self.session, self.scorer = store, session, scorer
        self.again, self.output, self.debugger = again, output, debugger

    def run(self, run: Run) -> Outcome:
        """Execute one run, unless it is stored, store it, and return how it ended.

        A stored run whose scores failed, are of another metric suite, or lack a control that is asked for, is scored
        again. If another process is at the run, this one waits.
        """
        run_id = self.session.run_id(run)
        with self.store.claimed(run_id, self.session.reporter.notice):
            stored = self.store.find(run_id)
            step = next_step(stored, self.again, self.scorer.complete)
            if stored is not None and step is Step.NOTHING:
                return Outcome(stored, cached=True)
            if stored is not None and step is Step.SCORE:
                return self._scored(run, stored)
            checkpoint = self.store.checkpoint(run_id)
            if self.again is Again.ALWAYS:
                checkpoint.unlink(missing_ok=True)
            outcome = self._attacked(run, self._blank(run, run_id), stored)
            if outcome.stored and outcome.record.status is not Status.OOM:  # those are tried again, from there
                checkpoint.unlink(missing_ok=True)
            return outcome

    def score(self, run: Run, run_id: str, protocol: str) -> Outcome:
        """Score a stored run again, even if its scores are complete, and return how that ended.

        Args:
            run: what it is a record of.
            run_id: the id of the stored run, which a lower version of its attack may have made.
            protocol: score under this protocol, as a row of its own; empty for the run's own.

        Raises:
            UserError: the run is not stored any more.
        """
        with self.store.claimed(run_id, self.session.reporter.notice):
            stored, victim = self.store.find(run_id), None
            if stored is None:
                raise UserError(f"{run_id}: it is not stored any more")
            try:
                victim = self._attacked_victim(run, stored)
                return Outcome(self.scorer.score(stored, run, victim, protocol or None))
            except UserError as error:
                return Outcome(stored, trouble=str(error))
            except (Exception, SystemExit) as error:
                if protocol not in ("", stored.protocol):
                    return Outcome(stored, trouble=f"under {protocol}: {describe(error)}")
                return Outcome(self.scorer.record_failure(stored, scores_reason(error), run, victim))

    def completed(self, run: Run, row: RunRecord) -> Outcome:
        """Return a row whose reconstruction is not stored here with the twins' counts that it lacked; store nothing."""
        from bench.run.nulls.later import add_twins

        try:
            return Outcome(add_twins(row, run, self.scorer.controls), stored=False)
        except (Exception, SystemExit) as error:
            return Outcome(row, stored=False, trouble=describe(error))

    def lost(self, run: Run, run_id: str, failure: Failure, protocol: str = "") -> Outcome:
        """Record a run whose process died, and return the outcome.

        Its scoring failed if a reconstruction is stored, else the run failed; its checkpoint stays, to be retried from.

        Scoring under another protocol than the run's own leaves no trace in the run's own row; `protocol` names it.
        """
        with self.store.claimed(run_id, self.session.reporter.notice):
            stored = self.store.find(run_id)
            if stored is not None and protocol not in ("", stored.protocol):
                return Outcome(stored, trouble=f"under {protocol}: {failure.reason}")
            victim = self._trained(run) if failure.nulls else None
            if stored is not None and stored.status is Status.OK:
                if self.scorer.complete(stored):
                    return Outcome(stored, trouble=_kept(failure.status, failure.reason))
                fault = Fault.MEMORY if failure.status is Status.OOM else Fault.METRIC
                return Outcome(self.scorer.record_failure(stored, f"{fault}: {failure.reason}", run, victim))
            return self._failed(run, self._blank(run, run_id), None, failure, victim)

    def _blank(self, run: Run, run_id: str) -> RunRecord:
        return blank_record(run, run_id, self.session.definition(run.victim), self.session.device)

    def _trained(self, run: Run) -> AnyVictim | None:
        """Return the run's victim if it is trained and can be read."""
        try:
            return self.session.victim(run.victim) if self.session.is_trained(run.victim) else None
        except (UserError, OSError, SafetensorError):
            return None

    def _attacked_victim(self, run: Run, stored: RunRecord) -> AnyVictim:
        """Return the victim that a stored run has attacked.

        Raises:
            UserError: it has other weights now, or its data are missing.
        """
        victim = self.session.victim(run.victim)
        if victim.card.weights_sha256 != stored.victim_sha:
            raise UserError(
                f"{run.victim.name} has other weights now than this run attacked; `run --force` runs it again"
            )
        return victim

    def _scored(self, run: Run, stored: RunRecord) -> Outcome:
        """Score a stored run, and return how that ended; attack again if what it stored cannot be read any more."""
        from bench.run.artifacts import UnreadableError

        if not stored.n:  # no training image is given, so there is nothing to compare candidates with
            return Outcome(stored)
        try:
            victim = self._attacked_victim(run, stored)
        except (UserError, OSError, SafetensorError) as error:
            return Outcome(stored, trouble=f"it cannot be scored: {describe(error)}")
        try:
            return Outcome(self.scorer.score(stored, run, victim))
        except UnreadableError as error:
            self.session.reporter.notice(f"{error.cause}; it is attacked again")
            blank = self._blank(run, stored.run_id)
            return self._attacked(run, blank, self.store.find(stored.run_id))
        except (Exception, SystemExit) as error:
            if self.debugger is not None:
                self.debugger(error)
            return Outcome(self.scorer.record_failure(stored, scores_reason(error), run, victim))

    def _attacked(self, run: Run, record: RunRecord, before: RunRecord | None) -> Outcome:
        """Attack, store what was found, score it, and return how that ended.

        Args:
            run: the run.
            record: its record as far as it is known beforehand.
            before: what is stored of it, and stays if the attack fails now.
        """
        from bench.scoring.protocols import protocol_named

        victim = None
        try:
            reason = run.declined()
            protocol_named(run.protocol)
            if reason is not None:
                skipped = {"status": Status.SKIPPED, "reason": one_line(reason)}
                return self._concluded(record.model_copy(update=skipped), before)
            try:
                victim = self.session.victim(run.victim)
            except (UserError, OSError, SafetensorError) as error:
                reason = str(error) if isinstance(error, UserError) else f"the victim cannot be kept: {describe(error)}"
                failed = {"status": Status.ERROR, "reason": reason, "flags": ENVIRONMENT}
                return Outcome(record.model_copy(update=failed), stored=False)
            attacked = self.session.attack(run, victim, self.store.checkpoint(record.run_id))
        except (Exception, SystemExit) as error:  # one run's failure is a row, not the end of the sweep
            if self.debugger is not None:
                self.debugger(error)
            return self._failed(run, record, before, failure_of(error), victim)
        try:
            record = self._stored(record, attacked, victim)
        except OSError as error:
            update = {"status": Status.ERROR, "flags": ENVIRONMENT}
            reason = f"what it found cannot be stored: {describe(error)}"
            return Outcome(record.model_copy(update={**update, "reason": reason}), stored=False)
        except Exception as error:  # what it returned is no Reconstruction
            return self._failed(run, record, before, failure_of(error), victim)
        return self._scored(run, record)

    def _stored(self, record: RunRecord, attacked: Attacked, victim: AnyVictim) -> RunRecord:
        """Store an attack's result before it is scored, and return its record: a kill during scoring loses nothing."""
        from bench.run import artifacts

        reconstruction = attacked.reconstruction
        record = record.model_copy(
            update={
                "sequence": self.store.next_sequence(),
                "scores": ScoreState.PENDING if record.n else ScoreState.NONE,
                "n_candidates": len(reconstruction.candidates),
                "attack_loss": float(reconstruction.loss) if math.isfinite(reconstruction.loss) else None,
                "grad_evals": int(reconstruction.grad_evals),
                "wall_s": attacked.seconds,
                "victim_sha": victim.card.weights_sha256,
                "train_s": victim.card.train_s,
                "test_accuracy": victim.card.test_accuracy,
                "peak_mem_mb": attacked.peak_mem_mb,
                "flags": ";".join(map(one_line, [*victim.flags, *attacked.flags, *reconstruction.flags])),
            }
        )
        with self.store.writing(record.run_id) as folder:
            record = record.model_copy(update={"log": self._write_log(folder, record.run_id)})
            artifacts.write_reconstruction(folder, reconstruction)
            artifacts.write_trace(folder, attacked.trace)
            write_record(folder, record)
        return record

    def _failed(
        self, run: Run, record: RunRecord, before: RunRecord | None, failure: Failure, victim: AnyVictim | None
    ) -> Outcome:
        """Store a failure with its null controls, whose count stands in for its own, and return it as an outcome."""
        columns = {} if victim is None else self.scorer.null_columns(run, victim)
        update = {"status": failure.status, "reason": failure.reason}
        return self._concluded(record.model_copy(update={**columns, **update}), before, failure.details)

    def _concluded(self, record: RunRecord, before: RunRecord | None, details: str = "") -> Outcome:
        """Return the outcome of a run that found nothing; store it unless something was found of this run earlier."""
        if before is not None and before.status is Status.OK:
            return Outcome(before, trouble=_kept(record.status, record.reason))
        try:
            record = record.model_copy(update={"sequence": self.store.next_sequence()})
            with self.store.writing(record.run_id) as folder:
                record = record.model_copy(update={"log": self._write_log(folder, record.run_id, details)})
                write_record(folder, record)
        except OSError as error:
            return Outcome(record, stored=False, trouble=f"it cannot be stored: {describe(error)}")
        return Outcome(record)

    def _write_log(self, folder: Path, run_id: str, details: str = "") -> str:
        """Write what the run has printed, and more, into its folder; return the log's place in the results folder."""
        from bench.run.artifacts import write_log

        path = write_log(folder, self.output, details)
        return "" if path is None else str((self.store.folder(run_id) / path.name).relative_to(self.store.root))


def _kept(status: Status, reason: str) -> str:
    return f"run again, it ended as {status} ({reason}); what is stored from before stays"
