"""Where victims are trained and attacks run: one device, one data folder, and what is kept from one run to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attacks.base import DivergedError
from bench.plan import Run, attack_sources
from bench.provenance import peak_memory
from bench.ui import Reporter
from victims.errors import UserError
from victims.files import sha256_json, sha256_sources
from victims.hardware import prepare

if TYPE_CHECKING:
    import torch

    from attacks.base import Reconstruction
    from attacks.context import Checkpoints
    from bench.evaluation import Instruments
    from victims.informed.spec import AnySpec
    from victims.informed.victim import AnyVictim


@dataclass(frozen=True)
class Attacked:
    """What an attack returned, and what it cost.

    Attributes:
        reconstruction: the candidates.
        trace: figures over time.
        seconds: wall time of the attack alone, that of the process it is resumed from included.
        peak_mem_mb: peak memory up to its end, training included.
        flags: what the harness has to say of it.
    """

    reconstruction: Reconstruction
    trace: list[dict[str, float]]
    seconds: float
    peak_mem_mb: float
    flags: tuple[str, ...]


class Workshop:
    """Trains victims, runs attacks and fetches what measures them.

    Args:
        data_dir: the data folder, None for the default.
        device: where to train and attack.
        reporter: who tells the user.
        downloads: whether data that are absent may be downloaded.
    """

    def __init__(self, data_dir: Path | None, device: torch.device, reporter: Reporter, downloads: bool = True) -> None:
        self.data_dir, self.device, self.reporter, self.downloads = data_dir, device, reporter, downloads
        prepare(device)
        self._victims: dict[str, AnyVictim] = {}
        self._data: dict[str, str | UserError] = {}
        self._instruments: dict[str, Instruments] = {}

    def victim_key(self, spec: AnySpec) -> str:
        """Return the key of a victim in the cache, trained or not; its data are downloaded first if need be.

        Raises:
            UserError: the data are missing, or absent and not to be downloaded.
        """
        from victims.cache import victim_key

        return victim_key(spec, self._data_sha256(spec.dataset))

    def run_id(self, run: Run) -> str:
        """Return what names a run: its attack, victim and seed, and a hash of all that determines its candidates.

        How they are scored is no part of it: a new metric suite scores stored candidates again. Missing data have an
        identity too: the failure for want of them is not the run that is made once they are there.
        """
        try:
            victim_key = self.victim_key(run.victim)
        except UserError:
            victim_key = "absent"
        identity = [
            run.attack.name,
            sha256_sources(attack_sources(run.attack)),
            run.params.model_dump(mode="json"),
            victim_key,
            run.seed,
            self.device.type,
        ]
        if str(run.budget):
            identity.append(str(run.budget))
        return f"{run.attack.name}-{run.victim.name}-s{run.seed}-{sha256_json(identity)[:10]}"

    def _data_sha256(self, dataset: str) -> str:
        from victims.datasets import fingerprint, load

        if dataset not in self._data:
            try:
                if fingerprint(dataset, self.data_dir) == "absent":
                    if not self.downloads:
                        raise UserError(f"dataset {dataset} is absent; it is downloaded first")
                    load(dataset, self.data_dir)
                self._data[dataset] = fingerprint(dataset, self.data_dir)
            except UserError as error:
                self._data[dataset] = error  # a download that failed is not tried again for every run
        known = self._data[dataset]
        if isinstance(known, UserError):
            raise known
        return known

    def is_trained(self, spec: AnySpec) -> bool:
        """Say whether a victim is in the cache."""
        from victims.cache import trained_card

        try:
            return bool(trained_card(spec, self.data_dir))
        except UserError:
            return False

    def victim(self, spec: AnySpec) -> AnyVictim:
        """Return a trained victim, training it if need be; the last one that is no twin is kept in memory."""
        from victims.cache import obtain
        from victims.informed.cache import obtain as obtain_informed
        from victims.training.loop import TrainProgress

        if spec.name in self._victims:
            return self._victims[spec.name]

        def report(at: TrainProgress) -> None:
            figures = {"loss": at.loss, "accuracy": at.accuracy, "margin": at.margin}
            self.reporter.progress(f"train {spec.name}", at.step, at.steps, figures)

        def count(done: int, models: int) -> None:
            self.reporter.progress(f"train the models of {spec.name}", done, models, {})

        victim: AnyVictim
        if spec.setting == "dataset":
            victim = obtain(spec, self.data_dir, self.device, report, self.reporter.notice)
        else:
            victim = obtain_informed(spec, self.data_dir, self.device, count, self.reporter.notice)
        if not spec.twin:
            self._victims = {spec.name: victim}
        return victim

    def attack(self, run: Run, victim: AnyVictim, checkpoints: Checkpoints | None = None) -> Attacked:
        """Run an attack on a victim.

        Args:
            run: the attack, its seed and its budget.
            victim: whom it attacks.
            checkpoints: where its state is kept for another process to go on from.

        Raises:
            DivergedError: no candidate is finite.
            ValueError: the candidates have another shape than the victim's inputs, or the victim is not what it was.
        """
        import torch

        from attacks.base import AttackContext
        from bench.scoring.perceptual import load_perceptual
        from bench.view import require_intact, view_of
        from victims.cache import cache_dir

        def progress(step: int, steps: int, **figures: float) -> None:
            self.reporter.progress(run.title, step, steps, figures)

        def perceptual() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
            return load_perceptual(None, cache_dir()).distance

        view = view_of(victim, run.knowledge, self.device)
        generator = torch.Generator().manual_seed(run.seed)
        ctx = AttackContext(self.device, generator, progress, run.budget, checkpoints, perceptual)
        self.reporter.deadline(run.budget.seconds)
        try:
            reconstruction = run.attack(run.params).reconstruct(view, ctx)
            seconds = ctx.seconds
        finally:
            self.reporter.deadline(None)
        _check(reconstruction, victim)
        require_intact(view, victim)
        spent = ctx.stopped or seconds > (run.budget.seconds or math.inf)
        return Attacked(reconstruction, ctx.trace, seconds, peak_memory(self.device), ("budget",) if spent else ())

    def instruments(self, dataset: str) -> Instruments:
        """Return what measures LPIPS and KL on a dataset, or why there is none; judges are trained if need be."""
        if dataset not in self._instruments:
            from bench.instruments import obtain_instruments

            self._instruments[dataset] = obtain_instruments(dataset, self.data_dir, self.device, self.reporter)
        return self._instruments[dataset]


def _check(reconstruction: Reconstruction, victim: AnyVictim) -> None:
    shape = tuple(reconstruction.candidates.shape)
    expected = victim.input_shape
    if len(shape) != 4 or shape[0] == 0 or shape[1:] != expected:
        raise ValueError(f"candidates have shape {shape}, expected (m, {', '.join(map(str, expected))}) with m > 0")
    if not reconstruction.candidates.is_floating_point():
        raise ValueError(f"candidates are {reconstruction.candidates.dtype}, expected torch.float32")
    if victim.spec.setting == "informed" and shape[0] != victim.spec.n_targets:
        raise ValueError(
            f"{shape[0]} candidates for {victim.spec.n_targets} targets; expected one each, in their order"
        )
    if reconstruction.confidence is not None and reconstruction.confidence.shape != shape[:1]:
        raise ValueError(f"confidence has shape {tuple(reconstruction.confidence.shape)}, expected ({shape[0]},)")
    finite = reconstruction.candidates.isfinite().flatten(1).all(1)
    if not bool(finite.any()):
        raise DivergedError("no candidate is finite")
