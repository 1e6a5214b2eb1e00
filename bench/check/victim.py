"""The claims of a victim, tried with a few steps of its training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attacks.base import Attack
from bench.check.claims import ContractClaim
from bench.check.tiny import CPU, session
from bench.plan.capability import untold
from bench.plan.options import attack_params
from bench.plan.prospects import Outlook, Prospect, prospects
from bench.terminal.text import describe, variant_name
from victims.base import Victim
from victims.datasets import Split
from victims.deletion.data import split_of as deletion_split_of
from victims.deletion.spec import DeletionSpec
from victims.errors import UserError
from victims.informed.data import split_of as informed_split_of
from victims.informed.spec import AnySpec, GLMSpec, InformedSpec
from victims.kernel.fitting import fitted
from victims.kernel.spec import KernelFit, KernelSpec
from victims.obtain import split_of
from victims.ordinary.descent import Examples
from victims.ordinary.training import train_ordinary
from victims.spec import VictimSpec
from victims.training.loop import train
from victims.unfinished import Unfinished

FEW_STEPS = 3
THERE, TRAINS, FITS = "its images are there", "trains", "its weights fit its network"
LEARNT, TAKEN = "classifies the images that it has learnt", "an attack takes it"


def victim_claims(
    spec: AnySpec, attacks: Sequence[type[Attack[Any]]], data_dir: Path | None
) -> Iterator[ContractClaim]:
    """Yield the claims on a victim; a failed claim leaves out those that depend on it.

    Args:
        spec: the victim.
        attacks: all attacks that are known.
        data_dir: the data folder, None for the default.
    """
    if not isinstance(spec, VictimSpec):
        tried = _of_targets(spec, data_dir)
    else:
        tried = _released(spec, data_dir) if spec.training.kind == "released" else _trainable(spec, data_dir)
    for claim in tried:
        yield claim
        if not claim.holds and claim.text in (THERE, TRAINS, FITS):
            return  # there is nothing to attack
    yield _taken(spec, attacks)


def _taken(spec: AnySpec, attacks: Sequence[type[Attack[Any]]]) -> ContractClaim:
    """Return the claim that an attack takes a victim; it names those that do, controls aside, or why none does.

    An attack is named with each variant that an audit runs: what its defaults decline, such as a victim whose start is
    not known, a variant may take. Of a model of somebody's own, attacks of another setting that an audit can mount on
    its kind come first: they take no other kind.
    """
    if isinstance(spec, VictimSpec) and spec.training.kind == "released":
        found = [(one.name, one.outlook is Outlook.OPEN, one.reason) for one in _by_kind(spec, attacks)]
    else:
        found = list(_of_setting(spec, attacks))
    takers = [name for name, takes, _ in found if takes]
    if not takers:
        reasons = [f"{name}: {reason}" for name, _, reason in found]
        return ContractClaim(spec.name, TAKEN, f"none does: {'; '.join(reasons)}")
    told = f"{len(takers)} attacks take it" if len(takers) > 1 else TAKEN
    return ContractClaim(spec.name, f"{told}: {', '.join(takers)}{_narrowed(spec)}")


def _by_kind(spec: VictimSpec, attacks: Sequence[type[Attack[Any]]]) -> list[Prospect]:
    """Return what an audit would say of each attack before it measures anything, those of another setting first."""
    found = prospects(attacks, spec, None)
    return sorted(found, key=lambda one: one.attack.setting == spec.setting)


def _of_setting(spec: AnySpec, attacks: Sequence[type[Attack[Any]]]) -> Iterator[tuple[str, bool, str]]:
    """Yield each attack of a victim's setting, whether it takes it, and if not the reason; controls that do are not."""
    fitting = [attack for attack in attacks if attack.setting == spec.setting]
    for attack, variant in [(kind, variant) for kind in fitting for variant in kind.audits]:
        made, name = attack(attack_params(attack, variant, {})), variant_name(attack.name, variant)
        reason = made.supports(spec) or untold(made.knowledge, spec)
        if reason is not None or not attack.control:
            yield name, reason is None, reason or ""


