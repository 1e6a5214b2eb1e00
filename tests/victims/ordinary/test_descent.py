"""A training by torch.optim that is killed goes on from its last checkpoint, to the same weights bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attacking import CPU

from victims.ordinary.descent import Examples
from victims.ordinary.training import Trained, train_ordinary
from victims.recipes import Augmentation, Ordinary, Pretraining
from victims.spec import CNNSpec, MLPSpec, SmoothMLPSpec, VictimSpec
from victims.training import loop
from victims.unfinished import Unfinished

NETWORK = MLPSpec(hidden=(12, 9), outputs=5, biases="every", first_layer_scale=None)
CNN = CNNSpec(channels=(4,), hidden=(7,), outputs=5)
AUGMENTED = {"augmentation": Augmentation(flip=True, crop=1, mixup=True), "dropout": 0.5}
KINDS: dict[str, tuple[MLPSpec | CNNSpec | SmoothMLPSpec, dict[str, Any]]] = {
    "sgd": (NETWORK, {}),
    "adamw": (NETWORK, {"optimiser": "adamw", "lr": 1e-2, "schedule": "step", "clip": 0.5}),
    "finetuned": (NETWORK, {"pretraining": Pretraining(epochs=3, batch_size=4)}),
    "state": (NETWORK, {"optimiser": "adamw", "lr": 1e-2, "momentum_released": True}),
    "checkpoints": (NETWORK, {"optimiser": "adam", "lr": 1e-2, "checkpoints": (1, 3), "average": 0.9}),
    "lora": (NETWORK, {"lora_rank": 2, "snapshots": (1, 3)}),
    "smooth": (SmoothMLPSpec(hidden=(9,), layer_norm=True, outputs=5), {"optimiser": "adamw", "lr": 1e-2}),
    "augmented": (NETWORK, AUGMENTED),
    "augmented cnn": (CNN, AUGMENTED),
    "averaged": (NETWORK, {"average": 0.9, "mixed_precision": True, "label_smoothing": 0.1}),
    "averaged cnn": (CNN, {"average": 0.9, "augmentation": Augmentation(jitter=0.3, erase=0.5, cutmix=True)}),
    "cnn": (CNN, {"pretraining": Pretraining(epochs=2, batch_size=4), "snapshots": (2,)}),
}


class Killed(BaseException):
    pass


def trained(kind: str, checkpoint: Path | None = None, kill_at: int | None = None) -> tuple[Trained, int]:
    """The end of a training on random images, killed at its report of that number; and the reports."""
    architecture, training = KINDS[kind]
    spec = VictimSpec(
        name="digits-mlp-11-c5-killed",
        dataset="digits",
        n=11,
        architecture=architecture,
        training=Ordinary.model_validate({"epochs": 4, "batch_size": 3} | training),
    )
    generator = torch.Generator().manual_seed(0)
    members, others = (Examples(torch.randn(n, 1, 6, 6, generator=generator), torch.arange(n) % 5) for n in (11, 13))
    reports = 0

    def report(at: loop.TrainProgress) -> None:
        nonlocal reports
        reports += 1
        if reports == kill_at:
            raise Killed

    return train_ordinary(spec, members, others, CPU, report, Unfinished(checkpoint)), reports


def same(one: Trained, other: Trained) -> bool:
    pairs = [(one.start.state_dict(), other.start.state_dict()), (one.model.state_dict(), other.model.state_dict())]
    pairs += [(one.snapshots[epoch], other.snapshots[epoch]) for epoch in one.snapshots]
    pairs.append((one.momentum, other.momentum))
    pairs += [(one.checkpoints[epoch].packed(), other.checkpoints[epoch].packed()) for epoch in one.checkpoints]
    assert one.snapshots.keys() == other.snapshots.keys()
    assert one.checkpoints.keys() == other.checkpoints.keys()
    return all(torch.equal(value, second[name]) for first, second in pairs for name, value in first.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_is_killed_after_any_step_ends_at_the_same_weights(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("victims.unfinished.CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr("victims.ordinary.descent.REPORT_SECONDS", -1.0)
    whole, steps = trained(kind)
    assert all(value.isfinite().all() for value in whole.model.state_dict().values())
    for kill_at in range(2, steps + 1, 6):
        checkpoint = tmp_path / f"{kill_at}.safetensors"
        with pytest.raises(Killed):
            trained(kind, checkpoint, kill_at)
        resumed, left = trained(kind, checkpoint)
        assert same(whole, resumed)
        assert left == steps - kill_at + 1  # the step in progress was lost, nothing else


def test_a_torn_checkpoint_is_set_aside(tmp_path: Path) -> None:
    checkpoint = tmp_path / "torn.safetensors"
    checkpoint.write_bytes(b"\x10\x00\x00")
    again, _ = trained("sgd", checkpoint)
    assert same(trained("sgd")[0], again)
    assert not checkpoint.exists()
