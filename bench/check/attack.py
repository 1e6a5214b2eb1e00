"""What an attack must hold, tried out on tiny victims."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from attacks.context import UNLIMITED, Budget
from bench.check.claims import Claim, where
from bench.check.watch import Doings, watched
from bench.options import attack_params
from bench.plan import attack_sources
from bench.scoring import PROTOCOLS
from bench.view import view_of
from victims.base import Victim
from victims.cache import obtain
from victims.errors import UserError
from victims.spec import ConvSpec, DecayedDescent, MLPSpec, NormalizedDescent, Regularised, VictimSpec

CPU = torch.device("cpu")
LIMIT_SECONDS = 15.0
"""What an attack may take on a few images."""
QUICK_SECONDS = 1.0
"""What no budget would shorten."""
SMALL, DECAYED = NormalizedDescent(steps=60), Regularised(steps=50)
SOFTMAX = MLPSpec(hidden=(12,), outputs=3)
FAMILIES = (
    VictimSpec(name="check-mlp", dataset="faces", n=4, architecture=MLPSpec(hidden=(16, 16)), training=SMALL),
    VictimSpec(name="check-classes", dataset="digits", n=6, architecture=SOFTMAX, training=SMALL),
    VictimSpec(name="check-decay", dataset="faces", n=4, architecture=MLPSpec(hidden=(8,)), training=DECAYED),
    VictimSpec(
        name="check-conv",
        dataset="digits",
        n=4,
        architecture=ConvSpec(channels=4, hidden=(10,)),
        training=DecayedDescent(steps=20),
    ),
)
"""Victims to try an attack on: the first that it supports."""


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
        """Say what a context says."""
        self.asked += 1
        return super().expired(step)


@dataclass
class Trial:
    """One run of an attack.

    Attributes:
        found: what it returned, None if it raised.
        trouble: what it raised, one line.
        view: what it was shown.
        context: what it was lent.
        steps: how often it told where it is.
        doings: what else it did.
        changed: what it changed that is not its own, empty if nothing.
    """

    found: Reconstruction | None
    trouble: str
    view: WatchedView
    context: WatchedContext
    steps: int
    doings: Doings
    changed: str


def attack_claims(attack: type[Attack[Any]], settings: dict[str, Any]) -> Iterator[Claim]:
    """Yield what an attack claims; what cannot be tried out for an earlier trouble is left out.

    Raises:
        UserError: it has no such parameter.
    """
    name = attack.name
    params = attack_params(attack, "", settings)
    unsound = "; ".join(_declarations(attack))
    yield Claim(name, "its declarations are sound", unsound)
    if unsound:
        return
    if attack.setting != FAMILIES[0].setting:
        yield Claim(
            name, "takes one of the tiny victims", f"none is of its setting, {attack.setting}: nothing is tried"
        )
        return
    try:
        reasons = {spec.architecture.label: attack(params).supports(spec) for spec in FAMILIES}
    except Exception as error:
        yield Claim(name, "says which victims it takes", f"supports: {where(error, _file(attack))}")
        return
    spec = next((spec for spec in FAMILIES if reasons[spec.architecture.label] is None), None)
    declined = "; ".join(f"{label}: {reason}" for label, reason in reasons.items())
    yield Claim(name, "takes one of the tiny victims", f"it declines all, so nothing is tried: {declined}" * (not spec))
    if spec is None:
        return

    victim = _trained(spec)
    first = _trial(attack, params, victim, noise=1)
    yield from _told(name, attack(params).knowledge, first)
    hint = "; try `--set` with cheaper parameters" if "TimeoutError" in first.trouble else ""
    yield Claim(name, "runs", first.trouble + hint)
    if first.found is None:
        return
    yield Claim(name, "returns images of the victim's shape", "; ".join(_shapes(first.found, victim)))
    yield Claim(name, "leaves the victim and torch as they were", first.changed)
    second = _trial(attack, params, victim, noise=2)  # the first one may import libraries, which write and print
    yield Claim(name, "prints nothing", _printed(second.doings))
    yield Claim(name, "writes no files", _written(second.doings))
    yield Claim(name, "gives the same for the same seed", _difference(first, second))
    yield Claim(name, "ends when its budget is spent", _overspent(attack, params, victim, second))
    few = _trial(attack, params, _trained(spec.model_copy(update={"n": spec.n_classes})), noise=1)
    shape = few.trouble or "; ".join(_shapes(few.found, victim) if few.found else [])
    yield Claim(name, "takes a victim with one image a class", shape)


def _declarations(attack: type[Attack[Any]]) -> Iterator[str]:
    if not attack.summary or "\n" in attack.summary:
        yield "`summary` must be one line"
    if not all(isinstance(item, Knowledge) for item in attack.needs) or not isinstance(attack.needs, frozenset):
        yield "`needs` must be a frozenset of Knowledge"
    if attack.protocol not in PROTOCOLS:
        yield f"`protocol` {attack.protocol!r} is none of {', '.join(PROTOCOLS)}"
    for helper in attack_sources(attack):
        if not helper.exists():
            yield f"`helpers` name {helper}, which is not there"
    for variant in attack.variants:
        try:
            attack_params(attack, variant, {})
        except UserError as error:
            yield f"variant {variant!r}: {error}"


def _trained(spec: VictimSpec) -> Victim:
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def _trial(
    attack: type[Attack[Any]], params: AttackParams, victim: Victim, noise: int, budget: Budget = UNLIMITED
) -> Trial:
    """Run the attack with seed 0, all other sources of randomness being seeded with `noise`."""
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
    with watched(LIMIT_SECONDS) as doings:
        try:
            found = chosen.reconstruct(view, context)
            if not isinstance(found, Reconstruction):
                trouble, found = f"it returns {type(found).__name__}; return a Reconstruction", None
        except (Exception, SystemExit) as error:
            trouble = where(error, _file(attack))
    after = _state(victim, view)
    changed = [name for name, value in before.items() if not _equal(value, after[name])]
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    text = f"it changes {', '.join(changed)}; work on a copy" if changed else ""
    return Trial(found, trouble, view, context, len(reported), doings, text)


def _state(victim: Victim, view: VictimView) -> dict[str, Any]:
    """Return what an attack must not change, by what it is called."""
    split, facts = victim.split, view._facts
    return {
        "the victim's weights": deepcopy(victim.model.state_dict()),
        "the weights that its view shows": deepcopy(facts.get(Knowledge.WEIGHTS, {})),
        "the victim's images": {name: torch.tensor(getattr(split, name)) for name in ("inputs", "labels", "mean")},
        "torch's default dtype": torch.get_default_dtype(),
        "whether torch records gradients": torch.is_grad_enabled(),
        "torch's number of threads": torch.get_num_threads(),
    }


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    return bool(before == after)


def _told(name: str, knowledge: frozenset[Knowledge], trial: Trial) -> Iterator[Claim]:
    undeclared = ", ".join(f"Knowledge.{item.name}" for item in sorted(trial.view.read - knowledge))
    yield Claim(name, "reads what it declares", f"it reads more: add {undeclared} to `needs`" if undeclared else "")
    if trial.found is not None:
        unread = ", ".join(f"Knowledge.{item.name}" for item in sorted(knowledge - trial.view.read))
        hint = f"it never read {unread}: take that out of `needs`, or it ranks among attacks that are told more"
        yield Claim(name, "declares what it reads", hint if unread else "")


def _shapes(found: Reconstruction, victim: Victim) -> Iterator[str]:
    candidates, shape = found.candidates, tuple(victim.split.inputs.shape[1:])
    given = _shape(candidates)
    if not isinstance(given, tuple) or len(given) != 4 or given[1:] != shape or given[0] == 0:
        yield f"candidates are {given}; expected (m, {', '.join(map(str, shape))}), m > 0"
        return
    if not candidates.is_floating_point() or candidates.requires_grad:
        yield f"candidates are {candidates.dtype}, requires_grad={candidates.requires_grad}; detach them, as float32"
    if not candidates.isfinite().flatten(1).all(1).any():
        yield "no candidate is finite; raise DivergedError if that is how it ended"
    for name in ("labels", "coefficients", "confidence"):
        value = getattr(found, name)
        if value is not None and _shape(value) != given[:1]:
            yield f"{name} are {_shape(value)}; expected ({given[0]},), one a candidate, or None"


def _shape(value: object) -> tuple[int, ...] | str:
    """Return a tensor's shape, or what else a value is."""
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


