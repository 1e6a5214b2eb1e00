"""The training algorithm A on many data sets that differ in one record: of the victims, and of shadow models.

It is here and not in `victims.training`, whose source is part of the key of every other victim in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.informed.networks import Parameters, forward, initial
from victims.informed.privacy import train_privately
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

Points = tuple[Tensor, Tensor]
"""Images (k, C, H, W) in [0, 1] and their classes (k,)."""


def train_many(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    fixed: Points,
    extra: Points,
    start: Parameters | None,
    seeds: Sequence[int],
    device: torch.device,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Parameters:
    """Train k networks, network j on the fixed set and extra record j, which comes last.

    Args:
        architecture: of all of them.
        training: the algorithm A.
        fixed: the n records that they share.
        extra: the k records that tell them apart.
        start: the initial network that they share; None for one of each one's own, from its seed.
        seeds: (k,) for each network the seed of what is its own: initialisation, order of mini-batches, noise.
        device: where to compute.
        report: told how many networks are trained, of how many.

    Returns:
        The trained parameters (k, ...), float32 on `device`; those of a network that diverged are not finite.
    """
    if training.privacy is not None:
        return train_privately(architecture, training, fixed, extra, start, seeds, device, report)
    images, labels = (part.to(device) for part in fixed)
    trained: list[Parameters] = []
    for place, seed in enumerate(seeds):
        own = torch.Generator().manual_seed(seed)
        first = initial(architecture, images.shape[1:], own) if start is None else start
        parameters = {name: value.to(device, copy=True) for name, value in first.items()}
        joined = torch.cat([images, extra[0][place : place + 1].to(device)])
        classes = torch.cat([labels, extra[1][place : place + 1].to(device)])
        _descend(architecture, training, parameters, (joined, classes), own)
        trained.append({name: value.detach() for name, value in parameters.items()})
        report(place + 1, len(seeds))
    return {name: torch.stack([network[name] for network in trained]) for name in trained[0]}


def _descend(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    parameters: Parameters,
    points: Points,
    own: torch.Generator,
) -> None:
    """Train one network in place."""
    leaves = [value.requires_grad_() for value in parameters.values()]
    optimizer: torch.optim.Optimizer
    if training.optimizer == "adam":
        optimizer = torch.optim.Adam(leaves, training.lr)
    else:
        optimizer = torch.optim.SGD(leaves, training.lr, training.momentum)
    order = own if training.order_seed is None else torch.Generator().manual_seed(training.order_seed)
    for images, labels in _batches(points, training, order):
        optimizer.zero_grad()
        F.cross_entropy(forward(architecture, parameters, images), labels).backward()
        optimizer.step()


def _batches(points: Points, training: Descent, order: torch.Generator) -> Iterator[Points]:
    """Yield the batches of all epochs: everything, or parts of a new order every epoch, the last part being smaller."""
    images, labels = points
    for _ in range(training.epochs):
        if training.batch_size is None:
            yield points
        else:
            for chosen in torch.randperm(len(labels), generator=order).split(training.batch_size):
                yield images[chosen], labels[chosen]
