"""What tests of attacks have in common: tiny victims, one run of an attack, and what kills it at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor

from attacks.base import Attack, AttackContext, AttackParams, Reconstruction
from attacks.context import Checkpoint
from attacks.known_start.equation import back_propagated
from bench.run.disclosure import view_of
from victims import obtain
from victims.base import Victim
from victims.deletion import cache as deletion_cache
from victims.equations.network import Network
from victims.informed import cache as informed_cache
from victims.informed.spec import AnySpec, DenseSpec, Descent, InformedSpec
from victims.kernel.spec import KernelFit, KernelSpec
from victims.recipes import Interpolation, Ordinary
from victims.spec import (
    CNNSpec,
    DecayedDescent,
    MLPSpec,
    NormalizedDescent,
    RandomFeaturesSpec,
    Regularised,
    VictimSpec,
)

CPU = torch.device("cpu")
BIASES = VictimSpec(
    name="digits-mlp-6-biases",
    dataset="digits",
    n=6,
    architecture=MLPSpec(hidden=(12, 10), biases="all"),
    training=NormalizedDescent(steps=60),
)
MARGIN = VictimSpec(
    name="digits-mlp-6-margin",
    dataset="digits",
    n=6,
    architecture=MLPSpec(hidden=(12,)),
    training=NormalizedDescent(steps=60),
)
CLASSES = VictimSpec(
    name="digits-mlp-12-c3-decayed",
    dataset="digits",
    n=12,
    architecture=MLPSpec(hidden=(40, 40), outputs=3),
    training=DecayedDescent(steps=300),
)
AFFINE = VictimSpec(
    name="digits-mlp-6-affine", dataset="digits", n=6, architecture=MLPSpec(hidden=()), training=Regularised()
)
DECAYED = VictimSpec(
    name="faces-mlp-4-wd", dataset="faces", n=4, architecture=MLPSpec(hidden=(8,)), training=Regularised(steps=50)
)
ORDINARY = VictimSpec(
    name="digits-mlp-10-c10-ordinary",
    dataset="digits",
    n=10,
    architecture=MLPSpec(hidden=(24, 20), outputs=10, biases="every", first_layer_scale=None),
    training=Ordinary(epochs=20, batch_size=5),
)
STATE, UPDATE, STATES = (
    ORDINARY.model_copy(
        update={"name": f"digits-mlp-10-c10-{name}", "training": ORDINARY.training.model_copy(update=changes)}
    )
    for name, changes in (
        ("state", {"momentum_released": True}),
        ("update", {"momentum_released": True, "lora_rank": 8, "weight_decay": 0.0}),
        ("checkpoints", {"optimiser": "adamw", "lr": 1e-3, "checkpoints": (1, 2, 3)}),
    )
)
OF_STATE = {"free_steps": 0, "start": "momentum"}
STANDING_IN = {
    "momentum": (STATE, OF_STATE),
    "an update": (UPDATE, OF_STATE | {"lora": True, "signs": "both"}),
    "checkpoints": (STATES, OF_STATE | {"start": "checkpoints"}),
    "snapshots": (STATES, OF_STATE | {"start": "snapshots"}),
}
"""Victims that release what stands in for a start, and the parameters of the separation that takes it."""
BATCH_NORM = ORDINARY.model_copy(
    update={"name": "digits-cnn-10-c10-ordinary", "architecture": CNNSpec(channels=(4,), hidden=(20,), outputs=10)}
)
RANDOM_FEATURES = VictimSpec(
    name="digits-rf-4-2560",
    dataset="digits",
    n=4,
    architecture=RandomFeaturesSpec(width=2560),
    loss="l2",
    training=Interpolation(),
)
KERNEL = VictimSpec(
    name="digits-krr-10-tiny",
    dataset="digits",
    n=10,
    architecture=KernelSpec(outputs=10),
    training=KernelFit(gamma=0.5),
)
"""Victims of the dataset setting: with biases, of the margin problem, of three classes, affine, with a weight decay,
three whose start is kept, and a kernel machine."""


def digits_network(n: int, targets: int, epochs: int, hidden: int = 4) -> InformedSpec:
    """Networks of the informed setting that train in a moment, on 8 x 8 digits."""
    return InformedSpec(
        name=f"digits-elu{hidden}-{n}",
        dataset="digits",
        n=n,
        targets=targets,
        architecture=DenseSpec(hidden=(hidden,)),
        training=Descent(epochs=epochs),
    )


def sgd_network(dataset: str, n: int, hidden: tuple[int, ...], lr: float, batch_size: int, epochs: int) -> VictimSpec:
    """Fully connected networks of ten classes that SGD trained with weight decay from torch's own start."""
    return VictimSpec(
        name=f"{dataset}-mlp-{n}-c10-sgd",
        dataset=dataset,
        n=n,
        architecture=MLPSpec(hidden=hidden, outputs=10, biases="every", first_layer_scale=None),
        training=Ordinary(lr=lr, batch_size=batch_size, epochs=epochs, weight_decay=1e-3),
    )


