"""The victims of Runkel et al. 2024: an affine classifier and one hidden layer of twice the inputs' width.

They are trained with weight decay, to a stated tolerance: without it the training problem has no minimum (separable
data) or no unique one (n < d), and theta(x) would not be a function. The paper gives neither n nor weight decay.
"""

from __future__ import annotations

from victims.spec import MLPSpec, Regularised, VictimSpec

AFFINE = MLPSpec(hidden=(), first_layer_scale=None)
WEIGHT_DECAY = Regularised(weight_decay=1e-2)


def one_hidden(width: int) -> MLPSpec:
    """Return the network d-width-1 at the standard initialisation."""
    return MLPSpec(hidden=(width,), first_layer_scale=None)


VICTIMS: tuple[VictimSpec, ...] = (
    VictimSpec(name="cifar-mlp-100-affine-wd", dataset="cifar", n=100, architecture=AFFINE, training=WEIGHT_DECAY),
    VictimSpec(
        name="cifar-mlp-100-6144-wd", dataset="cifar", n=100, architecture=one_hidden(6144), training=WEIGHT_DECAY
    ),
    VictimSpec(name="faces-mlp-20-affine-wd", dataset="faces", n=20, architecture=AFFINE, training=WEIGHT_DECAY),
    VictimSpec(name="faces-mlp-20-256-wd", dataset="faces", n=20, architecture=one_hidden(256), training=WEIGHT_DECAY),
    VictimSpec(name="digits-mlp-20-affine-wd", dataset="digits", n=20, architecture=AFFINE, training=WEIGHT_DECAY),
    VictimSpec(
        name="digits-mlp-20-128-wd", dataset="digits", n=20, architecture=one_hidden(128), training=WEIGHT_DECAY
    ),
)
