"""The victims of the studies of ordinary training: each differs from `cifar-mlp-100-c10-sgd` in one habit of training.

Names are `<dataset>-mlp-<n>-c10-sgd-<habit>`. The digits ones are for `--smoke`.
"""

from __future__ import annotations

from typing import Any

from victims.recipes import Ordinary
from victims.spec import MLPSpec, VictimSpec

ADAM = {"optimiser": "adam", "lr": 3e-4, "weight_decay": 0.0, "epochs": 100, "schedule": "constant"}
TRAININGS: dict[str, dict[str, Any]] = {
    "momentum0": {"momentum": 0.0},
    "batch16": {"batch_size": 16},
    "fullbatch": {"batch_size": 100},
    "lr5e-3": {"lr": 5e-3},
    "constant": {"schedule": "constant"},
    "clip1": {"clip": 1.0},
    "stop1": {"stop_loss": 1.0},
    "adam": ADAM,
    "raw": {"inputs": "raw"},
    "wd0": {"weight_decay": 0.0},
    "epochs30": {"epochs": 30},
    "epochs1000": {"epochs": 1000},
    "epochs10000": {"epochs": 10_000},
    "wd5e-3": {"weight_decay": 5e-3},
    "wd5e-3-epochs1000": {"weight_decay": 5e-3, "epochs": 1000},
    "wd5e-3-epochs3000": {"weight_decay": 5e-3, "epochs": 3000},
}
"""What differs in the training."""
NETWORKS: dict[str, dict[str, Any]] = {
    "bias1": {"biases": "first"},
    "init1e-4": {"first_layer_scale": 1e-4},
    "width300": {"hidden": (300, 300)},
    "width2000": {"hidden": (2000, 2000)},
    "width3000": {"hidden": (3000, 1000)},
    "depth3": {"hidden": (1000, 1000, 1000)},
}
"""What differs in the network; `bias1` has a bias in layer 1 alone and `init1e-4` starts it small, as the papers do."""

MORE = {300: ("lr5e-3", "momentum0", "epochs30", "clip1", "width3000"), 500: ("lr5e-3", "momentum0")}
"""By number of images, the habits that are also trained on this number."""


def _victim(*habits: str, dataset: str = "cifar", n: int = 100) -> VictimSpec:
    """Return the victim of these habits together."""
    network: dict[str, Any] = {"outputs": 10, "biases": "every", "first_layer_scale": None}
    training: dict[str, Any] = {}
    for habit in habits:
        network |= NETWORKS.get(habit, {})
        training |= TRAININGS.get(habit, {})
    return VictimSpec(
        name=f"{dataset}-mlp-{n}-c10-sgd-{'-'.join(habits)}",
        dataset=dataset,
        n=n,
        architecture=MLPSpec(**network),
        training=Ordinary(**training),
    )


VICTIMS = (
    *map(_victim, TRAININGS | NETWORKS),
    *(_victim(habit, n=n) for n, habits in MORE.items() for habit in habits),
    _victim("width2000", "lr5e-3", n=1000),
    _victim("epochs30", dataset="digits", n=20),
    _victim("bias1", dataset="digits", n=20),
)
