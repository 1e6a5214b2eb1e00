"""Many networks of one architecture at once, on points that all of them share and points of their own.

Layer 1 of all models meets the shared points in one matrix product (or one convolution), which is where the time of
small networks goes; the other layers are batched products of small matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.informed.networks import ACTIVATIONS, CONVOLUTIONS
from victims.informed.spec import DenseSpec, SmallCNNSpec


@dataclass(frozen=True)
class Points:
    """The points on which k models are evaluated.

    Attributes:
        shared: (b, C, H, W) points that every model sees.
        own: (k, m, C, H, W) points that each model sees for itself, after the shared ones.
    """

    shared: Tensor
    own: Tensor


def logits(spec: DenseSpec | SmallCNNSpec, parameters: Mapping[str, Tensor], points: Points) -> Tensor:
    """Return the outputs of k models, (k, outputs, b + m), differentiable in parameters and points.

    Args:
        spec: the architecture.
        parameters: the parameters of k networks by name, (k, ...).
        points: the points on which they are evaluated.
    """
    activation = ACTIVATIONS[spec.activation]
    pairs = [
        (parameters[f"layers.{layer}.weight"], parameters[f"layers.{layer}.bias"])
        for layer in range(len(parameters) // 2)
    ]
    if isinstance(spec, DenseSpec):
        hidden, pairs = _first_product(*pairs[0], points), pairs[1:]
    else:
        images, pairs = _first_convolution(*pairs[0], points), pairs[1:]
        for _, _, stride in CONVOLUTIONS[1:]:
            images, pairs = _convolution(activation(images), *pairs[0], stride), pairs[1:]
        hidden = images.unflatten(1, (len(points.own), -1)).flatten(2).permute(1, 2, 0)
    for weight, bias in pairs:
        hidden = torch.baddbmm(bias[:, :, None], weight, activation(hidden))
    return hidden


def _first_product(weight: Tensor, bias: Tensor, points: Points) -> Tensor:
    """Return layer 1 of k fully connected networks, (k, h, b + m): one product for the shared points."""
    k, width, inputs = weight.shape
    shared = weight.reshape(k * width, inputs) @ points.shared.flatten(1).T
    own = weight @ points.own.flatten(2).transpose(1, 2)
    return torch.cat([shared.view(k, width, -1), own], 2) + bias[:, :, None]


def _first_convolution(weight: Tensor, bias: Tensor, points: Points) -> Tensor:
    """Return the first convolution of k networks, (b + m, k C_out, H', W')."""
    stride = CONVOLUTIONS[0][2]
    shared = F.conv2d(points.shared, weight.flatten(0, 1), bias.flatten(), stride)
    own = points.own.transpose(0, 1).flatten(1, 2)
    return torch.cat([shared, _convolution(own, weight, bias, stride)])


def _convolution(images: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """Convolve (n, k C_in, H, W) to (n, k C_out, H', W'), each model its own channels."""
    return F.conv2d(images, weight.flatten(0, 1), bias.flatten(), stride, groups=len(weight))
