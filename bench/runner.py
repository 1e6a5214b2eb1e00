"""The execution of a plan of runs (attacks x victims x seeds), one by one, and the record of each."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks.base import DivergedError
from bench import __version__
from bench.plan import Run, attack_sources
from bench.provenance import git_commit, now_utc
from bench.records import RunRecord, Status
from bench.scorer import Scorer
from bench.store import Store, write_record
from bench.workshop import Attacked, Workshop
from victims.errors import UserError
from victims.files import sha256_json, sha256_sources

if TYPE_CHECKING:
    from victims.base import Victim


@dataclass(frozen=True)
class Outcome:
    """How one run of a plan ended, and whether it was there already."""

    run: Run
    record: RunRecord
    cached: bool


class Runner:
    """Executes runs, stores them and has them scored.

    Args:
        store: where results go.
        workshop: trains victims and runs attacks.
        scorer: scores what is stored.
        force: run again what is stored.
    """

    def __init__(self, store: Store, workshop: Workshop, scorer: Scorer, force: bool = False) -> None:
        self.store, self.workshop, self.scorer, self.force = store, workshop, scorer, force

    def execute(self, plan: Sequence[Run]) -> Iterable[Outcome]:
        """Run the plan; each run is stored before the next one starts.

        A stored run whose scores are of another metric suite, or lack a control that is asked for, is scored again.
        """
        for run in plan:
            run_id = self.workshop.run_id(run)
            stored = None if self.force else self.store.find(run_id)
            if stored is None:
                yield Outcome(run, self._execute(run, run_id), cached=False)
            elif self.scorer.complete(stored):
                yield Outcome(run, stored, cached=True)
            else:
                yield Outcome(run, self._rescored(run, stored), cached=False)

    def _rescored(self, run: Run, stored: RunRecord) -> RunRecord:
        """Score a stored run again; attack again if what it stored cannot be read any more."""
        try:
            return self.scorer.score(stored, run, self.workshop.victim(run.victim))
        except UserError as error:
            self.workshop.reporter.notice(str(error))
            return self._execute(run, stored.run_id)

    def _execute(self, run: Run, run_id: str) -> RunRecord:
        record = self._blank(run, run_id)
        try:
            reason = run.attack(run.params).supports(run.victim)
        except Exception as error:
            return self._failed(run, record, error, None)
        if reason is not None:
            record = record.model_copy(update={"status": Status.SKIPPED, "reason": reason})
            with self.store.writing(run_id) as folder:
                write_record(folder, record)
            return record
        victim = self.workshop.victim(run.victim)
        try:
            record = self._stored(record, self.workshop.attack(run, victim), victim)
            return self.scorer.score(record, run, victim)
        except (Exception, SystemExit) as error:  # one attack's failure is a row, not the end of the sweep
            return self._failed(run, record, error, victim)

    def _stored(self, record: RunRecord, attacked: Attacked, victim: Victim) -> RunRecord:
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
                "flags": ";".join([*_flags(victim), *reconstruction.flags]),
            }
        )
        with self.store.writing(record.run_id) as folder:
            artifacts.write_reconstruction(folder, reconstruction)
            artifacts.write_trace(folder, attacked.trace)
            write_record(folder, record)
        return record

    def _failed(self, run: Run, record: RunRecord, error: BaseException, victim: Victim | None) -> RunRecord:
        """Record a failure, with what the null controls of its victim get: that is what it counts as."""
        status = Status.DIVERGED if isinstance(error, DivergedError) else Status.ERROR
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        columns = {} if victim is None else self.scorer.null_columns(run, victim)
        record = record.model_copy(update={**columns, "status": status, "reason": reason})
        with self.store.writing(record.run_id) as folder:
            (folder / "log.txt").write_text("".join(traceback.format_exception(error)))
            write_record(folder, record)
        return record

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
            knowledge="+".join(sorted(run.knowledge)),
            control=run.attack.control,
            tuned_by=run.tuned_by,
            victim=run.victim.name,
            dataset=run.victim.dataset,
            n=run.victim.n,
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


def _flags(victim: Victim) -> list[str]:
    flags = []
    if victim.card.train_accuracy < 1:
        flags.append("not_interpolating")
    if victim.spec.architecture.biases == "all":
        flags.append("not_homogeneous")
    return flags
