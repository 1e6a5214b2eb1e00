"""Victims with a wide last layer on features that stay: random features, and networks of which it alone is tuned.

Names are `<dataset>-rf-<n>[-c10]-<width>[-tanh]`: `tanh` has relu + tanh for its activation, which tells the length of
an image, too. A last layer of C outputs has p C weights; at p C = d n they are as many as the pixels of the images
(Iurada et al. 2026). `wide` is a network of one hidden layer, pre-trained, whose last layer alone is tuned.
"""

from __future__ import annotations

from victims.recipes import Interpolation
from victims.spec import MLPSpec, RandomFeaturesSpec, VictimSpec
from victims.zoo.ordinary import PARTS

PIXELS = {"digits": 64, "mnist": 784, "faces": 625, "photos": 3072, "cifar": 3072}
RATIOS = (0.25, 0.5, 1, 2, 4, 10)
"""p C / (d n) of the study `law`."""
SIZES = ((6, 1), (10, 1), (20, 1), (10, 10), (20, 10), (50, 10))
"""n and outputs C of the victims with p C = 10 d n."""


def width_for(dataset: str, n: int, ratio: float, outputs: int = 1) -> int:
    """Return the number of features at which p C is `ratio` times d n."""
    return round(ratio * PIXELS[dataset] * n / outputs)


def name_of(dataset: str, n: int, ratio: float, outputs: int = 1, *, tanh: bool = False) -> str:
    """Return the name of the victim with p C = ratio d n."""
    classes = f"-c{outputs}" if outputs > 1 else ""
    return f"{dataset}-rf-{n}{classes}-{width_for(dataset, n, ratio, outputs)}{'-tanh' * tanh}"


def _random(dataset: str, n: int, ratio: float, outputs: int = 1, *, tanh: bool = False) -> VictimSpec:
    return VictimSpec(
        name=name_of(dataset, n, ratio, outputs, tanh=tanh),
        dataset=dataset,
        n=n,
        architecture=RandomFeaturesSpec(
            width=width_for(dataset, n, ratio, outputs), activation="relu+tanh" if tanh else "relu", outputs=outputs
        ),
        loss="l2",
        training=Interpolation(),
    )


def _wide(dataset: str, n: int, ratio: float) -> VictimSpec:
    width = width_for(dataset, n, ratio, 10)
    return VictimSpec(
        name=f"{dataset}-mlp-{n}-c10-finetuned-last1-wide",
        dataset=dataset,
        n=n,
        architecture=MLPSpec(hidden=(width,), outputs=10, biases="every", first_layer_scale=None),
        training=PARTS["finetuned-last1"],
    )


VICTIMS = (
    *(_random("digits", 10, ratio, tanh=tanh) for ratio in RATIOS for tanh in (False, True)),
    *(_random("digits", n, 10, outputs) for n, outputs in SIZES if (n, outputs) != (10, 1)),
    *(_random("mnist", n, ratio, 10) for n in (10, 50) for ratio in (1, 10)),
    _random("faces", 10, 4),
    *(_random("photos", n, 4, 10) for n in (10, 20)),
    _random("cifar", 10, 4, 10),
    _wide("mnist", 10, 10),
    _wide("digits", 10, 10),
)
