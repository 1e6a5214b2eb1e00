"""Victims under defences: what each defence changes of a description, or why it cannot. Imports no torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from victims.defences.spec import (
    JOINT,
    KINDS,
    AnyDefence,
    Decay,
    DifferentialPrivacy,
    EarlyStop,
    ForgetStart,
    RandomSeed,
)
from victims.deletion.spec import DeletionSpec
from victims.errors import UserError
from victims.informed.spec import AnySpec, Descent, GLMSpec, InformedSpec, Newton, OutputPrivacy
from victims.recipes import (
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    NormalizedDescent,
    Ordinary,
    Privacy,
    Regularised,
)
from victims.spec import VictimSpec

SpecT = TypeVar("SpecT", bound=AnySpec)
NEEDS = {
    "early-stop": "ends before its loss is near its minimum, which only gradient descent on a loss can",
    "decay": "has a weight decay to set; see the victims whose name has -wd",
    "dp": "has a private form: a loop over torch.optim, the informed adversary's descent, or a regularised optimum",
    "forget-start": "is gradient descent with weight decay, epoch by epoch; put decay=5e-4 before it",
    "random-seed": "draws its start from a seed: no checkpoint, no optimum that depends on none",
}
"""By defence, what a training would have to be: 'the victim needs a training that ...'."""


def defended(spec: AnySpec, defences: Sequence[AnyDefence]) -> AnySpec:
    """Return a victim under defences that are stacked in their order, and named by them; without any, the victim.

    Raises:
        UserError: the victim cannot take one of them, or has it already.
    """
    return reduce(_with, defences, spec)


def undefended(spec: SpecT) -> SpecT:
    """Return the victim that is trained before anything is done to it on release; it shares its training's cache."""
    name, kept = spec.name, tuple(one for one in spec.defences if not one.on_release)
    for defence in spec.defences:
        name = name.replace(f"{JOINT}{defence.text}", "") if defence.on_release else name  # a twin's name goes on
    return cast(SpecT, spec.model_copy(update={"name": name, "defences": kept}))


def _with(spec: AnySpec, defence: AnyDefence) -> AnySpec:
    if any(one.kind == defence.kind for one in spec.defences):
        raise UserError(f"victim {spec.name}: the defence {defence.kind} is given twice")
    named = {"name": f"{spec.name}{JOINT}{defence.text}", "defences": (*spec.defences, defence)}
    try:
        changed = {} if defence.on_release else _changed(spec, defence)
        if changed is not None:
            return type(spec)(**(dict(spec) | changed | named))
        reason = f"it takes a victim whose training {NEEDS[defence.kind]}; this one has {spec.training.label}"
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    if spec.training.kind == "released":
        remaining = ", ".join(name for name, kind in KINDS.items() if kind.on_release)
        reason = f"its training is over, so that only what is done on release remains: {remaining}"
    raise UserError(f"victim {spec.name} cannot have the defence {defence.text}: {reason}")


def _changed(spec: AnySpec, defence: AnyDefence) -> dict[str, Any] | None:
    """Return the fields of a description that a defence of the training changes, None if it has no such knob."""
    training: Any = spec.training
    match defence, training:
        case EarlyStop(), GradientDescent() | NormalizedDescent() | Ordinary():
            knobs: dict[str, Any] = {"stop_loss": defence.strength}
        case EarlyStop(), DecayedDescent(corners=()):
            knobs = {"stop_loss": defence.strength}
        case Decay(), GradientDescent() | DecayedDescent() | GramGaussNewton() | Regularised() | Ordinary():
            knobs = {"weight_decay": defence.strength}
        case ForgetStart(), GradientDescent() | Ordinary() if training.weight_decay:
            knobs = {"epochs": training.epochs * defence.strength}
        case DifferentialPrivacy(), Descent():
            knobs = {"privacy": _private(training.privacy or Privacy(), defence)}
        case DifferentialPrivacy(), Ordinary():
            steps = training.epochs * math.ceil(spec.n / training.batch_size)
            knobs = {"privacy": _private(training.privacy or Privacy(), defence), "batch_size": spec.n, "epochs": steps}
        case DifferentialPrivacy(), Newton():
            knobs = {"privacy": _private(training.privacy or OutputPrivacy(), defence)}
        case RandomSeed(), _:
            return _unguessable(spec)
        case _:
            return None
    return {"training": type(training)(**(dict(training) | knobs))}


def _private(privacy: Any, defence: DifferentialPrivacy) -> Any:
    return privacy.model_copy(update={"epsilon": defence.strength})


def _unguessable(spec: AnySpec) -> dict[str, Any] | None:
    """Return a seed that nobody would try, or an initialisation that the informed adversary is not told.

    The seed stands for one that the system draws: 32 bits, since torch's generator on the CPU uses no more of any seed.
    It is computed from the victim's name so that the victim can be trained again; no attack computes it.
    """
    if isinstance(spec, InformedSpec):
        return {"initialisation": "random"}
    if isinstance(spec, GLMSpec | DeletionSpec) or spec.training.kind in ("released", "kernel"):
        return None
    if spec.training.kind == "regularised" and not getattr(spec.architecture, "hidden", ()):
        return None  # a convex loss has one minimiser
    if isinstance(spec.training, Ordinary) and spec.training.pretraining is not None:
        return None
    assert isinstance(spec, VictimSpec)
    plain = spec.name.partition(JOINT)[0]
    return {"seed": int.from_bytes(hashlib.sha256(f"{plain} {spec.seed}".encode()).digest()[:4])}
