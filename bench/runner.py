"""The execution of a plan of runs (attacks x victims x seeds), one by one, and the record of each."""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attacks.base import DivergedError
from bench import __version__
from bench.plan import Run, attack_sources
from bench.provenance import git_commit, now_utc, peak_memory
from bench.records import RunRecord, Status
from bench.store import Store
from victims.files import sha256_json, sha256_sources

if TYPE_CHECKING:
    import torch

    from attacks.base import Attack, Reconstruction
    from victims.base import Victim
    from victims.spec import VictimSpec


class Reporter(Protocol):
    """Who tells the user how things go; bench/ui.py on a terminal, nothing at all in a library."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Show where a task is."""

    def notice(self, text: str) -> None:
        """Say something in one line."""


@dataclass(frozen=True)
class Outcome:
    """How one run of a plan ended, and whether it was there already."""

    run: Run
    record: RunRecord
    cached: bool


class Runner:
    """Executes runs on one device and stores them.

    Args:
        store: where results go.
        control: the null control, run beside every run with as many candidates; None if no attack is one.
        data_dir: the data folder, None for the default.
        device: where to train and attack.
        reporter: who tells the user.
        force: run again what is stored.
    """

    def __init__(
        self,
        store: Store,
        control: type[Attack[Any]] | None,
        data_dir: Path | None,
        device: torch.device,
        reporter: Reporter,
        force: bool = False,
    ) -> None:
        self.store, self.control, self.data_dir = store, control, data_dir
        self.device, self.reporter, self.force = device, reporter, force
        self._victims: dict[str, Victim] = {}
        self._data: dict[str, str] = {}

    def execute(self, plan: Sequence[Run]) -> Iterable[Outcome]:
        """Run the plan; each run is stored before the next one starts."""
        for run in plan:
            run_id = self.run_id(run)
            stored = None if self.force else self.store.find(run_id)
            yield Outcome(run, stored or self._execute(run, run_id), cached=stored is not None)

    def run_id(self, run: Run) -> str:
        """Return what names a run: its attack, victim and seed, and a hash of all that determines its result."""
        from bench.scoring import METRIC_SUITE
        from victims.cache import victim_key

        identity = [
            run.attack.name,
            sha256_sources(attack_sources(run.attack)),
            run.params.model_dump(mode="json"),
            victim_key(run.victim, self._data_sha256(run.victim.dataset)),
            run.seed,
            self.device.type,
            METRIC_SUITE,
        ]
        return f"{run.attack.name}-{run.victim.name}-s{run.seed}-{sha256_json(identity)[:10]}"

    def _data_sha256(self, dataset: str) -> str:
        """Return the hash of a dataset's file, downloaded first if need be: a run is named by the data it saw."""
        from victims.datasets import fingerprint, load

        if dataset not in self._data:
            if fingerprint(dataset, self.data_dir) == "absent":
                load(dataset, self.data_dir)
            self._data[dataset] = fingerprint(dataset, self.data_dir)
        return self._data[dataset]

    def victim(self, spec: VictimSpec) -> Victim:
        """Return a trained victim, training it if need be; the last one is kept in memory."""
        from victims.cache import obtain
        from victims.training.loop import TrainProgress

        if spec.name not in self._victims:

            def report(at: TrainProgress) -> None:
                figures = {"loss": at.loss, "accuracy": at.accuracy, "margin": at.margin}
                self.reporter.progress(f"train {spec.name}", at.step, at.steps, figures)

            self._victims = {spec.name: obtain(spec, self.data_dir, self.device, report, self.reporter.notice)}
        return self._victims[spec.name]

    def _execute(self, run: Run, run_id: str) -> RunRecord:
        record = self._blank(run, run_id)
        try:
            reason = run.attack.supports(run.victim)
        except Exception as error:
            return self._failed(record, error)
        if reason is not None:
            record = record.model_copy(update={"status": Status.SKIPPED, "reason": reason})
            with self.store.writing(run_id) as folder:
                _write_record(folder, record)
            return record
        victim = self.victim(run.victim)
        try:
            reconstruction, trace, seconds = self._attack(run, victim)
            _check(reconstruction, victim)
            return self._score(run, record, victim, reconstruction, trace, seconds)
        except (Exception, SystemExit) as error:  # one attack's failure is a row, not the end of the sweep
            return self._failed(record, error)

    def _failed(self, record: RunRecord, error: BaseException) -> RunRecord:
        status = Status.DIVERGED if isinstance(error, DivergedError) else Status.ERROR
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        record = record.model_copy(update={"status": status, "reason": reason})
        with self.store.writing(record.run_id) as folder:
            (folder / "log.txt").write_text("".join(traceback.format_exception(error)))
            _write_record(folder, record)
        return record

    def _attack(self, run: Run, victim: Victim) -> tuple[Reconstruction, list[dict[str, float]], float]:
        import torch

        from attacks.base import AttackContext
        from bench.view import view_of

        def progress(step: int, steps: int, **figures: float) -> None:
            self.reporter.progress(run.title, step, steps, figures)

        ctx = AttackContext(self.device, torch.Generator().manual_seed(run.seed), progress)
        start = time.monotonic()
        reconstruction = run.attack(run.params).reconstruct(view_of(victim, run.knowledge, self.device), ctx)
        return reconstruction, ctx.trace, time.monotonic() - start

    def _score(
        self,
        run: Run,
        record: RunRecord,
        victim: Victim,
        reconstruction: Reconstruction,
        trace: list[dict[str, float]],
        seconds: float,
    ) -> RunRecord:
        from bench import artifacts
        from bench.scored import null_counts, score_all

        candidates = reconstruction.candidates.detach().float().cpu()
        scored = score_all(candidates, victim)
        columns = scored.columns()
        if self.control is not None:
            control = run if run.attack.control else self._control(run, len(candidates))
            null = scored if run.attack.control else score_all(self._attack(control, victim)[0].candidates, victim)
            columns |= null_counts(null)
        record = record.model_copy(
            update={
                **columns,
                "n_candidates": len(candidates),
                "attack_loss": _finite(reconstruction.loss),
                "grad_evals": int(reconstruction.grad_evals),
                "wall_s": seconds,
                "victim_sha": victim.card.weights_sha256,
                "train_s": victim.card.train_s,
                "test_accuracy": victim.card.test_accuracy,
                "peak_mem_mb": peak_memory(self.device),
                "flags": ";".join([*_flags(victim), *reconstruction.flags]),
            }
        )
        with self.store.writing(record.run_id) as folder:
            artifacts.write(folder, reconstruction, victim, scored, trace, run.title)
            _write_record(folder, record)
        return record

    def _control(self, run: Run, candidates: int) -> Run:
        assert self.control is not None
        return Run(
            self.control,
            self.control.Params.model_validate({"candidates": candidates}),
            "",
            "default",
            run.victim,
            run.seed,
        )

    def _blank(self, run: Run, run_id: str) -> RunRecord:
        import torch

        from bench.scored import ROW_PROTOCOL
        from bench.scoring import METRIC_SUITE
        from victims.hardware import cpu_name, gpu_name

        params = run.params.model_dump(mode="json")
        return RunRecord(
            run_id=run_id,
            status=Status.OK,
            attack=run.attack.name,
            variant=run.variant,
            params_hash=sha256_json(params)[:10],
            params_json=json.dumps(params, sort_keys=True),
            knowledge="+".join(sorted(run.knowledge)),
            tuned_by=run.tuned_by,
            victim=run.victim.name,
            dataset=run.victim.dataset,
            n=run.victim.n,
            seed=run.seed,
            protocol=ROW_PROTOCOL,
            metric_suite=METRIC_SUITE,
            device=self.device.type,
            cpu=cpu_name(),
            gpu=gpu_name(self.device),
            torch=torch.__version__,
            bench_version=__version__,
            git_commit=git_commit(),
            started_utc=now_utc(),
        )


def _check(reconstruction: Reconstruction, victim: Victim) -> None:
    shape = tuple(reconstruction.candidates.shape)
    expected = victim.split.inputs.shape[1:]
    if len(shape) != 4 or shape[0] == 0 or shape[1:] != expected:
        raise ValueError(f"candidates have shape {shape}, expected (m, {', '.join(map(str, expected))}) with m > 0")
    finite = reconstruction.candidates.isfinite().flatten(1).all(1)
    if not bool(finite.any()):
        raise DivergedError("no candidate is finite")


def _finite(value: float) -> float | None:
    """Return a number, or None for what no column of runs.csv can hold."""
    return float(value) if math.isfinite(value) else None


def _flags(victim: Victim) -> list[str]:
    flags = []
    if victim.card.train_accuracy < 1:
        flags.append("not_interpolating")
    if victim.spec.architecture.biases == "all":
        flags.append("not_homogeneous")
    return flags


def _write_record(folder: Path, record: RunRecord) -> None:
    (folder / "run.json").write_text(record.model_dump_json(indent=1))