def _printed(doings: Doings) -> str:
    lines = doings.printed.strip().splitlines()
    return f"it prints {lines[0][:60]!r}; call ctx.report or ctx.progress instead" if lines else ""


def _written(doings: Doings) -> str:
    return f"it writes {doings.written[0]}; return what is to be kept in the Reconstruction" if doings.written else ""


def _difference(first: Trial, second: Trial) -> str:
    if first.found is None or second.found is None:
        return f"the second run fails: {second.trouble}"
    one, other = first.found.candidates, second.found.candidates
    same = one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    return "" if same else "two runs of one seed differ; draw from ctx.generator alone"


def _overspent(attack: type[Attack[Any]], params: AttackParams, victim: Victim, free: Trial) -> str:
    """Return what is wrong with an attack's end when it may take one step; `free` is one that took all."""
    if free.steps <= 1 and free.doings.seconds < QUICK_SECONDS:
        return ""
    if not free.context.asked:
        return "it never asks; write `if ctx.expired(step): break` where it loops, and return the best so far"
    short = _trial(attack, params, victim, 1, Budget(steps=1))
    if short.found is None:
        return f"with a budget of one step it fails: {short.trouble}"
    if short.doings.seconds > max(QUICK_SECONDS, free.doings.seconds / 2):
        return f"it goes on for {short.doings.seconds:.0f} s with a budget of one step"
    return "; ".join(_shapes(short.found, victim))


def _file(attack: type[Attack[Any]]) -> str:
    return sys.modules[attack.__module__].__file__ or ""
