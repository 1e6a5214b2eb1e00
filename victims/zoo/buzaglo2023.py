"""The victims of Buzaglo et al. 2023: several classes, weight decay, regression losses, a convolution.

Names are `<dataset>-<architecture>-<n>-<variant>`: `c10` is a softmax of ten outputs on the first ten labels, `wd1e-3`
weight decay, `l2`, `l2-5` (|Phi - y|^2.5) and `huber` regressions of the binary labels to -1 and +1 with the paper's
decay, `k3-4` a convolution's kernel and channels (3 and 32 without).
"""

from __future__ import annotations

from victims.spec import ConvSpec, DecayedDescent, GradientDescent, Loss, MLPSpec, VictimSpec

CLASSES = (2, 3, 4, 5, 10)
DECAYS = ("1e-4", "2e-4", "3e-4", "5e-4", "7e-4", "1e-3", "2e-3", "3e-3", "5e-3", "7e-3", "1e-2", "2e-2")
"""Twelve decays; the paper's own are in a figure only."""
LOSSES: tuple[tuple[Loss, str], ...] = (("l2", "l2"), ("l2.5", "l2-5"), ("huber", "huber"))
REGRESSION_DECAY = 7.5e-4
KERNELS = (3, 5, 9, 16, 32)
CHANNELS = (4, 16, 32, 64)
STANDARD = MLPSpec(first_layer_scale=None)
MULTICLASS_GD = GradientDescent(lr=0.5, epochs=1_000_000)


def _multiclass(dataset: str, n: int, classes: int) -> VictimSpec:
    """Return a softmax of so many classes by the accelerated recipe."""
    name = f"{dataset}-mlp-{n}-c{classes}"
    return VictimSpec(name=name, dataset=dataset, n=n, architecture=MLPSpec(outputs=classes))


def _decayed(n: int, decay: str, classes: int = 1) -> VictimSpec:
    """Return a classifier with weight decay, all layers at the standard initialisation, as in the paper's Fig. 6."""
    suffix = f"-c{classes}" if classes > 1 else ""
    return VictimSpec(
        name=f"cifar-mlp-{n}{suffix}-wd{decay}",
        dataset="cifar",
        n=n,
        architecture=MLPSpec(outputs=classes, first_layer_scale=None),
        training=DecayedDescent(weight_decay=float(decay)),
    )


VICTIMS: tuple[VictimSpec, ...] = (
    # n = 500 in all, and 50 images of each class
    *(_multiclass("cifar", 500 // classes * classes, classes) for classes in CLASSES),
    *(_multiclass("cifar", 50 * classes, classes) for classes in CLASSES if classes != 10),
    _multiclass("cifar", 100, 10),
    _multiclass("mnist", 500, 10),
    VictimSpec(
        name="cifar-mlp-500-c10-gd1e6",
        dataset="cifar",
        n=500,
        architecture=MLPSpec(outputs=10),
        training=MULTICLASS_GD,
    ),
    *(_decayed(100, decay, classes) for classes in (1, 10) for decay in DECAYS),
    *(
        VictimSpec(
            name=f"cifar-mlp-300-{label}",
            dataset="cifar",
            n=300,
            loss=loss,
            training=DecayedDescent(weight_decay=REGRESSION_DECAY),
        )
        for loss, label in LOSSES
    ),
    *(
        VictimSpec(
            name="cifar-conv-500" + ("" if (kernel, channels) == (3, 32) else f"-k{kernel}-{channels}"),
            dataset="cifar",
            n=500,
            architecture=ConvSpec(kernel=kernel, channels=channels),
            training=DecayedDescent(weight_decay=1e-3),
        )
        for kernel in KERNELS
        for channels in CHANNELS
    ),
)
