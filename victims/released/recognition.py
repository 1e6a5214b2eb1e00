"""Recognition of a ReLU network in a user's torch module, which opens it to the attacks on layers.

torch.fx follows an input through the module's forward. What it meets must be linear layers with ReLUs between them;
what computes nothing in evaluation mode is passed over, and a batch normalisation is folded into the layer before it.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from victims.equations.architectures import MLP, ReLUNetwork
from victims.spec import ConvSpec, MLPSpec

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
INERT = (nn.Flatten, nn.Identity, *DROPOUTS)
"""Modules that compute nothing in evaluation mode, or change the shape alone."""
DROPPING = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)
"""Functions that compute nothing unless they are told that the network is trained."""
UNCHANGING = {"flatten", "view", "reshape", "squeeze", "contiguous", "float", "to", "detach"}
"""Methods of a tensor, and functions of torch, that leave the numbers of a network in float32 as they are.

`require_equal` tells where one does not, such as a cast to integers.
"""
MISFITS = (RuntimeError, TypeError, IndexError)
"""What layers raise that ask for a size which their inputs do not have."""
CHAINS = "not covered; only chains of convolutions, linear layers and ReLUs are"
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)


class NotCoveredError(ValueError):
    """A module is no sequence of linear layers and ReLUs; the message says in a few words what it has instead."""


def relu_network_of(module: nn.Module, shape: tuple[int, int, int]) -> ReLUNetwork:
    """Return the ReLU network that computes the same, with the module's own parameters where nothing is folded.

    There is one for nn.Linear layers with ReLUs between them, in whatever way the module's forward calls them. The
    first layers may be nn.Conv2d with a square kernel of one size, stride 1 and no padding.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.

    Raises:
        NotCoveredError: there is none.
    """
    if isinstance(module, ReLUNetwork):
        return module
    layers = _layers(module)
    if isinstance(layers[0], nn.Conv2d):
        network = ReLUNetwork()
    else:
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        widths = (linears[0].in_features, *(layer.out_features for layer in linears))
        network = MLP(widths, [layer.bias is not None for layer in linears])
    network.layers = nn.ModuleList(layers)
    require_equal(module, network, shape)
    return network.eval()


def architecture_of(network: ReLUNetwork) -> MLPSpec | ConvSpec:
    """Return the description of a ReLU network."""
    convolutions = [layer for layer in network.layers if isinstance(layer, nn.Conv2d)]
    has_bias = [layer.bias is not None for layer in network.layers]
    biases = "all" if any(has_bias[1:]) else "first"
    widths = [int(layer.weight.shape[0]) for layer in network.layers]  # type: ignore[index]
    common = {"outputs": widths[-1], "first_layer_scale": None}
    if convolutions:
        count, kernel = len(convolutions), convolutions[0].kernel_size[0]
        channels = widths[0] if count == 1 else widths[:count]
        conv = {"kernel": kernel, "channels": channels, "hidden": widths[count:-1], "biases": biases}
        return ConvSpec.model_validate(conv | common)
    if len(has_bias) > 1 and all(has_bias):
        biases = "every"
    return MLPSpec.model_validate({"hidden": widths[:-1], "biases": biases, **common})


def _layers(module: nn.Module) -> list[nn.Module]:
    """Return the linear layers of a module in which ReLUs alternate with them.

    Raises:
        NotCoveredError: there are none, or something else is between them.
    """
    layers: list[nn.Module] = []
    linear_next = True
    for step in _steps(module):
        if isinstance(step, nn.ReLU):
            if linear_next:
                raise NotCoveredError("a ReLU follows no linear layer")
            linear_next = True
        elif isinstance(step, NORMALISATIONS):
            if linear_next:
                raise NotCoveredError(f"{type(step).__name__} does not follow a linear layer, so it is not folded")
            layers[-1] = folded(layers[-1], step)
        elif not linear_next:
            raise NotCoveredError(f"{type(step).__name__} follows a linear layer with no ReLU between")
        elif isinstance(step, nn.Linear) or not any(isinstance(layer, nn.Linear) for layer in layers):
            layers.append(step)
            linear_next = False
        else:
            raise NotCoveredError(f"{type(step).__name__} behind a fully connected layer is not covered")
    if linear_next or not layers:
        raise NotCoveredError("its last layer is not linear")
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    sizes = {layer.kernel_size for layer in convolutions}
    if len(convolutions) == len(layers) or len(sizes) > 1 or not all(map(_simple, convolutions)):
        raise NotCoveredError(
            "convolutions are covered with a square kernel of one size, stride 1 and no padding, before linear layers"
        )
    return layers


def _steps(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers, normalisations and ReLUs that an input passes, one after the other.

    Raises:
        NotCoveredError: the forward cannot be followed, branches, or does something else.
    """
    modules, current = dict(module.named_modules()), None
    for node in traced(module).nodes:
        if node.op == "placeholder":
            if current is not None:
                raise NotCoveredError("it takes more than one input")
            current = node
        elif node.op != "output" and not is_shape(node):
            if _joins(node):
                raise NotCoveredError(f"a sum of two branches (`add`, a residual connection) is {CHAINS}")
            step = step_of(node, modules)
            if current is None or not node.args or node.args[0] is not current:
                raise NotCoveredError(f"{_name(node, modules)} does not take the output of the step before")
            current = node
            if step is not None:
                yield step


