"""A session: one device and one data folder, on which victims are trained and attacks run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan.run import Run
from bench.run.attempt import Attacked, Attempt, perform
from bench.run.setup import Setup
from bench.terminal.progress import Reporter
from victims.errors import UserError
from victims.files import sha256_json
from victims.training.hardware import prepare

if TYPE_CHECKING:
    from bench.run.isolation.host import IsolatedAttacks
    from bench.scoring.evaluation import LearnedMetrics
    from victims.informed.spec import AnySpec
    from victims.informed.victim import AnyVictim


class Session:
    """Trains victims, runs attacks, and provides the learned metrics.

    Args:
        setup: the device, the data folder, and the results folder, whose runs an attack has no business with.
        reporter: who tells the user.
        downloads: whether data that are absent may be downloaded.
        host: runs attacks in processes of their own; None for this process, where the training images are.
    """

    def __init__(
        self, setup: Setup, reporter: Reporter, downloads: bool = True, host: IsolatedAttacks | None = None
    ) -> None:
        import torch

        self.data_dir, self.results_dir, self.device = setup.data_dir, setup.results_dir, torch.device(setup.device)
        self.reporter, self.downloads, self.host = reporter, downloads, host
        prepare(self.device)
        self._victims: dict[str, AnyVictim] = {}
        self._data: dict[str, str | UserError] = {}
        self._learned_metrics: dict[str, LearnedMetrics] = {}

    def victim_key(self, spec: AnySpec) -> str:
        """Return the key of a victim in the cache, trained or not; its data are downloaded first if need be.

        Raises:
            UserError: the data are missing, or absent and not to be downloaded.
        """
        from victims.cache import victim_key

        return victim_key(spec, self._data_sha256(spec.dataset))

    def definition(self, spec: AnySpec) -> str:
        """Return the key of the victim as it is described, the same for all of its retrainings; "" without its data."""
        try:
            return self.victim_key(spec.described)
        except UserError:
            return ""

    def run_id(self, run: Run) -> str:
        """Return the id of a run: attack, victim, seed, and a hash of all that determines its candidates.

        What changes numbers is told by versions: the attack's is hashed, and the recipe's with the victim's key. How
        candidates are scored is no part of it: a new metric suite scores stored candidates again. Missing data have an
        identity too: the failure for want of them is not the run that is made once they are there.
        """
        try:
            victim_key = self.victim_key(run.victim)
        except UserError:
            victim_key = "absent"
        identity = [
            run.attack.name,
            run.attack.version,
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
        """Return a trained victim, training it if need be; the last one that is no twin is kept in memory.

        Raises:
            UserError: its data are missing, it cannot be trained, or the cache cannot be written.
        """
        from victims.deletion.cache import obtain as obtain_deletion
        from victims.informed.cache import obtain as obtain_informed
        from victims.obtain import obtain
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
        elif spec.setting == "deletion":
            victim = obtain_deletion(spec, self.data_dir, self.device, count, self.reporter.notice)
        else:
            victim = obtain_informed(spec, self.data_dir, self.device, count, self.reporter.notice)
        if not spec.twin:
            self._victims = {spec.name: victim}
        return victim

    def attack(self, run: Run, victim: AnyVictim, checkpoint: Path | None = None) -> Attacked:
        """Return what an attack finds of a victim; a host makes it out of reach of the training images.

        Args:
            run: the attack, its parameters, its budget and its seed.
            victim: its victim, or a twin of it.
            checkpoint: the file of its state, from which another process goes on; None to keep none.

        Raises:
            LookupError: the attack needs an item that no victim of this setting has.
            AttackFailedError: the attack failed in a host; in this process its own exception is raised.
            DivergedError: no candidate is finite.
            ValueError: the candidates have another shape than the victim's inputs, or the victim is not what it was.
        """
        from bench.run.disclosure import Counted, answer_of, disclosed, network_of
        from bench.run.isolation.reading import guarded_places

        def progress(step: int, steps: int, **figures: float) -> None:
            self.reporter.progress(run.title, step, steps, figures)

        attempt = Attempt(
            attack=run.attack.name,
            params_json=json.dumps(run.params.model_dump(mode="json")),
            seed=run.seed,
            budget=run.budget,
            device=str(self.device),
            needs=run.knowledge,
            facts=disclosed(victim, run.knowledge),
            own=run.victim.name if run.victim.training.kind == "released" else "",
            shape=victim.input_shape,
            targets=None if victim.spec.setting == "dataset" else victim.spec.n_targets,
            checkpoint=checkpoint,
            weights=victim.card.weights_sha256,
            guarded=guarded_places(run.victim.dataset, self.data_dir, self.results_dir),
        )
        answer = Counted(answer_of(victim, run.knowledge, self.device))
        if self.host is not None:
            attacked = self.host.attack(attempt, answer, progress)
        else:
            attacked = perform(attempt, run.attack, network_of(victim), answer, progress)
        asked = (f"queries: {answer.asked}",) if answer.asked else ()
        return replace(attacked, flags=(*attacked.flags, *asked))

    def learned_metrics(self, dataset: str) -> LearnedMetrics:
        """Return the networks that measure LPIPS and KL on a dataset, or why there is none; train a missing judge."""
        if dataset not in self._learned_metrics:
            from bench.scoring.learned_metrics import obtain_learned_metrics

            self._learned_metrics[dataset] = obtain_learned_metrics(dataset, self.data_dir, self.device, self.reporter)
        return self._learned_metrics[dataset]
