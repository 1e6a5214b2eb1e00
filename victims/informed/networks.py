"""The networks of the informed adversary as functions of their parameters, so that many can be evaluated at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.errors import UserError
from victims.informed.spec import Activation, DenseSpec, SmallCNNSpec

Parameters = dict[str, Tensor]
"""`layers.{l}.weight` and `layers.{l}.bias` of one network, or with a leading dimension of k networks."""
LabelledImages = tuple[Tensor, Tensor]
"""Images (k, C, H, W) in [0, 1] and their classes (k,)."""

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "elu": F.elu,
    "relu": torch.relu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
}
CONVOLUTIONS = ((16, 4, 2), (32, 4, 1))
"""Channels, side of the kernel and stride of the convolutional network's layers."""
CHUNK = 64
"""Networks evaluated at once."""


def shapes(spec: DenseSpec | SmallCNNSpec, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter for inputs of `shape` (C, H, W), layer by layer.

    Raises:
        UserError: the images are too small for the convolutions.
    """
    found: dict[str, tuple[int, ...]] = {}
    if isinstance(spec, DenseSpec):
        widths, layer = [math.prod(shape), *spec.hidden, spec.outputs], 0
    else:
        channels, height, width = shape
        for layer, (out, kernel, stride) in enumerate(CONVOLUTIONS):
            found |= {f"layers.{layer}.weight": (out, channels, kernel, kernel), f"layers.{layer}.bias": (out,)}
            channels, (height, width) = out, ((side - kernel) // stride + 1 for side in (height, width))
        if min(height, width) < 1:
            raise UserError(f"images of {shape[1]} x {shape[2]} pixels are too small for the convolutional network")
        widths, layer = [channels * height * width, spec.outputs], len(CONVOLUTIONS)
    for index, (fan_in, fan_out) in enumerate(pairwise(widths), start=layer):
        found |= {f"layers.{index}.weight": (fan_out, fan_in), f"layers.{index}.bias": (fan_out,)}
    return found


def initial(spec: DenseSpec | SmallCNNSpec, shape: Sequence[int], generator: torch.Generator) -> Parameters:
    """Return an initialised network, float32 on the CPU.

    Weights are N(0, 1 / fan_in) cut off at two standard deviations, biases 0, as in the authors' notebook (haiku).

    Args:
        spec: the architecture.
        shape: (C, H, W) of an input.
        generator: a CPU generator.
    """
    drawn: Parameters = {}
    for name, size in shapes(spec, shape).items():
        drawn[name] = torch.zeros(size)
        if name.endswith("weight"):
            deviation = 1 / math.sqrt(math.prod(size[1:]))
            torch.nn.init.trunc_normal_(drawn[name], 0, deviation, -2 * deviation, 2 * deviation, generator)
    return drawn


def forward(spec: DenseSpec | SmallCNNSpec, parameters: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Return the logits (n, C) of one network for images (n, channels, height, width)."""
    activation = ACTIVATIONS[spec.activation]
    depth = len(parameters) // 2
    hidden = images
    for layer in range(depth):
        weight, bias = parameters[f"layers.{layer}.weight"], parameters[f"layers.{layer}.bias"]
        if weight.ndim == 4:
            hidden = F.conv2d(hidden, weight, bias, stride=CONVOLUTIONS[layer][2])
        else:
            hidden = F.linear(hidden.flatten(1), weight, bias)
        if layer < depth - 1:
            hidden = activation(hidden)
    return hidden


@torch.no_grad()
def forward_many(spec: DenseSpec | SmallCNNSpec, parameters: Mapping[str, Tensor], images: Tensor) -> Tensor:
    """Return the logits (k, n, C) of k networks for the same images (n, channels, height, width)."""
    count = len(next(iter(parameters.values())))
    one = partial(forward, spec)
    parts = [{name: value[at : at + CHUNK] for name, value in parameters.items()} for at in range(0, count, CHUNK)]
    return torch.cat([torch.vmap(one, in_dims=(0, None))(part, images) for part in parts])
