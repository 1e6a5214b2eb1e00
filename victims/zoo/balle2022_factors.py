"""Victims of Balle et al. 2022's factor study: each differs from `mnist-elu10-1000-default` in one thing.

The paper's default has a fixed set of 10,000 and 59,000 shadows; here it is the authors' notebook's, a fixed set of
1,000, and 200 targets, so that a cell is a matter of minutes on two cores. The digits ones are for `--smoke`.
"""

from __future__ import annotations

from typing import Any

from victims.informed.spec import DenseSpec, Descent, InformedSpec, SmallCNNSpec

TARGETS = 200
CIFAR_RATE = 0.01


def _mnist(
    variant: str, n: int = 1000, hidden: tuple[int, ...] = (10,), activation: str = "elu", **more: Any
) -> InformedSpec:
    """Return the default victim with a change, which `variant` names."""
    initialisation = more.pop("initialisation", "known")
    return InformedSpec(
        name=f"mnist-{activation}{'-'.join(map(str, hidden))}-{n}-{variant}",
        dataset="mnist",
        n=n,
        targets=TARGETS,
        architecture=DenseSpec(hidden=hidden, activation=activation),
        training=Descent(**{"lr": 0.1, "momentum": 0.9, "epochs": 100} | more),
        initialisation=initialisation,
    )


def _cifar(variant: str, n: int, activation: str = "elu", **more: Any) -> InformedSpec:
    """Return the paper's convolutional victim on CIFAR-10 with a change."""
    initialisation = more.pop("initialisation", "known")
    return InformedSpec(
        name=f"cifar-cnn-{n}-{variant}",
        dataset="cifar",
        n=n,
        targets=TARGETS,
        architecture=SmallCNNSpec(activation=activation),
        training=Descent(**{"lr": CIFAR_RATE, "momentum": 0.9, "epochs": 100} | more),
        initialisation=initialisation,
    )


def _digits(variant: str, activation: str = "elu", initialisation: str = "known") -> InformedSpec:
    return InformedSpec(
        name=f"digits-{activation}10-100-{variant}",
        dataset="digits",
        n=100,
        targets=50,
        architecture=DenseSpec(activation=activation),
        training=Descent(epochs=50),
        initialisation=initialisation,
    )


VICTIMS: tuple[InformedSpec, ...] = (
    _mnist("default"),
    _mnist("default", n=500),
    _mnist("default", n=2000),
    _mnist("default", hidden=(1,)),
    _mnist("default", hidden=(100,)),
    _mnist("default", hidden=(10, 10)),
    *(_mnist("default", activation=activation) for activation in ("relu", "tanh", "sigmoid", "gelu", "softplus")),
    _mnist("epochs50", epochs=50),
    _mnist("epochs250", epochs=250),
    _mnist("random", initialisation="random"),
    _mnist("pretrained", initialisation="pretrained"),
    # Table III: initialisation, learning rate and momentum
    *(
        _mnist(f"lr{rate:g}-m{momentum:g}{suffix}".replace(".", ""), lr=rate, momentum=momentum, initialisation=start)
        for start, suffix in (("known", ""), ("random", "-random"))
        for rate in (0.01, 0.2)
        for momentum in (0.0, 0.9)
    ),
    *(
        _mnist(f"batch{size}{suffix}", batch_size=size, epochs=20, order_seed=seed)
        for size in (100, 500)
        for seed, suffix in ((0, ""), (None, "-secret"))
    ),
    _mnist("adam", optimizer="adam", lr=0.002),
    # Tables II and IX
    *(
        _cifar(
            f"{optimizer}{epochs}",
            n,
            optimizer=optimizer,
            epochs=epochs,
            lr=CIFAR_RATE if optimizer == "sgd" else 0.002,
        )
        for n in (1000, 5000, 10_000)
        for optimizer in ("sgd", "adam")
        for epochs in (100, 250, 500)
    ),
    _cifar("relu", 1000, activation="relu"),
    _cifar("random", 1000, initialisation="random"),
    _digits("default"),
    _digits("default", activation="relu"),
    _digits("random", initialisation="random"),
    InformedSpec(
        name="mnist-elu10-1000-fashion-shadows",
        dataset="mnist",
        n=1000,
        targets=TARGETS,
        training=Descent(lr=0.1),
        shadow_dataset="fashion",
    ),
)
