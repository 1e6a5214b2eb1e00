"""One watched run of an attack: its result, the items it reads, and its side effects."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from attacks.context import UNLIMITED, Budget
from bench.check.claims import where
from bench.check.tiny import CPU
from bench.check.watch import SideEffects, watched
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.informed.data import Records
from victims.informed.victim import AnyVictim

LIMIT_SECONDS = 15.0
"""Seconds that an attack may take on a few images."""


class WatchedView(VictimView):
    """A view that remembers what was read, allowed or not."""

    def __init__(self, facts: dict[Knowledge, Any], allowed: frozenset[Knowledge]) -> None:
        super().__init__(facts, allowed)
        self.read: set[Knowledge] = set()

    def _read(self, item: Knowledge) -> Any:
        self.read.add(item)
        return super()._read(item)


@dataclass
class WatchedContext(AttackContext):
    """A context that remembers how often the attack asked for the end of its budget."""

    asked: int = 0

    def expired(self, step: int) -> bool:
        """Return what the context returns, and count the call."""
        self.asked += 1
        return super().expired(step)


@dataclass
class Trial:
    """One run of an attack.

    Attributes:
        found: what it returned, None if it raised or returned something else.
        trouble: what it raised, or that it returned no Reconstruction, one line; empty if it ended well.
        view: the view that it was given.
        context: the context that it was given.
        steps: how often it reported progress.
        effects: its side effects.
        changed: what it changed that is not its own, such as the victim's weights, one line; empty if nothing.
    """

    found: Reconstruction | None
    trouble: str
    view: WatchedView
    context: WatchedContext
    steps: int
    effects: SideEffects
    changed: str


def try_out(
    attack: type[Attack[Any]], params: AttackParams, victim: AnyVictim, noise: int, budget: Budget = UNLIMITED
) -> Trial:
    """Return what the attack does with seed 0, all other sources of randomness being seeded with `noise`.

    Raises:
        LookupError: it needs what no victim of its setting has to tell.
    """
    random.seed(noise)
    np.random.seed(noise)
    torch.manual_seed(noise)
    chosen = attack(params)
    view = view_of(victim, chosen.knowledge, CPU, WatchedView)
    assert isinstance(view, WatchedView)
    reported: list[int] = []
    context = WatchedContext(
        CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: reported.append(step), budget
    )
    before, trouble, found = _state(victim, view), "", None
    with watched(LIMIT_SECONDS) as effects:
        try:
            found = chosen.reconstruct(view, context)
            if not isinstance(found, Reconstruction):
                trouble, found = f"it returns {type(found).__name__}; return a Reconstruction", None
        except (Exception, SystemExit) as error:
            trouble = where(error, file_of(attack))
    after = _state(victim, view)
    changed = [name for name, value in before.items() if not _equal(value, after[name])]
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    text = f"it changes {', '.join(changed)}; work on a copy" if changed else ""
    return Trial(found, trouble, view, context, len(reported), effects, text)


def file_of(attack: type[Attack[Any]]) -> str:
    """Return the path of the file that defines an attack."""
    return sys.modules[attack.__module__].__file__ or ""


def _state(victim: AnyVictim, view: VictimView) -> dict[str, Any]:
    """Return copies of all that an attack must not change, by a name for messages."""
    return {
        "the victim's weights": _copied(victim.model.state_dict() if isinstance(victim, Victim) else victim.weights),
        "the weights that its view shows": _copied(view.shown(Knowledge.WEIGHTS) or {}),
        "the victim's images": _images(victim),
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch records gradients": torch.is_grad_enabled(),
        "torch's number of threads": torch.get_num_threads(),
    }


def _images(victim: AnyVictim) -> dict[str, Tensor]:
    """Return a copy of a victim's training images and of all else that an attack may be told."""
    if isinstance(victim, Victim):
        return {name: torch.tensor(getattr(victim.split, name)) for name in ("inputs", "labels", "mean")}
    parts = {field.name: getattr(victim.split, field.name) for field in fields(victim.split)}
    return {
        f"{name} {kind}": torch.tensor(getattr(part, kind))
        for name, part in parts.items()
        if isinstance(part, Records)
        for kind in ("images", "labels")
    }


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return deepcopy(dict(tensors))


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    return bool(before == after)