def _narrowed(spec: AnySpec) -> str:
    """Return why the attacks on layers do not take a model of somebody's own, empty where its layers are known."""
    network = spec.architecture if isinstance(spec, VictimSpec) else None
    uncovered = network.uncovered if network is not None and network.kind == "module" else ""
    return f" (not those on layers: {uncovered})" if uncovered else ""


def _trainable(spec: VictimSpec, data_dir: Path | None) -> Iterator[ContractClaim]:
    try:
        split = split_of(spec, data_dir)
    except UserError as error:
        yield ContractClaim(spec.name, THERE, str(error))
        return
    yield ContractClaim(spec.name, THERE)
    try:
        first, second = _weights(spec, split), _weights(spec, split)
        same = all(torch.equal(value, second[name]) for name, value in first.items())
        finite = all(bool(value.isfinite().all()) for value in first.values())
        trouble = "" if finite else f"its weights are not finite after {FEW_STEPS} steps; lower the learning rate"
    except Exception as error:
        yield ContractClaim(spec.name, TRAINS, describe(error))
        return  # nothing was trained twice
    yield ContractClaim(spec.name, TRAINS, trouble)
    yield ContractClaim(spec.name, "trains the same twice", "" if same else "two trainings of one seed differ")


def _of_targets(spec: InformedSpec | GLMSpec | DeletionSpec, data_dir: Path | None) -> Iterator[ContractClaim]:
    """Yield the claims on a victim of which some targets are sought; it is trained for one, or for one deletion."""
    short: dict[str, Any] = {"targets": spec.training.records if isinstance(spec, DeletionSpec) else 1}
    if isinstance(spec, InformedSpec):
        short["training"] = spec.training.model_copy(update={"epochs": FEW_STEPS})
    try:
        deletion_split_of(spec, data_dir) if isinstance(spec, DeletionSpec) else informed_split_of(spec, data_dir)
    except UserError as error:
        yield ContractClaim(spec.name, THERE, str(error))
        return
    yield ContractClaim(spec.name, THERE)
    try:
        session(data_dir).victim(spec.model_copy(update=short))
        trouble = ""
    except Exception as error:
        trouble = describe(error)
    yield ContractClaim(spec.name, TRAINS, trouble)


def _weights(spec: VictimSpec, split: Split) -> dict[str, Tensor]:
    """Return the weights after a few steps; a kernel machine has no steps."""
    if isinstance(spec.training, KernelFit) and isinstance(spec.architecture, KernelSpec):
        return fitted(spec.architecture, spec.training, split.images, split.labels).state_dict()
    count = "epochs" if spec.training.kind in ("gd", "ordinary") else "steps"
    short = spec.model_copy(update={"training": spec.training.model_copy(update={count: FEW_STEPS})})
    inputs, labels = torch.from_numpy(split.inputs), torch.from_numpy(split.labels)
    if spec.keeps_start:
        examples = Examples(inputs, labels)
        return train_ordinary(short, examples, examples, CPU, lambda progress: None).model.state_dict()
    weights: dict[str, Tensor] = train(short, inputs, labels, CPU, Unfinished(), lambda progress: None).state_dict()
    return weights


def _released(spec: VictimSpec, data_dir: Path | None) -> Iterator[ContractClaim]:
    try:
        victim, trouble = session(data_dir).victim(spec), ""
    except UserError as error:
        victim, trouble = None, str(error)
    yield ContractClaim(spec.name, FITS, trouble)
    if isinstance(victim, Victim) and spec.n:
        accuracy = f", accuracy {victim.card.train_accuracy:.3f}" if spec.loss == "cross-entropy" else ""
        measured = f" (loss {victim.card.train_loss:.3g}{accuracy})"
        learnt = LEARNT.replace("images", "rows") if spec.tabular else LEARNT
        yield ContractClaim(spec.name, learnt + measured, victim.unlearnt)
