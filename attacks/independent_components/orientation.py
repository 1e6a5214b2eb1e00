"""The signs of images that are known but for a factor each, told by the network."""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.independent_components.adapted import Adapted
from attacks.independent_components.errors import Explaining, explained, of_one_label

AT_ONCE = 64
"""Candidates whose errors are held at once."""
TELLING = 0.01
"""Errors tell no sign where the shares explained of x and of -x differ by less, as behind odd activations."""


@torch.no_grad()
def oriented(directions: Tensor, added: Tensor, bias: Tensor | None, network: Explaining | None) -> Tensor:
    """Return the directions (m, d) with the signs that fit the network best.

    With L = sum_i D_i x_i', D = L X^+ is known up to a factor for each image. D_i is a sum of errors that are
    back-propagated through the neurons that x_i fires; -x_i fires others. And the biases moved by b = sum_i D_i, a
    least-squares problem for the factors: after Phong et al. 2018, who divide the gradient of one image by that of the
    bias. The two are added, each divided by its median. Beside a low-rank update no biases move, and what it lets
    through of errors tells less; there D_i is compared with the errors under each label too.

    Args:
        directions: X (m, d), linearly independent, of the length of images.
        added: L (h, d).
        bias: b (h,); None where it is not known.
        network: where errors are taken; None leaves the signs as they are.
    """
    if network is None:
        return directions
    errors = (added.double() @ torch.linalg.pinv(directions.double())).T.to(directions)
    parts = list(zip(directions.split(AT_ONCE), errors.split(AT_ONCE), strict=True))
    told = torch.cat([explained(one, held, (network,)) - explained(-one, held, (network,)) for one, held in parts])
    evidence = _relative(told, TELLING)
    if bias is not None:
        factors = torch.linalg.lstsq(errors.T.double().cpu(), bias.double().cpu()[:, None]).solution[:, 0]
        evidence = evidence + _relative(factors.to(evidence))
    elif isinstance(network, Adapted) and network.outputs > 1:
        fits = [of_one_label(one, held, network) - of_one_label(-one, -held, network) for one, held in parts]
        evidence = evidence + _relative(torch.cat(fits), TELLING)
    return directions * torch.where(evidence < 0, -1.0, 1.0)[:, None]


def _relative(values: Tensor, least: float = 0.0) -> Tensor:
    """Return values divided by the median of their absolute values, or by `least` if that is larger."""
    return values / values.abs().median().clamp_min(max(least, torch.finfo(values.dtype).tiny))
