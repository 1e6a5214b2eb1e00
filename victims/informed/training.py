"""The training algorithm A of Balle et al. 2022 on many data sets that differ in one record.

It trains the victims and the shadow models. One record's influence is far below TF32's rounding:
`victims.training.hardware.prepare` sets full precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from victims.errors import UserError
from victims.informed.descent import Problem
from victims.informed.networks import CONVOLUTIONS, LabelledImages, Parameters, initial, shapes
from victims.informed.private_descent import train_privately
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

CHUNK_BYTES = {"cpu": 2**26, "cuda": 2**32}
"""By type of device, bytes that the networks trained at once may take; larger chunks fall out of a CPU's caches.
It changes results by no more than rounding."""


def train_many(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    fixed: LabelledImages,
    extra: LabelledImages,
    start: Parameters | None,
    seeds: Sequence[int],
    device: torch.device,
    report: Callable[[int, int], None] = lambda done, total: None,
    dtype: torch.dtype = torch.float32,
) -> Parameters:
    """Train k networks, network j on the fixed set and extra record j, which comes last.

    Args:
        architecture: the architecture of all of them.
        training: the algorithm A.
        fixed: the n records that they share.
        extra: the k records that tell them apart.
        start: the initial network that they share; None for one of each one's own, from its seed.
        seeds: (k,) for each network the seed of what is its own: initialisation, order of mini-batches, noise.
        device: the device to compute on.
        report: called with the number of networks that are trained, and the number of all.
        dtype: of the computation.

    Returns:
        The trained parameters (k, ...) by name, on `device`; not finite for a network that diverged.

    Raises:
        UserError: records, classes and seeds differ in number, or a class is none of the network's.
    """
    k, shape = len(extra[0]), fixed[0].shape[1:]
    if not len(extra[1]) == len(seeds) == k > 0:
        raise UserError(f"{k} extra records, {len(extra[1])} classes and {len(seeds)} seeds; expected as many of each")
    largest = int(torch.cat([fixed[1].cpu(), extra[1].cpu()]).max())
    if largest >= architecture.outputs:
        raise UserError(f"a record is of class {largest}, but the network has {architecture.outputs} outputs")
    if training.privacy is not None:
        return train_privately(architecture, training, fixed, extra, start, seeds, device, report).parameters
    problem = Problem(architecture, training, fixed[0].to(device, dtype), fixed[1])
    size = max(1, CHUNK_BYTES[device.type] // network_bytes(architecture, training, fixed[0], dtype))
    trained: list[Parameters] = []
    for first in range(0, k, size):
        part = slice(first, first + size)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds[part]]
        if start is None:
            drawn = [initial(architecture, shape, generator) for generator in generators]
            begin = {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}
        else:
            begin = {name: value.expand(len(generators), *value.shape) for name, value in start.items()}
        images, targets = extra[0][part].to(device, dtype), problem.one_hot(extra[1][part])
        begin = {name: value.to(device, dtype) for name, value in begin.items()}
        trained.append(problem.run(begin, problem.orders(generators), images, targets))
        report(min(first + size, k), k)
    return {name: torch.cat([chunk[name].detach() for chunk in trained]) for name in trained[0]}


def finite(parameters: Parameters) -> Tensor:
    """Return which of k networks did not diverge, (k,) bool."""
    return torch.stack([value.isfinite().flatten(1).all(1) for value in parameters.values()]).all(0)


def network_bytes(architecture: DenseSpec | SmallCNNSpec, training: Descent, images: Tensor, dtype: torch.dtype) -> int:
    """Return about what one network takes in training: five copies of each weight, activation and point of its own.

    Args:
        architecture: the architecture of the network.
        training: the algorithm A.
        images: (n, C, H, W) of the fixed set.
        dtype: of the computation.
    """
    sizes, sides, activations = shapes(architecture, images.shape[1:]), list(images.shape[2:]), 0
    strides = (stride for _, _, stride in CONVOLUTIONS)
    for size in sizes.values():
        if len(size) == 4:
            stride = next(strides)
            sides = [(side - size[2]) // stride + 1 for side in sides]
            activations += size[0] * math.prod(sides)
        elif len(size) == 2:
            activations += size[0]
    if training.batch_size is not None and training.order_seed is None:
        activations += images[0].numel()
    records = min(training.batch_size or len(images) + 1, len(images) + 1)
    weights = sum(math.prod(size) for size in sizes.values())
    return 5 * dtype.itemsize * (weights + records * activations)
