"""What cards tell of the start: whatever the kind of the network, and under a defence as without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from attacking import CPU, RANDOM_FEATURES, victim_of
from safetensors.torch import save_file
from torch import nn

from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.files import sha256_file
from victims.obtain import obtain
from victims.released import released


def front() -> nn.Module:
    features = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(features, nn.Flatten(), nn.Linear(32, 6), nn.ReLU(), nn.Linear(6, 2))


def tail() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.GELU(), nn.Linear(9, 2))


def bare() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(128, 2))


@pytest.mark.parametrize(("make", "kind"), [(front, "front"), (tail, "tail"), (bare, "module")])
def test_the_card_of_an_owners_network_tells_of_its_start_defended_or_not(
    make: Callable[[], nn.Module], kind: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    begun = make().state_dict()
    save_file(begun, tmp_path / "start.safetensors")
    save_file({name: 2 * value for name, value in begun.items()}, tmp_path / "end.safetensors")
    shown = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", train_images=shown, train_labels=np.arange(8) % 2)
    files = {"weights": tmp_path / "end.safetensors", "initial": tmp_path / "start.safetensors"}
    plain = released("mine", network=make, images=tmp_path / "images.npz", **files)
    assert plain.architecture.kind == kind
    for spec in (plain, defended(plain, [parse("clip-outputs=9")])):
        card = obtain(spec, None, CPU, lambda progress: None, lambda line: None).card
        assert card.start_sha256 == sha256_file(tmp_path / "start.safetensors")
        assert card.movement == pytest.approx(1)
        assert (card.directions is not None) == (card.start_decay is not None) == (kind == "tail")


def test_the_card_of_defended_random_features_tells_of_their_start() -> None:
    plain, made = victim_of(RANDOM_FEATURES), victim_of(defended(RANDOM_FEATURES, [parse("clip-outputs=1")]))
    assert made.card.start_sha256 == plain.card.start_sha256
    assert made.card.movement == plain.card.movement
    assert made.card.directions is plain.card.directions is None
