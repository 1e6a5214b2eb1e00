"""The claims of an attack, tried on tiny victims."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from attacks.context import Budget
from bench.check.claims import ContractClaim, where
from bench.check.tiny import FAMILIES, smallest, trained
from bench.check.trial import Trial, file_of, try_out
from bench.check.watch import SideEffects
from bench.plan.options import attack_params
from bench.run.fitting import misfits
from bench.scoring import PROTOCOLS
from victims.base import Victim
from victims.errors import UserError
from victims.informed.spec import AnySpec
from victims.informed.victim import AnyVictim

QUICK_SECONDS = 1.0
"""A run below this time is short enough, whatever its budget."""


def attack_claims(attack: type[Attack[Any]], settings: dict[str, Any]) -> Iterator[ContractClaim]:
    """Yield the claims on an attack; a failed claim leaves out those that depend on it.

    Raises:
        UserError: `settings` names a parameter that the attack does not have, or a value that it refuses.
    """
    name = attack.name
    params = attack_params(attack, "", settings)
    unsound = "; ".join(_declarations(attack))
    yield ContractClaim(name, "its declarations are sound", unsound)
    if unsound:
        return
    families = [spec for spec in FAMILIES if spec.setting == attack.setting]
    try:
        reasons = {spec.architecture.label: attack(params).supports(spec) for spec in families}
        if wrong := [reason for reason in reasons.values() if not (reason is None or isinstance(reason, str))]:
            raise TypeError(f"it returned {wrong[0]!r}; return why not, as text, or None where it can")
    except Exception as error:
        yield ContractClaim(name, "says which victims it takes", f"supports: {where(error, file_of(attack))}")
        return
    spec = next((spec for spec in families if reasons[spec.architecture.label] is None), None)
    declined = "; ".join(f"{label}: {reason}" for label, reason in reasons.items())
    yield ContractClaim(
        name, "takes one of the tiny victims", f"it declines all, so nothing is tried: {declined}" * (not spec)
    )
    if spec is None:
        return

    victim = trained(spec)
    try:
        first = try_out(attack, params, victim, noise=1)
    except LookupError as error:
        yield ContractClaim(name, "needs what a victim of its setting has", str(error))
        return
    yield from _told(name, attack(params).knowledge, first)
    yield ContractClaim(name, "runs", first.trouble and first.trouble + _hint(first, spec))
    if first.found is None:
        return
    yield ContractClaim(name, "returns images of the victim's shape", "; ".join(_unfit(first.found, victim)))
    yield ContractClaim(name, "leaves the victim and torch as they were", first.changed)
    second = try_out(attack, params, victim, noise=2)  # the first one may import libraries, which write and print
    yield ContractClaim(name, "prints nothing", _printed(second.effects))
    yield ContractClaim(name, "writes no files", _written(second.effects))
    yield ContractClaim(name, "gives the same for the same seed", _difference(first, second))
    yield ContractClaim(name, "ends when its budget is spent", _overspent(attack, params, victim, second))
    least = trained(smallest(spec))
    few = try_out(attack, params, least, noise=1)
    shape = few.trouble or "; ".join(_unfit(few.found, least) if few.found else [])
    yield ContractClaim(
        name, f"takes a victim with one {'image a class' if attack.setting == 'dataset' else 'target'}", shape
    )


def _hint(failed: Trial, spec: AnySpec) -> str:
    """Return what may be done about a trial that failed, and on which of the tiny victims it was."""
    if "TimeoutError" in failed.trouble:
        return "; try `--set` with cheaper parameters"
    if failed.trouble.startswith("it returns "):
        return ""
    network, count = spec.architecture, spec.architecture.outputs
    outputs = f"{count} output{'s' * (count > 1)}"
    return f"; this was on {spec.name} ({network.label}, {outputs}), and `supports` may decline such a victim"


def _declarations(attack: type[Attack[Any]]) -> Iterator[str]:
    if not attack.summary or "\n" in attack.summary:
        yield "`summary` must be one line"
    if not all(isinstance(item, Knowledge) for item in attack.needs):
        yield "`needs` must hold items of Knowledge"
    settings = dict.fromkeys(spec.setting for spec in FAMILIES)
    if attack.setting not in settings:
        yield f"`setting` {attack.setting!r} is none of {', '.join(settings)}"
    if attack.protocol not in PROTOCOLS:
        yield f"`protocol` {attack.protocol!r} is none of {', '.join(PROTOCOLS)}"
    elif (PROTOCOLS[attack.protocol].matching == "aligned") != (attack.setting != "dataset"):
        yield f"`protocol` {attack.protocol!r} is for attacks of the other `setting`, this one's is {attack.setting!r}"
    if attack.version < 1:
        yield f"`version` is {attack.version!r}; expected a whole number from 1, raised when candidates change"
    try:
        signature(attack.reconstruct).bind(None, None, None)
    except TypeError as error:
        yield f"`reconstruct` must take self, view and ctx: {error}"
    try:
        attack_params(attack, "", attack.Params().model_dump(warnings=False), "the default")
    except UserError as error:
        yield str(error)
    for variant in attack.variants:
        try:
            attack_params(attack, variant, {})
        except UserError as error:
            yield f"variant {variant!r}: {error}"
    if strange := [variant for variant in attack.audits if variant and variant not in attack.variants]:
        yield f"`audits` names {strange[0]!r}, which is none of the variants {', '.join(attack.variants) or '(none)'}"


def _told(name: str, knowledge: frozenset[Knowledge], trial: Trial) -> Iterator[ContractClaim]:
    undeclared = ", ".join(f"Knowledge.{item.name}" for item in sorted(trial.view.read - knowledge))
    yield ContractClaim(
        name, "reads what it declares", f"it reads more: add {undeclared} to `needs`" if undeclared else ""
    )
    if trial.found is not None:
        unread = ", ".join(f"Knowledge.{item.name}" for item in sorted(knowledge - trial.view.read))
        hint = f"it never read {unread}: take that out of `needs`, or it ranks among attacks that are told more"
        yield ContractClaim(name, "declares what it reads", hint if unread else "")


def _unfit(found: Reconstruction, victim: AnyVictim) -> Iterator[str]:
    wrong = list(misfits(found, victim.input_shape, None if isinstance(victim, Victim) else victim.spec.targets))
    yield from wrong
    if wrong:
        return
    if found.candidates.requires_grad:
        yield "candidates have requires_grad=True; detach them"
    if not found.candidates.isfinite().flatten(1).all(1).any():
        yield "no candidate is finite; raise DivergedError if that is how it ended"


def _printed(effects: SideEffects) -> str:
    lines = effects.printed.strip().splitlines()
    return f"it prints {lines[0][:60]!r}; call ctx.report or ctx.progress instead" if lines else ""


def _written(effects: SideEffects) -> str:
    return f"it writes {effects.written[0]}; return what is to be kept in the Reconstruction" if effects.written else ""


def _difference(first: Trial, second: Trial) -> str:
    if first.found is None or second.found is None:
        return f"the second run fails: {second.trouble}"
    one, other = first.found.candidates, second.found.candidates
    same = one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    return "" if same else "two runs of one seed differ; draw from ctx.generator alone"


def _overspent(attack: type[Attack[Any]], params: AttackParams, victim: AnyVictim, free: Trial) -> str:
    """Return the trouble of a trial with a budget of one step, compared with the trial `free` without budget.

    An attack does not iterate, and holds the claim, if it is quick and reports progress at most once for each problem:
    once on a victim whose images are all to be reconstructed, otherwise once for each target.
    """
    problems = 1 if isinstance(victim, Victim) else victim.spec.targets
    if free.steps <= problems and free.effects.seconds < QUICK_SECONDS:
        return ""
    if not free.context.asked:
        return "it never asks; write `if ctx.expired(step): break` where it loops, and return the best so far"
    short = try_out(attack, params, victim, 1, Budget(steps=1))
    if short.found is None:
        return f"with a budget of one step it fails: {short.trouble}"
    if short.effects.seconds > max(QUICK_SECONDS, free.effects.seconds / 2):
        return f"it goes on for {short.effects.seconds:.0f} s with a budget of one step"
    return "; ".join(_unfit(short.found, victim))
