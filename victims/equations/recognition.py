"""Recognition of a ReLU network in a user's torch module, which opens it to the attacks on layers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from victims.equations.architectures import MLP, ReLUNetwork
from victims.spec import ConvSpec, MLPSpec

INERT = (nn.Flatten, nn.Identity, nn.Dropout)
"""Modules that compute nothing in evaluation mode."""


def relu_network_of(module: nn.Module, shape: tuple[int, int, int]) -> ReLUNetwork | None:
    """Return the ReLU network that computes the same, with the module's own parameters, or None if there is none.

    There is one for an nn.Sequential of nn.Linear with nn.ReLU between them. The first layer may be an nn.Conv2d with a
    square kernel, stride 1 and no padding.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.
    """
    if isinstance(module, ReLUNetwork):
        return module
    layers = _layers(module)
    if layers is None:
        return None
    if isinstance(layers[0], nn.Conv2d):
        network = ReLUNetwork()
    else:
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        widths = (linears[0].in_features, *(layer.out_features for layer in linears))
        network = MLP(widths, [layer.bias is not None for layer in linears])
    network.layers = nn.ModuleList(layers)
    return network.eval() if _agree(module, network, shape) else None


def architecture_of(network: ReLUNetwork) -> MLPSpec | ConvSpec:
    """Return the description of a ReLU network."""
    first, *others = network.layers
    biases: str = "all" if any(layer.bias is not None for layer in others) else "first"
    widths = [int(layer.weight.shape[0]) for layer in network.layers]  # type: ignore[index]
    common = {"outputs": widths[-1], "biases": biases, "first_layer_scale": None}
    if isinstance(first, nn.Conv2d):
        kernel = first.kernel_size[0]
        return ConvSpec.model_validate({"kernel": kernel, "channels": widths[0], "hidden": widths[1:-1], **common})
    return MLPSpec.model_validate({"hidden": widths[:-1], **common})


def _layers(module: nn.Module) -> list[nn.Module] | None:
    """Return the linear layers of a sequence in which ReLUs alternate with them, else None."""
    if not isinstance(module, nn.Sequential):
        return None
    steps = [step for step in _steps(module) if not isinstance(step, INERT)]
    layers, between = steps[::2], steps[1::2]
    if len(steps) % 2 == 0 or not all(isinstance(step, nn.ReLU) for step in between):
        return None
    first, others = layers[0], layers[1:]
    if not all(isinstance(layer, nn.Linear) for layer in others):
        return None
    return layers if isinstance(first, nn.Linear) or (others and _simple(first)) else None


def _simple(layer: nn.Module) -> bool:
    """Say whether a layer is a convolution with a square kernel, stride 1 and no padding."""
    if not isinstance(layer, nn.Conv2d) or isinstance(layer.padding, str):
        return False
    ones = (*layer.stride, *layer.dilation, layer.groups)
    return set(ones) == {1} and set(layer.padding) == {0} and len(set(layer.kernel_size)) == 1


def _steps(module: nn.Sequential) -> Iterator[nn.Module]:
    """Yield the modules of a sequence, and those of the sequences in it, in order."""
    for step in module:
        if isinstance(step, nn.Sequential):
            yield from _steps(step)
        else:
            yield step


@torch.no_grad()
def _agree(module: nn.Module, network: ReLUNetwork, shape: tuple[int, int, int]) -> bool:
    """Say whether both return the same outputs for four random inputs of this shape (C, H, W)."""
    inputs = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    outputs: Tensor = module(inputs)
    return torch.allclose(outputs.reshape(network(inputs).shape), network(inputs), rtol=1e-4, atol=1e-6)
