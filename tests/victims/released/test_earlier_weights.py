"""Weights on the way beside somebody's own model, without any optimiser's state: told to attacks, and defended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked
from torch import nn

from attacks.base import Knowledge
from attacks.cocktail_party import CocktailParty
from bench.plan.capability import tellable
from bench.run.disclosure import view_of
from victims import datasets
from victims.base import Victim
from victims.cache import victim_key
from victims.defences.spec import Noise, Rounding
from victims.errors import UserError
from victims.obtain import obtain
from victims.released import released
from victims.spec import VictimSpec

WEIGHTS = "1.weight", "layers.0.weight"
"""A parameter as the module and as attacks call it."""


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 60), nn.ReLU(), nn.Linear(60, 10))


def trained(folder: Path) -> None:
    """Leave the weights after 30 and after 32 epochs of SGD on two photos of each of ten classes, and the photos."""
    raw = datasets.load("photos", None)
    images, labels = raw.train_images[::10], raw.train_labels[::10]
    np.savez(folder / "images.npz", train_images=images.transpose(0, 2, 3, 1), train_labels=labels)
    inputs, classes = torch.from_numpy((images - 0.5) / 0.25).float(), torch.from_numpy(labels)
    torch.manual_seed(3)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(32):
        if epoch == 30:
            torch.save(model.state_dict(), folder / "earlier.pt")
        for batch in torch.arange(len(inputs)).chunk(2):
            optimiser.zero_grad()
            F.cross_entropy(model(inputs[batch]), classes[batch]).backward()
            optimiser.step()
    torch.save(model.state_dict(), folder / "weights.pt")


def described(folder: Path, **options: Any) -> VictimSpec:
    given = {"weights": folder / "weights.pt", "images": folder / "images.npz", "snapshots": [folder / "earlier.pt"]}
    return released("mine", network=network, mean=0.5, std=0.25, **given | options)


def loaded(spec: VictimSpec) -> Victim:
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def test_attacks_are_told_of_them_and_find_the_images(tmp_path: Path) -> None:
    trained(tmp_path)
    spec = described(tmp_path)
    assert Knowledge.SNAPSHOTS in tellable(spec)
    assert {Knowledge.CHECKPOINTS, Knowledge.MOMENTUM, Knowledge.INITIAL_WEIGHTS}.isdisjoint(tellable(spec))
    attack = CocktailParty(CocktailParty.Params(**CocktailParty.variants["snapshots"]))
    assert attack.supports(spec) is None
    victim = loaded(spec)
    told = view_of(victim, attack.knowledge, CPU).snapshots
    for weights, file in zip(told, ("earlier.pt", "weights.pt"), strict=True):
        torch.testing.assert_close(weights[WEIGHTS[1]], torch.load(tmp_path / file)[WEIGHTS[0]])
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    candidates = attacked(attack, victim).candidates.flatten(1)
    cosines = (F.normalize(images) @ F.normalize(candidates).T).amax(1)
    assert int((cosines > 0.97).sum()) >= 18


def test_without_them_the_attack_says_what_is_missing(tmp_path: Path) -> None:
    trained(tmp_path)
    spec = described(tmp_path, snapshots=())
    assert Knowledge.SNAPSHOTS not in tellable(spec)
    attack = CocktailParty(CocktailParty.Params(**CocktailParty.variants["snapshots"]))
    assert "no weights on the way" in str(attack.supports(spec))
    assert loaded(spec).earlier == ()


def test_a_defence_on_release_is_on_them_too_with_noise_of_their_own(tmp_path: Path) -> None:
    trained(tmp_path)
    spec, name = described(tmp_path), WEIGHTS[1]
    plain, noisy = (loaded(spec.model_copy(update={"defences": one})) for one in ((), (Noise(strength=0.1),)))
    (before,), (after,) = plain.earlier, noisy.earlier
    added, others = after[name] - before[name], noisy.model.state_dict()[name] - plain.model.state_dict()[name]
    assert 0.05 < float(added.norm() / before[name].norm()) < 0.2
    assert abs(float(F.cosine_similarity(added.flatten(), others.flatten(), dim=0))) < 0.1
    (rounded,) = loaded(spec.model_copy(update={"defences": (Rounding(strength="int8"),)})).earlier
    assert len(rounded[name][0].unique()) <= 255 < len(before[name][0].unique())


def test_what_they_hold_is_in_the_key(tmp_path: Path) -> None:
    trained(tmp_path)
    every = (
        described(tmp_path),
        described(tmp_path, snapshots=()),
        described(tmp_path, snapshots=[tmp_path / "weights.pt"]),
    )
    assert len({victim_key(one, "data") for one in every}) == 3


def test_a_file_that_is_missing_changed_or_of_another_network_is_told(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(UserError, match="there are no weights at"):
        described(tmp_path, snapshots=["none.pt"])
    spec, there = described(tmp_path), tmp_path / "earlier.pt"
    there.write_bytes(there.read_bytes() + b"0")
    with pytest.raises(UserError, match=r"earlier\.pt changed while this ran"):
        loaded(spec)
    torch.save(nn.Linear(2, 3).state_dict(), there)
    with pytest.raises(UserError, match=r"earlier\.pt"):
        loaded(described(tmp_path))
