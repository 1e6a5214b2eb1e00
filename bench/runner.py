"""The execution of one run, from its claim to its record; what fails is a record too."""

from __future__ import annotations

import json
import math
import os
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attacks.base import DivergedError
from bench import __version__
from bench.checkpoint import CheckpointFile
from bench.plan import Run, attack_sources
from bench.provenance import git_commit, now_utc
from bench.records import ENVIRONMENT, RunRecord, Status
from bench.scorer import Scorer
from bench.steps import Again, Step, next_step
from bench.store import Store, write_record
from bench.workshop import Attacked, Workshop
from victims.errors import UserError
from victims.files import sha256_json, sha256_sources

if TYPE_CHECKING:
    from attacks.base import Knowledge
    from victims.informed.victim import AnyVictim

NO_MEMORY = "can't allocate memory"
"""What torch says when the CPU's memory is at its end, in a plain RuntimeError."""


@dataclass(frozen=True)
class Outcome:
    """How one run of a plan ended.

    Attributes:
        record: its row.
        cached: it was there already.
        stored: its row is on disk; what failed for want of data is not, until it is known that not all runs do.
    """

    record: RunRecord
    cached: bool = False
    stored: bool = True


@dataclass(frozen=True)
class Failure:
    """How the process of a run ended that could not tell itself.

    Attributes:
        status: timeout, oom or error.
        reason: one line.
        since: when the process began the run, ISO 8601: what is stored from before is none of its work.
        nulls: whether the null controls of its victim are computed.
    """

    status: Status
    reason: str
    since: str
    nulls: bool = True