def drawn_network(generator: torch.Generator, *widths: int, biases: bool = True) -> Network:
    """A network whose weights, and biases where it has any, are drawn normally: float64, smaller where layers are wide.

    Args:
        generator: of the weights.
        widths: of the inputs, the hidden layers and the outputs.
        biases: whether it has any.
    """

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5

    weights = tuple(draw(after, before) for before, after in pairwise(widths))
    return Network(weights, tuple(draw(after) if biases else None for after in widths[1:]))


def images_and_errors(
    network: Network, n: int, generator: torch.Generator, sharpness: float, size: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Images (n, d), normal but for their root mean square, and their errors (n, h) in layer 1 by a drawn loss.

    Args:
        network: where the errors are.
        n: how many.
        generator: of the images, and of the loss's coefficients on the outputs.
        sharpness: of the gates.
        size: root mean square of each image.
    """
    d, outputs = network.weights[0].shape[1], len(network.weights[-1])
    images = size * d**0.5 * F.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64))
    coefficients = torch.randn(n, outputs, generator=generator, dtype=torch.float64)
    return images, back_propagated(network, images, coefficients, sharpness)[0][0]


def victim_of(spec: AnySpec, device: torch.device = CPU) -> Any:
    """The victim that a spec describes, trained without reports."""
    train: Any = {
        "dataset": obtain.obtain,
        "informed": informed_cache.obtain,
        "deletion": deletion_cache.obtain,
    }[spec.setting]
    return train(spec, None, device, lambda *progress: None, lambda notice: None)


def cosines(victim: Victim, candidates: Tensor) -> Tensor:
    """Of each training image and the candidate nearest to it, (n,)."""
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    return (F.normalize(images) @ F.normalize(candidates.flatten(1)).T).amax(1)


def context(seed: int = 0) -> AttackContext:
    return AttackContext(CPU, torch.Generator().manual_seed(seed), lambda step, steps, **figures: None)


def attacked(attack: Attack[Any], victim: Any, seed: int = 0) -> Reconstruction:
    return attack.reconstruct(view_of(victim, attack.knowledge, CPU), context(seed))


def quick(attack: type[Attack[Any]], values: dict[str, Any]) -> AttackParams:
    """An attack's parameters: its defaults, changed to those of the values that it has a parameter for."""
    return attack.Params(**{name: value for name, value in values.items() if name in attack.Params.model_fields})


class Interrupted(BaseException):
    """What kills an attack in a test."""


class Memory:
    """Keeps checkpoints in memory; kills the attack once it has kept `most` of them."""

    def __init__(self, most: int = 10**9) -> None:
        self.most, self.kept = most, 0
        self.last: Checkpoint | None = None

    def load(self) -> Checkpoint | None:
        return self.last

    def save(self, checkpoint: Checkpoint) -> None:
        self.last = stored(checkpoint)
        self.kept += 1
        if self.kept == self.most:
            raise Interrupted


def stored(checkpoint: Checkpoint) -> Checkpoint:
    """What the store gives back of a checkpoint; it takes no two tensors of the same memory."""
    plain = {name: value.cpu().contiguous() for name, value in checkpoint.state.items()}
    return Checkpoint(load(save(plain)), list(checkpoint.trace), checkpoint.seconds)


class Recorded:
    """Keeps the checkpoints of one run after which others are to go on, as if each had been killed there.

    Args:
        after: the numbers of these checkpoints, from 1 on.
        begun: what a run before it has left, if it goes on from there.

    Attributes:
        number: of checkpoints that the run has offered.
        kept: by these numbers.
    """

    def __init__(self, after: Iterable[int], begun: Checkpoint | None = None) -> None:
        self.after, self.number, self.begun = set(after), 0, begun
        self.kept: dict[int, Checkpoint] = {}

    def load(self) -> Checkpoint | None:
        return self.begun and stored(self.begun)

    def save(self, checkpoint: Checkpoint) -> None:
        self.number += 1
        if self.number in self.after:
            self.kept[self.number] = stored(checkpoint)


@dataclass
class Left:
    """What a run that was killed has left to one that keeps nothing itself."""

    checkpoint: Checkpoint

    def load(self) -> Checkpoint | None:
        return stored(self.checkpoint)

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep nothing."""
