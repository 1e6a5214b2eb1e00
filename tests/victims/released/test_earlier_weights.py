"""Weights on the way beside somebody's own model, without any optimiser's state: told to attacks, and defended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked, cosines
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
from victims.recipes import Released
from victims.released import released
from victims.spec import VictimSpec

WEIGHTS = "1.weight", "layers.0.weight"
"""A parameter as the module and as attacks call it."""


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 60), nn.ReLU(), nn.Linear(60, 10))


def trained(folder: Path, build: Callable[[], nn.Module] = network) -> None:
    """Leave the weights after 30 and after 32 epochs of SGD on two photos of each of ten classes, and the photos."""
    raw = datasets.load("photos", None)
    images, labels = raw.train_images[::10], raw.train_labels[::10]
    np.savez(folder / "images.npz", train_images=images.transpose(0, 2, 3, 1), train_labels=labels)
    inputs, classes = torch.from_numpy((images - 0.5) / 0.25).float(), torch.from_numpy(labels)
    torch.manual_seed(3)
    model = build()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(32):
        if epoch == 30:
            torch.save(model.state_dict(), folder / "earlier.pt")
        for batch in torch.arange(len(inputs)).chunk(2):
            optimiser.zero_grad()
            F.cross_entropy(model(inputs[batch]), classes[batch]).backward()
            optimiser.step()
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save(optimiser.state_dict(), folder / "optimizer.pt")


def described(folder: Path, **options: Any) -> VictimSpec:
    given = {"weights": folder / "weights.pt", "images": folder / "images.npz", "snapshots": [folder / "earlier.pt"]}
    return released("mine", mean=0.5, std=0.25, **{"network": network} | given | options)


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
    assert int((cosines(victim, attacked(attack, victim).candidates) > 0.97).sum()) >= 18


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


def test_what_they_hold_is_in_the_key_and_where_they_lie_is_not(tmp_path: Path) -> None:
    trained(tmp_path)
    plain = described(tmp_path, snapshots=())
    assert not [field for field in plain.identity()["training"] if field.startswith("earlier")]
    copied = shutil.copy(tmp_path / "earlier.pt", tmp_path / "copy.pt")
    assert victim_key(described(tmp_path, snapshots=[copied]), "data") == victim_key(described(tmp_path), "data")
    torch.save(network().state_dict(), tmp_path / "other.pt")
    others = described(tmp_path), described(tmp_path, snapshots=[tmp_path / "other.pt"])
    assert len({victim_key(one, "data") for one in (plain, *others)}) == 3


def test_several_are_told_in_their_order_and_the_release_last(tmp_path: Path) -> None:
    trained(tmp_path)
    torch.save({name: value + 1 for name, value in torch.load(tmp_path / "earlier.pt").items()}, tmp_path / "more.pt")
    files = ["more.pt", "earlier.pt"]
    victim = loaded(described(tmp_path, snapshots=[tmp_path / file for file in files]))
    told = view_of(victim, frozenset({Knowledge.SNAPSHOTS}), CPU).snapshots
    for weights, file in zip(told, (*files, "weights.pt"), strict=True):
        torch.testing.assert_close(weights[WEIGHTS[1]], torch.load(tmp_path / file)[WEIGHTS[0]])


def test_the_weights_of_an_earlier_checkpoint_are_told_where_no_others_are(tmp_path: Path) -> None:
    trained(tmp_path)
    pair = {"earlier": (tmp_path / "earlier.pt", tmp_path / "optimizer.pt"), "optimiser": tmp_path / "optimizer.pt"}
    torch.save(network().state_dict(), tmp_path / "more.pt")
    for files, told in (((), "earlier.pt"), ([tmp_path / "more.pt"], "more.pt")):
        training = described(tmp_path, snapshots=files, **pair).training
        assert isinstance(training, Released)
        assert [file.name for file, _ in training.on_the_way] == [told]


def test_they_are_normalised_as_the_release_is_so_that_images_span_what_they_differ_by(tmp_path: Path) -> None:
    def normalised() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(3072, 60), nn.BatchNorm1d(60), nn.ReLU(), nn.Linear(60, 10))

    trained(tmp_path, normalised)
    victim = loaded(described(tmp_path, network=normalised))
    before, after = view_of(victim, frozenset({Knowledge.SNAPSHOTS}), CPU).snapshots
    moved = (after[WEIGHTS[1]] - before[WEIGHTS[1]]).double()
    basis = torch.linalg.qr(torch.from_numpy(victim.split.inputs).flatten(1).double().T).Q
    assert float((moved - moved @ basis @ basis.T).norm() / moved.norm()) < 1e-2


@pytest.mark.parametrize("wrong", [None, 5, [None], [("earlier.pt", "optimizer.pt")], {"earlier.pt"}])
def test_what_is_no_list_of_files_is_told(wrong: object, tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(UserError, match="expected a list of files of weights, the earliest first"):
        described(tmp_path, snapshots=wrong)


def test_the_release_itself_is_no_earlier_one(tmp_path: Path) -> None:
    trained(tmp_path)
    torch.save(network().state_dict(), tmp_path / "more.pt")
    for files in (["weights.pt"], ["weights.pt", "earlier.pt"], ["earlier.pt", "more.pt", "earlier.pt"]):
        with pytest.raises(UserError, match="are the same weights; `snapshots` are earlier ones"):
            described(tmp_path, snapshots=[tmp_path / file for file in files])


def test_a_file_that_is_missing_changed_or_of_another_network_is_told(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(UserError, match="there are no weights at"):
        described(tmp_path, snapshots=["none.pt"])
    spec, there = described(tmp_path), tmp_path / "earlier.pt"
    there.write_bytes(there.read_bytes() + b"0")
    with pytest.raises(UserError, match=r"earlier\.pt changed while this ran"):
        loaded(spec)
    torch.save(nn.Linear(2, 3).state_dict(), there)
    with pytest.raises(UserError, match=r"earlier\.pt does not fit the network"):
        loaded(described(tmp_path))
