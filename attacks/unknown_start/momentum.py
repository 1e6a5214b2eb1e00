"""The optimiser's state in the place of a start: what the last batches would add to the weights.

An optimiser keeps a running mean of the gradients, m_T = sum_s beta^s g_(T-s): SGD its momentum (Polyak 1964), Adam
its first moment (Kingma and Ba 2015, Algorithm 1), which is not yet scaled entry by entry as Adam's steps are. So the
rows of m_T for the first layer are sums of errors times images of the last batches (Kariyappa et al. 2023 have one
gradient), whatever the optimiser, the start, and the number of images before. A step from theta + eta m_T to theta
adds -eta m_T to a start that is known then. Where weight decay is in the gradient, as SGD's and Adam's is in torch, it
is in m_T too, in proportion to theta, and is taken for a decay of that start.

Of a low-rank update W + B A (Hu et al. 2022, eq. 3) the optimiser keeps the mean for A, sum B' D x', whose rows are
sums of images as they are: neither the start of A nor that of W is in it, unless weight decay puts A there.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from victims.equations.network import DOWN

NO_MEAN = "the optimiser's momentum for the first fully connected layer is zero, or is not given"
STEP = 0.1
"""The step's length in the first fully connected layer, relative to its weights: errors hardly differ along it, and
float32 still holds it."""


def before_a_step(weights: Mapping[str, Tensor], momentum: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the weights theta + eta m by parameter name; None where the first fully connected layer has no momentum.

    Args:
        weights: theta, as released.
        momentum: m; what has none stays.
    """
    first = first_matrix(weights)
    mean = momentum.get(first)
    if mean is None or not bool(mean.any()):
        return None
    eta = STEP * float(weights[first].norm() / mean.norm())
    return {
        name: (value + eta * momentum[name]).to(value.dtype) if name in momentum else value
        for name, value in weights.items()
    }


def first_matrix(weights: Mapping[str, Tensor]) -> str:
    """Return the name of the first fully connected layer's weights; empty where there is none."""
    return next((name for name, value in weights.items() if name.startswith("layers.") and value.ndim == 2), "")


def mean_of_update(momentum: Mapping[str, Tensor]) -> Tensor | None:
    """Return the mean (r, d) for A of the first fully connected layer's low-rank update, None where there is none.

    Args:
        momentum: m by parameter name, with `DOWN` for A.
    """
    mean = momentum.get(DOWN)
    return None if mean is None or not bool(mean.any()) else mean
