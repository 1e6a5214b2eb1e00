"""Candidates without labels start from images of every class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import attacked, victim_of

from attacks.base import Attack
from attacks.kkt_conv import KKTConv
from attacks.kkt_general import KKTGeneral
from attacks.kkt_span import KKTSpan
from victims.equations.row_space import row_space
from victims.spec import ConvSpec, MLPSpec, NetworkSpec, NormalizedDescent, VictimSpec

THREE, FIVE = MLPSpec(hidden=(30, 20), outputs=3), MLPSpec(hidden=(30, 20), outputs=5)
CASES: list[tuple[type[Attack[Any]], NetworkSpec, int]] = [
    (KKTGeneral, THREE, 9),
    (KKTGeneral, FIVE, 10),
    (KKTSpan, FIVE, 10),
    (KKTGeneral, MLPSpec(hidden=(30,)), 6),
    (KKTConv, ConvSpec(channels=4, hidden=(10,)), 6),
]


@pytest.mark.parametrize(("attack", "architecture", "n"), CASES)
def test_as_many_candidates_as_images_start_from_each_image_once(
    attack: type[Attack[Any]], architecture: NetworkSpec, n: int
) -> None:
    """One step too short to move: a fully connected victim's candidates are the images' parts in the row space."""
    training = NormalizedDescent(steps=20)
    spec = VictimSpec(
        name=f"digits-{architecture.kind}-{n}-start",
        dataset="digits",
        n=n,
        architecture=architecture,
        training=training,
    )
    victim = victim_of(spec)
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    if architecture.kind == "mlp":
        basis = row_space(next(victim.model.parameters()).detach()).basis
        images = images @ basis @ basis.T
    still = attack.Params(init="truth", candidates=n, restarts=1, steps=1, lr=1e-9, lambda_lr=1e-9)
    found = attacked(attack(still), victim).candidates.flatten(1)
    for image in images:
        assert int(torch.isclose(found, image, atol=1e-4).all(1).sum()) == 1
