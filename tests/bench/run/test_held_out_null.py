"""The null control of held-out images: as many as the attack has candidates, none of them a training image."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from attacks.base import Reconstruction
from bench.run.nulls.controls import NullControls
from bench.run.session import Session
from bench.run.setup import Setup
from bench.scoring import PROTOCOLS
from bench.terminal.progress import Silent
from victims import datasets
from victims.base import Victim
from victims.spec import MLPSpec, NormalizedDescent, Ordinary, VictimSpec

SMALL = VictimSpec(
    name="digits-few", dataset="digits", n=4, architecture=MLPSpec(hidden=(8,)), training=NormalizedDescent(steps=5)
)
STANDARDISED = SMALL.model_copy(
    update={
        "architecture": MLPSpec(hidden=(8,), biases="every", outputs=10),
        "groups": tuple((label,) for label in range(10)),
        "training": Ordinary(lr=0.01, batch_size=4, epochs=1),
        "n": 20,
    }
)
SPECS = pytest.mark.parametrize(
    "spec",
    [SMALL, SMALL.model_copy(update={"retraining": 3}), STANDARDISED],
    ids=["plain", "retrained", "standardised"],
)


def held_out(spec: VictimSpec, protocol: str, count: int) -> tuple[Victim, np.ndarray]:
    """A victim, and the control's images in [0, 1] beside an attack of so many candidates."""
    session = Session(Setup(Path(), None, None, "cpu", twins=False), Silent())
    victim = session.victim(spec)
    assert isinstance(victim, Victim)
    found = Reconstruction(torch.zeros(count, *victim.input_shape))
    unused = cast("Any", None)
    given = NullControls(session, None, twins=False).candidates(
        "null_held_out", unused, PROTOCOLS[protocol], found, victim
    )
    return victim, victim.images(given.numpy())


def known(images: np.ndarray) -> set[bytes]:
    return {image.tobytes() for image in (16 * images).round().astype(np.uint8)}


@SPECS
def test_there_are_as_many_as_the_attack_has_and_at_least_all_that_are_held_out(spec: VictimSpec) -> None:
    victim, few = held_out(spec, "buzaglo2023", 10)
    tested = victim.images(victim.split.test_inputs)
    np.testing.assert_allclose(few, tested, atol=1e-6)
    _, many = held_out(spec, "buzaglo2023", len(tested) + 100)
    assert len(many) == len(tested) + 100
    np.testing.assert_allclose(many[: len(tested)], tested, atol=1e-6)
    raw = datasets.load("digits", None)
    assert known(many[len(tested) :]) <= known(raw.train_images)
    assert not known(many[len(tested) :]) & (known(victim.images(victim.split.inputs)) | known(tested))


def test_there_are_no_more_than_the_dataset_has() -> None:
    victim, most = held_out(SMALL, "buzaglo2023", 10_000)
    assert len(most) == 1797 - 4
    assert len(victim.split.spare) == 1797 - 4 - len(victim.split.test_inputs)


def test_where_the_nearest_held_out_image_is_the_bar_the_control_has_others() -> None:
    victim, others = held_out(SMALL, "nearest-public", 60)
    assert len(others) == 60
    assert not known(others) & known(victim.images(victim.split.test_inputs))
