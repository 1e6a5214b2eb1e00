"""The exposure card of a network with convolutions: its start, and the number of images if its features stayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from attacking import BATCH_NORM, CPU, victim_of
from safetensors.torch import save_file
from torch import nn

from attacks.unknown_start import NO_UPDATE
from bench.plan import registry
from bench.plan.exposed import exposure_lines
from bench.plan.prospects import Outlook, prospects
from victims.base import Victim
from victims.exposure.card import Exposure
from victims.exposure.reading import exposure
from victims.obtain import obtain
from victims.released import released

N, CLASSES = 8, 3


def network(behind: type[nn.Module], pooled: bool) -> nn.Sequential:
    if not pooled:
        plain = nn.Conv2d(1, 3, 5), nn.ReLU(), nn.Flatten()
        return nn.Sequential(*plain, nn.Linear(192, 40), behind(), nn.Linear(40, CLASSES))
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(216, 40), behind(), nn.Linear(40, CLASSES),
    )  # fmt: skip


def outlooks(victim: Victim, found: Exposure) -> dict[str, tuple[Outlook, str]]:
    every = prospects(registry.attacks().items.values(), victim.spec, found)
    return {one.name: (one.outlook, one.reason) for one in every}


@pytest.mark.parametrize(("behind", "pooled"), [(nn.ReLU, True), (nn.GELU, True), (nn.ReLU, False)])
@pytest.mark.parametrize("frozen", [True, False])
def test_n_is_shown_where_the_features_stayed(
    frozen: bool, behind: type[nn.Module], pooled: bool, tmp_path: Path
) -> None:
    """Behind a front with pooling, and behind plain convolutions."""
    torch.manual_seed(0)
    module = network(behind, pooled)
    save_file(module.state_dict(), tmp_path / "start.safetensors")
    before = torch.cat([value.flatten() for value in module.parameters()]).detach().clone()
    images, labels = torch.rand(N, 1, 12, 12), torch.arange(N) % CLASSES
    module[0].requires_grad_(not frozen)
    optimiser = torch.optim.SGD([value for value in module.parameters() if value.requires_grad], lr=0.5)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(images), labels).backward()
        optimiser.step()
    after = torch.cat([value.flatten() for value in module.parameters()]).detach()
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    np.savez(tmp_path / "images.npz", train_images=images[:, 0].numpy(), train_labels=labels.numpy())
    files = {"weights": tmp_path / "weights.safetensors", "images": tmp_path / "images.npz"}
    begun = tmp_path / "start.safetensors"
    described = released("mine", network=lambda: network(behind, pooled), initial=begun, **files)
    victim = obtain(described, None, CPU, lambda progress: None, lambda notice: None)
    found = exposure(victim, seeds=5)

    assert found.start is not None
    assert (found.start.known_by, found.start.wrong, found.start.stayed) == ("given", False, 0)
    assert found.start.behind_front
    assert found.start.movement == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-5)
    assert found.start.images == found.images_shown == (N if frozen else None)
    told = dict(exposure_lines(found))
    assert found.start.decay == pytest.approx(1, abs=1e-3)
    assert told["start"].endswith(f"of it left, moved by {found.start.movement:.3g} of its length")
    assert told["directions of training images"].startswith("8 in what" if frozen else "not shown")
    tried = outlooks(victim, found)
    assert tried["cocktail-party-features"][0] is Outlook.OPEN
    assert tried["cocktail-party-features:lora"] == (Outlook.DOUBTED, NO_UPDATE)
    if behind is nn.ReLU:
        assert tried["kkt-delta-features"][0] is Outlook.OPEN


def test_batch_normalisation_moves_the_features() -> None:
    """Its running statistics move, though no parameter of the convolution does, and so do the features of a batch."""
    frozen = BATCH_NORM.training.model_copy(update={"last_layers": 2})
    found = exposure(victim_of(BATCH_NORM.model_copy(update={"training": frozen})), seeds=5)
    assert found.start is not None
    assert (found.start.images, found.start.stayed) == (None, 0)
