"""The victims of Haim et al. 2022, and their like on datasets that need no download.

Names are `<dataset>-<architecture>-<n>[-<variant>]`; without a variant, D-1000-1000-1 by the accelerated recipe.
Test accuracies are those of Haim et al. 2022, Tables 1 and 2 (the paper's own recipe, 1e6 epochs).
"""

from __future__ import annotations

from victims.spec import GradientDescent, MLPSpec, VictimSpec

GD_1E6 = GradientDescent(epochs=1_000_000)
GD_1E4 = GradientDescent(epochs=10_000)
SGD_50 = GradientDescent(epochs=1_000_000, batch_size=50)
SGD_50_1E4 = GradientDescent(epochs=10_000, batch_size=50)
STANDARD_INIT = MLPSpec(first_layer_scale=None)

VICTIMS: tuple[VictimSpec, ...] = (
    VictimSpec(name="faces-mlp-20", dataset="faces", n=20),
    VictimSpec(name="faces-mlp-100", dataset="faces", n=100),
    VictimSpec(name="digits-mlp-100", dataset="digits", n=100),
    VictimSpec(name="mnist-mlp-100", dataset="mnist", n=100),
    VictimSpec(name="mnist-mlp-500", dataset="mnist", n=500),
    VictimSpec(name="mnist-mlp-500-gd1e6", dataset="mnist", n=500, training=GD_1E6),
    VictimSpec(name="mnist-mlp-500-gd1e4", dataset="mnist", n=500, training=GD_1E4, reported_test_accuracy=0.87),
    VictimSpec(name="mnist-mlp-500-sgd50", dataset="mnist", n=500, training=SGD_50),
    VictimSpec(name="fashion-mlp-500", dataset="fashion", n=500),
    VictimSpec(name="cifar-mlp-10", dataset="cifar", n=10),
    VictimSpec(name="cifar-mlp-50", dataset="cifar", n=50, reported_test_accuracy=0.72),
    VictimSpec(name="cifar-mlp-100", dataset="cifar", n=100, reported_test_accuracy=0.74),
    VictimSpec(name="cifar-mlp-500", dataset="cifar", n=500, reported_test_accuracy=0.78),
    VictimSpec(name="cifar-mlp-1000", dataset="cifar", n=1000, reported_test_accuracy=0.79),
    VictimSpec(
        name="cifar-mlp-10-stdinit", dataset="cifar", n=10, architecture=STANDARD_INIT, reported_test_accuracy=0.71
    ),
    VictimSpec(
        name="cifar-mlp-50-stdinit", dataset="cifar", n=50, architecture=STANDARD_INIT, reported_test_accuracy=0.74
    ),
    VictimSpec(name="cifar-mlp-500-gd1e6", dataset="cifar", n=500, training=GD_1E6, reported_test_accuracy=0.78),
    VictimSpec(name="cifar-mlp-500-gd1e4", dataset="cifar", n=500, training=GD_1E4, reported_test_accuracy=0.77),
    VictimSpec(name="cifar-mlp-500-sgd50", dataset="cifar", n=500, training=SGD_50, reported_test_accuracy=0.77),
    VictimSpec(name="cifar-mlp-500-sgd50-1e4", dataset="cifar", n=500, training=SGD_50_1E4),
    VictimSpec(
        name="cifar-mlp-500-100-100",
        dataset="cifar",
        n=500,
        architecture=MLPSpec(hidden=(100, 100)),
        reported_test_accuracy=0.77,
    ),
    VictimSpec(
        name="cifar-mlp-500-1000-500-100",
        dataset="cifar",
        n=500,
        architecture=MLPSpec(hidden=(1000, 500, 100)),
        reported_test_accuracy=0.78,
    ),
    VictimSpec(
        name="cifar-mlp-500-1000-500-100-50",
        dataset="cifar",
        n=500,
        architecture=MLPSpec(hidden=(1000, 500, 100, 50)),
        reported_test_accuracy=0.77,
    ),
    VictimSpec(
        name="cifar-mlp-500-biases",
        dataset="cifar",
        n=500,
        architecture=MLPSpec(biases="all"),
        reported_test_accuracy=0.77,
    ),
)
