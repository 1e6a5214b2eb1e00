"""One attack on one victim: what its process is given, and how it runs there."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attacks.base import AttackContext, DivergedError, Knowledge, Reconstruction
from attacks.context import Budget
from bench.plan.run import attack_sha
from bench.run.provenance import peak_memory
from bench.store.checkpoint import CheckpointFile
from bench.store.records import OVERLAPPED

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from attacks.base import Attack, VictimView
    from bench.run.disclosure import Facts

Progress = Callable[..., None]
"""`progress(step, steps, **figures)`."""
LONG = 5.0
"""An attack that takes fewer seconds is not flagged, whoever shared the machine."""
MOST_WAITING = 0.1
"""The share of an attack's seconds above which waiting for cores, all threads together, is flagged."""
ALONE = 0.9
"""The share of one core below which an attack is flagged too: it computes all the time, so its seconds are then not its
own. This sees what no thread waits for in a queue, such as a container's quota, and little of several threads."""
THREADS = Path("/proc/self/task")
"""Where Linux shows the threads of this process."""


@dataclass(frozen=True)
class Attempt:
    """The input of an attack's process: what the attack is told of the victim, and no more.

    Attributes:
        attack: name of the attack; its parameters are `params_json`.
        params_json: all parameters.
        seed: of the attack.
        budget: what it may spend.
        device: where it computes, as torch names it.
        needs: the items of knowledge that it declared.
        facts: the values of these items for the victim.
        own: the name of a victim whose network its plug-in builds, empty for a network of this suite.
        shape: (C, H, W) of an input.
        targets: how many candidates are expected, None for any number.
        checkpoint: the file of its state, from which it goes on; None if it keeps none.
        weights: hash of the victim's weights; a state of an attack on other weights is not taken.
        guarded: files and folders that hold training data, victims or results: a flag says that one was read.
    """

    attack: str
    params_json: str
    seed: int
    budget: Budget
    device: str
    needs: frozenset[Knowledge]
    facts: Facts
    own: str
    shape: tuple[int, int, int]
    targets: int | None = None
    checkpoint: Path | None = None
    weights: str = ""
    guarded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attacked:
    """What an attack returned, and what it cost.

    Attributes:
        reconstruction: the candidates.
        trace: figures over time.
        seconds: wall time of the attack alone, with the time before its last checkpoint if it was resumed.
        peak_mem_mb: peak memory of its process up to its end.
        flags: remarks of the harness for the row, such as "budget".
    """

    reconstruction: Reconstruction
    trace: list[dict[str, float]]
    seconds: float
    peak_mem_mb: float
    flags: tuple[str, ...]


def perform(
    attempt: Attempt,
    kind: type[Attack[Any]],
    network: Callable[[], nn.Module] | None,
    answer: Callable[[Tensor], Tensor],
    progress: Progress,
) -> Attacked:
    """Run an attack in this process, and return what it found.

    Args:
        attempt: what the attack is given.
        kind: the attack.
        network: builds the victim's network, None if the victim is many models.
        answer: what the victim answers to inputs (m, C, H, W).
        progress: told where the attack is.

    Raises:
        DivergedError: no candidate is finite.
        TypeError: the attack returned no `Reconstruction`.
        ValueError: what it returned does not fit (`bench.run.fitting`), or the weights were changed.
    """
    import torch

    from bench.run.disclosure import view_from
    from bench.scoring.lpips.perceptual import load_perceptual
    from victims.cache import cache_dir
    from victims.training.hardware import prepare

    def perceptual() -> Callable[[Tensor, Tensor], Tensor]:
        return load_perceptual(cache_dir()).distance

    device = torch.device(attempt.device)
    prepare(device)  # a process of its own has not been told how the suite computes
    waited = 0.0

    def timed(queries: Tensor) -> Tensor:
        nonlocal waited
        asked = time.perf_counter()
        answers = answer(queries)
        waited += time.perf_counter() - asked
        return answers

    view = view_from(attempt.facts, attempt.needs, device, network, timed)
    checkpoints = None
    if attempt.checkpoint is not None:
        checkpoints = CheckpointFile(attempt.checkpoint, attack_sha(kind), attempt.weights)
    generator = torch.Generator().manual_seed(attempt.seed)
    ctx = AttackContext(device, generator, progress, attempt.budget, checkpoints, perceptual)
    params = kind.Params.model_validate(json.loads(attempt.params_json))
    queued, computed, began = _waiting(), time.process_time(), time.perf_counter()
    reconstruction = kind(params).reconstruct(view, ctx)
    seconds, own = ctx.seconds, time.perf_counter() - began - waited
    share, queued_since = (time.process_time() - computed) / own, _waiting()
    _require_fitting(reconstruction, attempt)
    _require_intact(view, attempt.facts.get(Knowledge.WEIGHTS) or {})
    spent = ctx.stopped or seconds > (attempt.budget.seconds or math.inf)
    flags = ["budget"] if spent else []
    finite = _finite(reconstruction.candidates)
    if attempt.targets is None and not finite.all():  # else a candidate of NaN says that a target was not found
        flags.append(f"{int((~finite).sum())} of {len(finite)} candidates are not finite")
    if checkpoints is not None and checkpoints.trouble:
        flags.append(f"no_checkpoint: {checkpoints.trouble}")
    if device.type == "cpu" and own > LONG and (how := _overlapped(own, share, queued, queued_since)):
        flags.append(f"{OVERLAPPED}: the machine was shared, {how}")
    return Attacked(reconstruction, ctx.trace, seconds, peak_memory(device), tuple(flags))


def _finite(candidates: Tensor) -> Tensor:
    """Return which of the candidates (m, C, H, W) have no pixel that is NaN or infinite, (m,)."""
    return candidates.isfinite().flatten(1).all(1)


def _overlapped(seconds: float, share: float, before: dict[str, int], after: dict[str, int]) -> str:
    """Return how little of the machine an attack had, "" if it had the machine for itself.

    Args:
        seconds: that it took.
        share: of one core.
        before: what `_waiting` told when it began.
        after: what it tells now.
    """
    if share < ALONE:
        return f"the attack had {share:.0%} of a core"
    waited = sum(spent - before.get(thread, 0) for thread, spent in after.items()) / 1e9
    return f"the attack waited {waited:.1f} s for cores" if waited > MOST_WAITING * seconds else ""


def _waiting() -> dict[str, int]:
    """Return for each living thread the ns that it was ready while others had the cores; empty where nothing tells.

    What threads waited that have ended is lost, so a sum over time is at least this.
    """
    waiting = {}
    for file in THREADS.glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):  # the thread has ended
            waiting[file.parent.name] = int(file.read_text(encoding="utf-8").split()[1])
    return waiting


def _require_fitting(reconstruction: object, attempt: Attempt) -> None:
    from bench.run.fitting import misfits

    if not isinstance(reconstruction, Reconstruction):
        raise TypeError(f"reconstruct returned {type(reconstruction).__name__}, expected a Reconstruction")
    if wrong := "; ".join(misfits(reconstruction, attempt.shape, attempt.targets)):
        raise ValueError(wrong)
    if not _finite(reconstruction.candidates).any():
        raise DivergedError("no candidate is finite")


def _require_intact(view: VictimView, weights: dict[str, torch.Tensor]) -> None:
    shown = view.shown(Knowledge.WEIGHTS) or {}
    if not all(value.cpu().equal(weights[name]) for name, value in shown.items()):
        raise ValueError("the attack changed the victim's weights; view.weights hands out a copy for each call")
