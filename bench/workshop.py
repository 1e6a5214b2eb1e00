"""Where victims are trained and attacks run: one device, one data folder, and what is kept from one run to the next."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attacks.base import DivergedError
from bench.plan import Run, attack_sources
from bench.provenance import peak_memory
from bench.ui import Reporter
from victims.files import sha256_json, sha256_sources
from victims.hardware import prepare

if TYPE_CHECKING:
    import torch

    from attacks.base import Reconstruction
    from bench.evaluation import Instruments
    from victims.base import Victim
    from victims.spec import VictimSpec


@dataclass(frozen=True)
class Attacked:
    """What an attack returned, and what it cost.

    Attributes:
        reconstruction: the candidates.
        trace: figures over time.
        seconds: wall time of the attack alone.
        peak_mem_mb: peak memory up to its end, training included.
    """

    reconstruction: Reconstruction
    trace: list[dict[str, float]]
    seconds: float
    peak_mem_mb: float


class Workshop:
    """Trains victims, runs attacks and fetches what measures them.

    Args:
        data_dir: the data folder, None for the default.
        device: where to train and attack.
        reporter: who tells the user.
    """

    def __init__(self, data_dir: Path | None, device: torch.device, reporter: Reporter) -> None:
        self.data_dir, self.device, self.reporter = data_dir, device, reporter
        prepare(device)
        self._victims: dict[str, Victim] = {}
        self._data: dict[str, str] = {}
        self._instruments: dict[str, Instruments] = {}

    def victim_key(self, spec: VictimSpec) -> str:
        """Return the key of a victim in the cache, trained or not; its data are downloaded first if need be."""
        from victims.cache import victim_key

        return victim_key(spec, self._data_sha256(spec.dataset))

    def run_id(self, run: Run) -> str:
        """Return what names a run: its attack, victim and seed, and a hash of all that determines its candidates.

        How they are scored is no part of it: a new metric suite scores stored candidates again.
        """
        identity = [
            run.attack.name,
            sha256_sources(attack_sources(run.attack)),
            run.params.model_dump(mode="json"),
            self.victim_key(run.victim),
            run.seed,
            self.device.type,
        ]
        return f"{run.attack.name}-{run.victim.name}-s{run.seed}-{sha256_json(identity)[:10]}"

    def _data_sha256(self, dataset: str) -> str:
        from victims.datasets import fingerprint, load

        if dataset not in self._data:
            if fingerprint(dataset, self.data_dir) == "absent":
                load(dataset, self.data_dir)
            self._data[dataset] = fingerprint(dataset, self.data_dir)
        return self._data[dataset]

    def victim(self, spec: VictimSpec) -> Victim:
        """Return a trained victim, training it if need be; the last one that is no twin is kept in memory."""
        from victims.cache import obtain
        from victims.training.loop import TrainProgress

        if spec.name in self._victims:
            return self._victims[spec.name]

        def report(at: TrainProgress) -> None:
            figures = {"loss": at.loss, "accuracy": at.accuracy, "margin": at.margin}
            self.reporter.progress(f"train {spec.name}", at.step, at.steps, figures)

        victim = obtain(spec, self.data_dir, self.device, report, self.reporter.notice)
        if not spec.twin:
            self._victims = {spec.name: victim}
        return victim

    def attack(self, run: Run, victim: Victim) -> Attacked:
        """Run an attack on a victim.

        Raises:
            DivergedError: no candidate is finite.
            ValueError: the candidates have another shape than the victim's inputs.
        """
        import torch

        from attacks.base import AttackContext
        from bench.view import view_of

        def progress(step: int, steps: int, **figures: float) -> None:
            self.reporter.progress(run.title, step, steps, figures)

        ctx = AttackContext(self.device, torch.Generator().manual_seed(run.seed), progress)
        start = time.monotonic()
        reconstruction = run.attack(run.params).reconstruct(view_of(victim, run.knowledge, self.device), ctx)
        seconds = time.monotonic() - start
        _check(reconstruction, victim)
        return Attacked(reconstruction, ctx.trace, seconds, peak_memory(self.device))

    def instruments(self, dataset: str) -> Instruments:
        """Return what measures LPIPS and KL on a dataset, or why there is none; judges are trained if need be."""
        if dataset not in self._instruments:
            from bench.instruments import obtain_instruments

            self._instruments[dataset] = obtain_instruments(dataset, self.data_dir, self.device, self.reporter)
        return self._instruments[dataset]


def _check(reconstruction: Reconstruction, victim: Victim) -> None:
    shape = tuple(reconstruction.candidates.shape)
    expected = victim.split.inputs.shape[1:]
    if len(shape) != 4 or shape[0] == 0 or shape[1:] != expected:
        raise ValueError(f"candidates have shape {shape}, expected (m, {', '.join(map(str, expected))}) with m > 0")
    if reconstruction.confidence is not None and reconstruction.confidence.shape != shape[:1]:
        raise ValueError(f"confidence has shape {tuple(reconstruction.confidence.shape)}, expected ({shape[0]},)")
    finite = reconstruction.candidates.isfinite().flatten(1).all(1)
    if not bool(finite.any()):
        raise DivergedError("no candidate is finite")