def traced(module: nn.Module) -> fx.Graph:
    """Return the graph of a module's forward.

    Raises:
        NotCoveredError: torch.fx cannot follow it.
    """
    try:
        return fx.symbolic_trace(module).graph
    except Exception as error:  # whatever the module's own code raises on a symbol
        raise NotCoveredError(f"torch.fx cannot follow its forward ({' '.join(str(error).split())[:80]})") from None


def step_of(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Module | None:
    """Return what a node does to its input, None for nothing.

    Raises:
        NotCoveredError: it is nothing that a ReLU network does.
    """
    name = _name(node, modules)
    if node.op == "call_module":
        found = modules[str(node.target)]
        if isinstance(found, INERT):
            return None
        if isinstance(found, (nn.Linear, nn.Conv2d, nn.ReLU, *NORMALISATIONS)):
            return found
    elif node.target in (torch.relu, F.relu, "relu", torch.relu_, "relu_"):
        return nn.ReLU()
    elif node.target in DROPPING:
        if not node.kwargs.get("training", len(node.args) > 2 and node.args[2]):
            return None
    elif name in UNCHANGING:
        return None
    met = name if node.op == "call_module" else f"the operation `{name}` of its forward"
    raise NotCoveredError(f"{met} is {CHAINS}")


def _joins(node: fx.Node) -> bool:
    """Say whether a node adds up what two others have computed."""
    added = node.target in (operator.add, operator.iadd, torch.add, "add", "add_")
    return added and len(node.all_input_nodes) == 2


def is_shape(node: fx.Node) -> bool:
    """Say whether a node is part of a shape, such as x.size(0), x.shape[0] or len(x)."""
    return node.target in (getattr, operator.getitem, len, "size", "dim")


def _name(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    if node.op == "call_module":
        return type(modules[str(node.target)]).__name__
    target: str | Callable[..., Any] = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def folded(layer: nn.Module, after: nn.Module) -> nn.Module:
    """Return a linear layer that computes what it and the batch normalisation after it compute in evaluation mode.

    Raises:
        NotCoveredError: the normalisation keeps no running statistics.
    """
    if getattr(after, "running_mean", None) is None:
        raise NotCoveredError(f"{type(after).__name__} keeps no running statistics, so it is not folded")
    if isinstance(layer, nn.Conv2d):
        return fuse_conv_bn_eval(layer.eval(), after.eval())  # type: ignore[arg-type]
    assert isinstance(layer, nn.Linear)
    if after.weight is None:  # torch's function asks for the scale and the offset
        after, scale = copy.deepcopy(after), torch.ones(layer.out_features).to(layer.weight)
        after.weight, after.bias = nn.Parameter(scale), nn.Parameter(torch.zeros_like(scale))
    return fuse_linear_bn_eval(layer.eval(), after.eval())  # type: ignore[arg-type]


def _simple(layer: nn.Conv2d) -> bool:
    """Say whether a convolution has a square kernel, stride 1 and no padding."""
    if isinstance(layer.padding, str):
        return False
    ones = (*layer.stride, *layer.dilation, layer.groups)
    return set(ones) == {1} and set(layer.padding) == {0} and len(set(layer.kernel_size)) == 1


@torch.no_grad()
def require_equal(
    module: nn.Module,
    network: nn.Module,
    shape: tuple[int, int, int],
    otherwise: str = "its layers do not follow in a row",
) -> None:
    """Raise a NotCoveredError unless both return the same outputs for four random inputs of this shape (C, H, W).

    Args:
        module: the module.
        network: what may compute the same.
        shape: (C, H, W).
        otherwise: what it means that the network does not take the inputs.
    """
    inputs = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    outputs: object = module(inputs)
    if not isinstance(outputs, Tensor):
        raise NotCoveredError("it does not return one tensor of outputs")
    try:
        expected: Tensor = network(inputs)
    except MISFITS as error:
        raise NotCoveredError(f"{otherwise} ({error})") from None
    if outputs.numel() != expected.numel():
        raise NotCoveredError("it does not return one tensor of outputs")
    if not torch.allclose(outputs.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6):
        raise NotCoveredError("its layers in a row do not compute what it computes")
