"""The studies of Buzaglo et al. 2023: classes, samples a class, weight decay, initialisation, convolutions."""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.buzaglo2023 import CHANNELS, CLASSES, DECAYS, GRID_CLASSES, GRID_SAMPLES, KERNELS

SMOKE = {"restarts": 1, "steps": 60}
ONE = {"restarts": 1}
"""One of the attack's four default restarts: at n = 100 the first restart finds most of the images."""

COUNTS = ("n_good", "null_n_good", "n_good_unique", "null_n_good_unique")
SHARES = ("share_good", "null_share_good", "share_good_unique", "null_share_good_unique")


def classes_cells(n: int) -> tuple[Cell, ...]:
    """Return the binary problem of the first paper and a softmax of each number of classes, n images in all."""
    softmax = (Cell({"classes": c}, "kkt-multiclass", f"cifar-mlp-{n // c * c}-c{c}") for c in CLASSES)
    return (Cell({"classes": 2}, "kkt", f"cifar-mlp-{n}"), *softmax)


def decay_cells(classes: int) -> tuple[Cell, ...]:
    """Return the victims with each weight decay, and the one without, at n = 100 and the standard initialisation."""
    victim = "cifar-mlp-100" if classes == 2 else f"cifar-mlp-100-c{classes}"
    variants = {0.0: "stdinit"} | {float(decay): f"wd{decay}" for decay in DECAYS}
    return tuple(
        Cell({"classes": classes, "weight_decay": decay}, "kkt-general", f"{victim}-{variant}", ONE)
        for decay, variant in variants.items()
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="classes",
        summary="how many images come out of a network with 2 to 10 classes, 500 images in all",
        paper="Buzaglo et al. 2023, Fig. 3",
        cells=classes_cells(500),
        smoke=(Cell({"classes": 10}, "kkt-multiclass", "digits-mlp-50-c10", SMOKE),),
        plots=(Plot("curve", "classes", values=COUNTS),),
    ),
    Study(
        name="samples",
        summary="the share of images that comes out, by classes and images a class",
        paper="Buzaglo et al. 2023, Fig. 4",
        cells=tuple(
            Cell({"classes": c, "samples": k}, "kkt-multiclass", f"cifar-mlp-{c * k}-c{c}")
            for c in GRID_CLASSES
            for k in GRID_SAMPLES
        ),
        smoke=(Cell({"classes": 10, "samples": 5}, "kkt-multiclass", "digits-mlp-50-c10", SMOKE),),
        plots=(Plot("map", "samples", "classes", values=SHARES),),
    ),
    Study(
        name="decay",
        summary="how many images come out by weight decay, n = 100, all layers at the standard initialisation",
        paper="Buzaglo et al. 2023, Figs. 6 and 14",
        cells=decay_cells(2) + decay_cells(10),
        smoke=(Cell({"classes": 2, "weight_decay": 1e-2}, "kkt-general", "digits-mlp-50-wd1e-2", SMOKE),),
        plots=(
            Plot("curve", "weight_decay", "classes", values=COUNTS, logarithmic=True),
            Plot("scatter", "weight_decay"),
        ),
    ),
    Study(
        name="initialisation",
        summary="how many images come out by the scale of layer 1's initial weights, n = 100, without weight decay",
        paper="Buzaglo et al. 2023, Fig. 9",
        cells=tuple(
            Cell({"first_layer_scale": scale}, attack, f"cifar-mlp-100{classes}{variant}")
            for attack, classes in (("kkt", ""), ("kkt-multiclass", "-c10"))
            for scale, variant in (("1e-4", ""), ("1e-3", "-init1e-3"), ("standard", "-stdinit"))
        ),
        smoke=(Cell({"first_layer_scale": "1e-4"}, "kkt", "faces-mlp-20", SMOKE),),
        plots=(Plot("curve", "first_layer_scale", values=COUNTS),),
    ),
    Study(
        name="convolution",
        summary="how many images come out of a convolution by its kernel and channels, n = 50, on the CPU's scale",
        paper="Buzaglo et al. 2023, Fig. 15",
        cells=tuple(
            Cell({"kernel": k, "channels": c}, "kkt-conv", f"cifar-conv-50-k{k}-{c}") for k in KERNELS for c in CHANNELS
        ),
        smoke=(Cell({"kernel": 3, "channels": 4}, "kkt-conv", "digits-conv-20-k3-4", SMOKE),),
        plots=(Plot("map", "kernel", "channels", values=COUNTS),),
    ),
)