class Runner:
    """Executes runs, stores them and has them scored.

    Args:
        store: where results go.
        workshop: trains victims and runs attacks.
        scorer: scores what is stored.
        again: what is run again of what is stored.
        output: file descriptor of what this process prints, for the run's log; None if nobody catches it.
        debugger: called with every exception of an attack before it is recorded.
    """

    def __init__(
        self,
        store: Store,
        workshop: Workshop,
        scorer: Scorer,
        again: Again = Again.NEVER,
        output: int | None = None,
        debugger: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.store, self.workshop, self.scorer = store, workshop, scorer
        self.again, self.output, self.debugger = again, output, debugger

    def run(self, run: Run) -> Outcome:
        """Execute one run, unless it is stored, and store it.

        A stored run whose scores are of another metric suite, or lack a control that is asked for, is scored again.
        One that another process is at is waited for.
        """
        run_id = self.workshop.run_id(run)
        with self.store.claimed(run_id, self.workshop.reporter.notice):
            stored = self.store.find(run_id)
            step = next_step(stored, self.again, self.scorer.complete)
            if stored is not None and step is Step.NOTHING:
                return Outcome(stored, cached=True)
            if stored is not None and step is Step.SCORE:
                return self._rescored(run, stored)
            checkpoints = CheckpointFile(self.store.checkpoint(run_id))
            if self.again is Again.ALWAYS:
                checkpoints.discard()
            outcome = self._attacked(run, self._blank(run, run_id), checkpoints)
            checkpoints.discard()
            return outcome

    def lost(self, run: Run, failure: Failure) -> Outcome:
        """Record a run whose process is gone.

        If it had stored its reconstruction, it died in a null control: the run is scored, without those that attack.
        """
        run_id = self.workshop.run_id(run)
        with self.store.claimed(run_id, self.workshop.reporter.notice):
            stored = self.store.find(run_id)
            if stored is not None and stored.status is Status.OK and stored.started_utc >= failure.since:
                if self.scorer.complete(stored):
                    return Outcome(stored)
                return self._rescored(run, stored)
            CheckpointFile(self.store.checkpoint(run_id)).discard()
            record = self._blank(run, run_id).model_copy(
                update={"status": failure.status, "reason": failure.reason, "started_utc": failure.since}
            )
            counted = failure.nulls and self.workshop.is_trained(run.victim)
            victim = self.workshop.victim(run.victim) if counted else None
            return Outcome(self._failed(run, record, victim))

    def _rescored(self, run: Run, stored: RunRecord) -> Outcome:
        """Score a stored run again; attack again if what it stored cannot be read any more."""
        try:
            return Outcome(self.scorer.score(stored, run, self.workshop.victim(run.victim)))
        except UserError as error:
            self.workshop.reporter.notice(str(error))
            return self._attacked(run, self._blank(run, stored.run_id), None)

    def _attacked(self, run: Run, record: RunRecord, checkpoints: CheckpointFile | None) -> Outcome:
        victim = None
        try:
            reason = run.declined()
            if reason is not None:
                record = record.model_copy(update={"status": Status.SKIPPED, "reason": reason})
                with self.store.writing(record.run_id) as folder:
                    write_record(folder, record)
                return Outcome(record)
            try:
                victim = self.workshop.victim(run.victim)
            except UserError as error:
                failed = {"status": Status.ERROR, "reason": str(error), "flags": ENVIRONMENT}
                return Outcome(record.model_copy(update=failed), stored=False)
            attacked = self.workshop.attack(run, victim, checkpoints)
            record = self._stored(record, attacked, victim)
            return Outcome(self.scorer.score(record, run, victim))
        except (Exception, SystemExit) as error:  # one run's failure is a row, not the end of the sweep
            if self.debugger is not None:
                self.debugger(error)
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            record = record.model_copy(update={"status": failure_status(error), "reason": reason})
            return Outcome(self._failed(run, record, victim, "".join(traceback.format_exception(error))))

    def _stored(self, record: RunRecord, attacked: Attacked, victim: AnyVictim) -> RunRecord:
        """Store what an attack returned, not scored yet, so that a kill while it is scored loses no attack."""
        from bench import artifacts

        reconstruction = attacked.reconstruction
        record = record.model_copy(
            update={
                "n_candidates": len(reconstruction.candidates),
                "attack_loss": float(reconstruction.loss) if math.isfinite(reconstruction.loss) else None,
                "grad_evals": int(reconstruction.grad_evals),
                "wall_s": attacked.seconds,
                "victim_sha": victim.card.weights_sha256,
                "train_s": victim.card.train_s,
                "test_accuracy": victim.card.test_accuracy,
                "peak_mem_mb": attacked.peak_mem_mb,
                "flags": ";".join([*victim.flags, *attacked.flags, *reconstruction.flags]),
            }
        )
        with self.store.writing(record.run_id) as folder:
            record = record.model_copy(update={"log": self._write_log(folder, record.run_id)})
            artifacts.write_reconstruction(folder, reconstruction)
            artifacts.write_trace(folder, attacked.trace)
            write_record(folder, record)
        return record

    def _failed(self, run: Run, record: RunRecord, victim: AnyVictim | None, details: str = "") -> RunRecord:
        """Store a failure, with what the null controls of its victim get: that is what it counts as."""
        columns = {} if victim is None else self.scorer.null_columns(run, victim)
        with self.store.writing(record.run_id) as folder:
            record = record.model_copy(update={**columns, "log": self._write_log(folder, record.run_id, details)})
            write_record(folder, record)
        return record

    def _write_log(self, folder: Path, run_id: str, details: str = "") -> str:
        """Write what the run has printed, and more, into its folder; return the log's place in the results folder."""
        path = folder / "log.txt"
        if self.output is not None and os.fstat(self.output).st_size:
            with open(os.dup(self.output), "rb") as printed, path.open("wb") as log:  # noqa: PTH123 it has no path
                printed.seek(0)
                shutil.copyfileobj(printed, log)
        if details:
            with path.open("a") as log_text:
                log_text.write(details)
        return str((self.store.folder(run_id) / path.name).relative_to(self.store.root)) if path.exists() else ""

    def _blank(self, run: Run, run_id: str) -> RunRecord:
        import torch

        from bench.scoring import METRIC_SUITE
        from victims.hardware import cpu_name, gpu_name

        device = self.workshop.device
        params = run.params.model_dump(mode="json")
        return RunRecord(
            run_id=run_id,
            status=Status.OK,
            attack=run.attack.name,
            variant=run.variant,
            params_hash=sha256_json(params)[:10],
            params_json=json.dumps(params, sort_keys=True),
            attack_sha=sha256_sources(attack_sources(run.attack))[:16],
            knowledge="+".join(sorted(_knowledge(run))),
            control=run.attack.control,
            tuned_by=run.tuned_by,
            budget=str(run.budget),
            victim=run.victim.name,
            dataset=run.victim.dataset,
            n=run.victim.n_targets,
            n_fixed=run.victim.n if run.victim.setting == "informed" else None,
            n_classes=run.victim.n_classes,
            seed=run.seed,
            protocol=run.attack.protocol,
            metric_suite=METRIC_SUITE,
            device=device.type,
            cpu=cpu_name(),
            gpu=gpu_name(device),
            torch=torch.__version__,
            bench_version=__version__,
            git_commit=git_commit(),
            started_utc=now_utc(),
        )


def failure_status(error: BaseException) -> Status:
    """Return what a row says of an exception: diverged, out of memory, or else an error."""
    import torch

    if isinstance(error, DivergedError):
        return Status.DIVERGED
    exhausted = isinstance(error, MemoryError | torch.OutOfMemoryError) or NO_MEMORY in str(error)
    return Status.OOM if exhausted else Status.ERROR


def _knowledge(run: Run) -> frozenset[Knowledge]:
    """Return what the attack is told; what it declares if it cannot even be made."""
    try:
        return run.knowledge
    except Exception:
        return run.attack.needs
