"""Victims to try an attack on, of any setting, which train in about a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from bench.run.session import Session
from bench.run.setup import Setup
from bench.terminal.progress import Silent
from victims.deletion.spec import DeletionSpec
from victims.informed.spec import AnySpec, DenseSpec, Descent, GLMSpec, InformedSpec
from victims.informed.victim import AnyVictim, InformedVictim
from victims.kernel.spec import KernelFit, KernelSpec
from victims.recipes import Ordinary, Privacy
from victims.spec import ConvSpec, DecayedDescent, MLPSpec, NormalizedDescent, Regularised, VictimSpec

CPU = torch.device("cpu")
POOL = 60
"""Images of an informed victim's shadow pool: shadow models are cheap then, whatever an attack's defaults."""
SMALL, DECAYED = NormalizedDescent(steps=60), Regularised(steps=50)
SOFTMAX = MLPSpec(hidden=(12,), outputs=3)
FAMILIES: tuple[AnySpec, ...] = (
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
    VictimSpec(
        name="check-start",
        dataset="digits",
        n=10,
        architecture=MLPSpec(hidden=(16,), outputs=10, biases="every", first_layer_scale=None),
        training=Ordinary(epochs=5),
    ),
    VictimSpec(
        name="check-kernel", dataset="digits", n=10, architecture=KernelSpec(outputs=10), training=KernelFit(gamma=0.5)
    ),
    InformedSpec(
        name="check-network",
        dataset="digits",
        n=30,
        targets=4,
        architecture=DenseSpec(hidden=(4,)),
        training=Descent(epochs=3),
    ),
    InformedSpec(
        name="check-trace",
        dataset="digits",
        n=30,
        targets=4,
        architecture=DenseSpec(hidden=(5,)),
        training=Descent(epochs=3, privacy=Privacy()),
        prior=2,
    ),
    GLMSpec(name="check-glm", dataset="digits", n=60, targets=4),
    DeletionSpec(name="check-deletion", dataset="digits", n=60, targets=4),
)
"""An attack is tried on the first of its setting that it supports."""


def session(data_dir: Path | None) -> Session:
    """Return a new session on this processor that tells nobody."""
    return Session(Setup(Path(), data_dir, None, str(CPU), twins=False), Silent())


def trained(spec: AnySpec) -> AnyVictim:
    """Return one of the tiny victims, trained; the shadow pool of an informed one is cut to `POOL` images."""
    victim = session(None).victim(spec)
    if isinstance(victim, InformedVictim):
        return replace(victim, split=replace(victim.split, pool=victim.split.pool[:POOL]))
    return victim


def smallest(spec: AnySpec) -> AnySpec:
    """Return the smallest victim of a kind: one image a class and, if targets are attacked, one target or one prior."""
    few = {"n": spec.n_classes}
    if not isinstance(spec, VictimSpec):
        few["targets"] = spec.prior or 1 if isinstance(spec, InformedSpec) else 1
    return spec.model_copy(update=few)
