"""Losses of one sample and margins, for one output and for several.

Outputs are (n,) for a network with one output and (n, C) for one with C; labels are class indices (n,), and a network
with one output learns the sign, -1 for class 0 and +1 for class 1.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.spec import Loss


def signs(labels: Tensor) -> Tensor:
    """Return labels (n,) in {-1, +1} for class indices in {0, 1}."""
    return 2.0 * labels - 1.0


def sample_losses(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of every sample, (n,) (Buzaglo et al. 2023, Sections 3 and 5).

    Args:
        loss: "cross-entropy" (one output: the logistic loss log(1 + exp(-y Phi))); "l2" (Phi - y)^2, "l2.5"
            |Phi - y|^2.5 or "huber" with delta 1. With several outputs these three are all the squared distance to the
            one-hot label; only "l2" occurs there.
        outputs: (n,) or (n, C).
        labels: (n,) class indices.
    """
    if loss == "cross-entropy" and outputs.ndim == 2:
        return F.cross_entropy(outputs, labels, reduction="none")
    if outputs.ndim == 2:
        return (outputs - F.one_hot(labels, outputs.shape[1])).square().sum(1)
    targets = signs(labels).to(outputs)
    if loss == "cross-entropy":
        return F.softplus(-targets * outputs)
    if loss == "huber":
        return F.huber_loss(outputs, targets, reduction="none")
    return (outputs - targets).abs() ** {"l2": 2.0, "l2.5": 2.5}[loss]


def residual_weights(loss: Loss, residuals: Tensor) -> Tensor:
    """Return w = l'(r) / r of a regression's residuals r = Phi - y, (n,): (w / 2) r^2 has the loss's slope there.

    Args:
        loss: "l2", "l2.5" or "huber".
        residuals: (n,).

    Raises:
        KeyError: the loss is no regression.
    """
    size = residuals.abs()
    weights: Tensor = {
        "l2": lambda: torch.full_like(size, 2.0),
        "l2.5": lambda: 2.5 * size.sqrt(),
        "huber": lambda: 1 / size.clamp_min(1.0),
    }[loss]()
    return weights


def rival_margins(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return Phi_y - Phi_j for every rival class j != y, (n, C - 1); for one output y Phi, (n, 1)."""
    if outputs.ndim == 1:
        return (signs(labels).to(outputs) * outputs)[:, None]
    others = torch.arange(outputs.shape[1] - 1, device=outputs.device)
    rivals = others + (others >= labels[:, None])  # a mask would make a GPU wait for the host at every step
    return outputs.gather(1, labels[:, None]) - outputs.gather(1, rivals)


def soft_margins(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the soft minimum of a sample's `rival_margins`, -log sum_{j != y} exp(Phi_j - Phi_y), (n,).

    It is the logarithm of p / (1 - p) for the label's probability p.
    """
    return -torch.logsumexp(-rival_margins(outputs, labels), 1)


def margins(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the smallest of a sample's `rival_margins`, (n,): positive where it is classified right."""
    return rival_margins(outputs, labels).amin(1)
