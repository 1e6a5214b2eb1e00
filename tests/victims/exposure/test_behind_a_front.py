"""The exposure card of a network with convolutions: its start, and the number of images if its features stayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from attacking import BATCH_NORM, CPU, victim_of
from safetensors.torch import save_file
from torch import nn

from bench.plan.exposed import exposure_lines
from victims.exposure.reading import exposure
from victims.obtain import obtain
from victims.released import released

N, CLASSES = 8, 3


def network(behind: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(216, 40), behind(), nn.Linear(40, CLASSES),
    )  # fmt: skip


@pytest.mark.parametrize("behind", [nn.ReLU, nn.GELU])
@pytest.mark.parametrize("frozen", [True, False])
def test_n_is_shown_where_the_features_stayed(frozen: bool, behind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = network(behind)
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
    described = released("mine", network=lambda: network(behind), initial=tmp_path / "start.safetensors", **files)
    found = exposure(obtain(described, None, CPU, lambda progress: None, lambda notice: None), seeds=5)

    assert found.start is not None
    assert (found.start.known_by, found.start.wrong, found.start.stayed) == ("given", False, 0)
    assert found.start.movement == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-5)
    assert found.start.images == found.images_shown == (N if frozen else None)
    told = dict(exposure_lines(found))
    assert found.start.decay == pytest.approx(1, abs=1e-3)
    assert told["start"].endswith(f"of it left, moved by {found.start.movement:.3g} of its length")
    assert told["directions of training images"].startswith("8 in what" if frozen else "not shown")


def test_batch_normalisation_moves_the_features() -> None:
    """Its running statistics move, though no parameter of the convolution does, and so do the features of a batch."""
    frozen = BATCH_NORM.training.model_copy(update={"last_layers": 2})
    found = exposure(victim_of(BATCH_NORM.model_copy(update={"training": frozen})), seeds=5)
    assert found.start is not None
    assert (found.start.images, found.start.stayed) == (None, 0)
