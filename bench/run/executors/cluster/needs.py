"""What a run needs that is made elsewhere: trainings that it waits for, and files that travel to it.

Imports no torch itself, so that a worker, which only passes on what its processes do, starts a few seconds sooner.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Literal

from bench.plan.registry import Victims
from bench.plan.run import Run
from bench.run.nulls.kinds import TWIN_SEED, twins_of
from bench.run.session import Session
from bench.store.file_names import CHECKPOINTS, RUNS
from victims.cache import CARD
from victims.dataset_files import SHIPPED, dataset_paths, fingerprint
from victims.defences.stacking import undefended
from victims.errors import UserError
from victims.informed.spec import AnySpec
from victims.spec import VictimSpec

LPIPS = "lpips/*.safetensors"
"""The files of the cache that measure LPIPS."""
LPIPS_WEIGHTS = "BENCH_LPIPS_WEIGHTS"


@dataclass(frozen=True)
class Preparation:
    """A training that is made once in the cluster, whatever number of runs waits for it.

    Attributes:
        victim: name of the victim as it is described.
        victim_seed: which retraining of it.
        twin: which twin of it; empty for the victim itself.
        metrics: whether the networks that measure LPIPS and KL on its data are made, instead of a victim.
    """

    victim: str
    victim_seed: int = 0
    twin: Literal["", "untrained", "disjoint"] = ""
    metrics: bool = False

    def spec(self, victims: Victims) -> AnySpec:
        """Return the victim that is meant."""
        spec = victims.match([self.victim])[0].retrained(self.victim_seed)
        return spec.as_twin(self.twin) if self.twin and isinstance(spec, VictimSpec) else spec

    def made(self, session: Session, victims: Victims) -> bool:
        """Say whether it is in the cache of this machine."""
        spec = self.spec(victims)
        if not self.metrics:
            return session.is_trained(spec)
        folder = _judge(spec, session)
        return (folder / CARD).exists() and (LPIPS_WEIGHTS in os.environ or any(folder.parents[1].glob(LPIPS)))

    def files(self, session: Session, victims: Victims) -> tuple[str, ...]:
        """Return globs of what it leaves in the cache."""
        spec = self.spec(victims)
        if self.metrics:
            return f"judges/{_judge(spec, session).name}/*", LPIPS
        return tuple(sorted(f"victims/{session.victim_key(one)}/*" for one in {undefended(spec), spec}))

    def make(self, session: Session, victims: Victims) -> None:
        """Train it and keep it in the cache; an exception here comes up again in each run that needs it."""
        if self.metrics:
            session.learned_metrics(self.spec(victims).dataset)
        else:
            session.victim(self.spec(victims))


def _judge(spec: AnySpec, session: Session) -> Path:
    """Return the folder of the judge of a victim's data, trained or not."""
    from bench.scoring.judges.obtain import judge_folder

    return judge_folder(fingerprint(spec.dataset, session.data_dir))


def preparations(run: Run, twins: bool) -> list[Preparation]:
    """Return the trainings that a run waits for, the victim's first.

    Args:
        run: the run.
        twins: whether null controls attack twins.
    """
    name, seed = run.victim.described.name, run.victim.retraining
    if not run.possible():
        return []
    kinds = twins_of(run) if twins else ()
    trained = [] if run.victim.training.kind == "released" else [Preparation(name, seed)]
    return [*trained, *(Preparation(name, seed, kind) for kind in kinds), Preparation(name, metrics=True)]


def of_run(run_id: str) -> tuple[str, ...]:
    """Return globs of a run's own files in the results folder."""
    return f"{RUNS}/{escape(run_id)}/*", *checkpoint_of_run(run_id)


def checkpoint_of_run(run_id: str) -> tuple[str, ...]:
    """Return the glob of a run's checkpoint in the results folder."""
    return (f"{CHECKPOINTS}/{escape(run_id)}.safetensors",)


def controls_of(run: Run) -> tuple[str, ...]:
    """Return globs of the null controls in the cache that a run shares with the other seeds of its attack."""
    names = (f"{run.attack.name}-{run.victim.name}~{kind}-s{TWIN_SEED}" for kind in twins_of(run))
    return tuple(f"controls/{escape(name)}-*" for name in names)


def data_files(dataset: str, data_dir: Path | None) -> tuple[Path, ...]:
    """Return the files of a dataset that no library ships."""
    if not dataset or dataset in SHIPPED:
        return ()
    try:
        return tuple(path for path in dataset_paths(dataset, data_dir) if path.is_file())
    except UserError:  # which the run will tell
        return ()
