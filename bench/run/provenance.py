"""Provenance of a row: run, machine, peak memory, commit, clock."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bench import __version__
from bench.plan.family import family
from bench.plan.options import parse_budget
from bench.plan.registry import ROOT, Registry, Victims
from bench.plan.run import Run, attack_sha
from bench.store.records import RunRecord, Status
from victims.errors import UserError

if TYPE_CHECKING:
    import torch

    from attacks.base import Attack, Knowledge

CODE = ("attacks", "bench", "victims")
"""The packages that decide what a row says."""


def peak_memory(device: torch.device) -> float:
    """Return the peak of this process's resident memory, or of the GPU's allocations, in MiB."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource

    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if platform.system() == "Darwin" else peak / 2**10


def git_commit() -> str:
    """Return this checkout's short commit, with `-dirty` behind it if the code is another than the commit's.

    The result is the empty string outside a checkout, or without a program git.
    """
    if not (ROOT / ".git").exists():
        return ""
    try:
        commit = _git("rev-parse", "--short", "HEAD").stdout.strip()
        changed = _git("diff", "--quiet", "HEAD", "--", *CODE).returncode == 1
    except OSError:
        return ""
    return f"{commit}-dirty" if changed else commit


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what git says of this checkout."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def now_utc() -> str:
    """Return the time, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def blank_record(run: Run, run_id: str, victim_key: str, device: torch.device) -> RunRecord:
    """Return the record of a run that begins now, without its results.

    Args:
        run: the run.
        run_id: its id.
        victim_key: of the victim as it is described, empty where its data are missing.
        device: where it is made.
    """
    import torch

    from bench.scoring import METRIC_SUITE
    from victims.training.hardware import cpu_name, gpu_name

    params = run.params.model_dump(mode="json")
    return RunRecord(
        run_id=run_id,
        status=Status.OK,
        attack=run.attack.name,
        variant=run.variant,
        params_hash=run.params_hash,
        params_json=json.dumps(params, sort_keys=True),
        attack_version=run.attack.version,
        attack_sha=attack_sha(run.attack),
        knowledge="+".join(sorted(_knowledge(run))),
        control=run.attack.control,
        tuned_by=run.tuned_by,
        budget=str(run.budget),
        victim=run.victim.described.name,
        victim_key=victim_key,
        victim_seed=run.victim.retraining,
        victim_version=run.victim.training.version,
        family=family(run.victim),
        dataset=run.victim.dataset,
        n=run.victim.n_targets,
        n_fixed={"dataset": None, "informed": run.victim.n, "deletion": 0}[run.victim.setting],
        n_classes=run.victim.n_classes,
        seed=run.seed,
        protocol=run.protocol,
        protocol_version=_protocol_version(run.protocol),
        metric_suite=METRIC_SUITE,
        device=device.type,
        cpu=cpu_name(),
        gpu=gpu_name(device),
        torch=torch.__version__,
        bench_version=__version__,
        git_commit=git_commit(),
        started_utc=now_utc(),
    )


def run_of(record: RunRecord, attacks: Registry[type[Attack[Any]]], victims: Victims) -> Run:
    """Return the run that a record is of.

    Raises:
        UserError: its attack or victim is not known here, or the attack does not take its parameters.
    """
    attack, victim = attacks.items.get(record.attack), victims.find(record.victim)
    for kind, name, found in (("attack", record.attack, attack), ("victim", record.victim, victim)):
        if found is None:
            raise UserError(f"{record.run_id}: no {kind} is called {name!r} here; give its --plugin-dir")
    assert attack is not None and victim is not None
    try:
        params = attack.Params.model_validate(json.loads(record.params_json))
    except (ValueError, ValidationError, RecursionError):
        raise UserError(f"{record.run_id}: {record.attack} has other parameters now; run it again") from None
    victim, budget = victim.retrained(record.victim_seed), parse_budget(record.budget)
    return Run(attack, params, record.variant, record.tuned_by, victim, record.seed, budget)


def _knowledge(run: Run) -> frozenset[Knowledge]:
    """Return the attack's knowledge with these parameters; its declared needs if it cannot be constructed."""
    try:
        return run.knowledge
    except Exception:
        return run.attack.needs


def _protocol_version(name: str) -> int:
    """Return a protocol's version, 1 if there is none of that name."""
    from bench.scoring.protocols import PROTOCOLS

    return PROTOCOLS[name].version if name in PROTOCOLS else 1
