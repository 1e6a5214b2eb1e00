"""The deleted records by search: those whose gradients add up to the deleted gradient.

It serves where the closed form ends: several records deleted at once, and features that are not the record itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attacks.optimisation.lockstep import minimise_in_lockstep
from victims.deletion.objective import answers, features, gradients, named
from victims.deletion.spec import ShallowSpec


def summed_gradients(spec: ShallowSpec, theta: Tensor, images: Tensor, labels: Tensor) -> Tensor:
    """Return the gradients (j, p) at theta (p,) of the summed losses of j batches of k records.

    Args:
        spec: the model.
        theta: (p,) its parameters.
        images: (j, k, C, H, W).
        labels: (j, k); of a regression the y themselves.
    """
    parameters = named(spec, images[0, 0].numel(), theta)
    seen = features(spec, images.flatten(0, 1)).unflatten(0, images.shape[:2])
    wanted = answers(spec, labels.flatten()).unflatten(0, labels.shape)
    return gradients(spec, parameters, seen, wanted)


def mismatch(spec: ShallowSpec, theta: Tensor, images: Tensor, labels: Tensor, wanted: Tensor) -> Tensor:
    """Return the squared distances (j,) of summed gradients from the wanted ones (j, p), relative to their norms."""
    gap = summed_gradients(spec, theta, images, labels) - wanted
    return gap.square().sum(1) / wanted.square().sum(1).clamp_min(1e-300)


def matched_records(
    spec: ShallowSpec,
    theta: Tensor,
    wanted: Tensor,
    labels: Tensor,
    starts: Tensor,
    evaluations: int,
    expired: Callable[[int], bool],
) -> tuple[Tensor, int]:
    """Return the records (j, k, C, H, W) in [0, 1] whose summed gradients are nearest to the wanted ones.

    Args:
        spec: the model.
        theta: (p,) the parameters at which gradients are taken.
        wanted: (j, p) the deleted gradients of j deletions.
        labels: (j, k) the records' classes.
        starts: (j, k, C, H, W) where the searches begin.
        evaluations: the largest number of rounds.
        expired: called after every round with the number of evaluations; returns whether to end there.

    Returns:
        The records, and the number of evaluations.
    """
    shape, device = starts.shape[1:], theta.device

    def evaluate(chosen: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = torch.from_numpy(chosen).to(device)
        images = torch.from_numpy(points).to(device).unflatten(1, shape).requires_grad_()
        with torch.enable_grad():
            distance = mismatch(spec, theta, images, labels[place], wanted[place])
            (slope,) = torch.autograd.grad(distance.sum(), images)
        return distance.detach().cpu().numpy(), slope.flatten(1).cpu().numpy()

    begun = starts.flatten(1).double().clamp(0, 1).cpu().numpy()
    ended, count = minimise_in_lockstep(evaluate, begun, evaluations, expired)
    return torch.from_numpy(ended).to(device).unflatten(1, shape), count
