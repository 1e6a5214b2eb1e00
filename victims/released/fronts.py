"""Recognition of the fully connected layers in which a user's torch module ends, which opens it to attacks on features.

What stands before them is its front, of any kind that torch.fx can follow: convolutions with pooling, padding, strides
or normalisation, residual blocks, other activations. The first of these layers sees the features of an image, all of
them at once, and so its weights hold sums over images (`attacks.known_start.front`). This holds too where what is
behind it is no chain of fully connected layers and ReLUs, but a tail of any kind.
"""

from __future__ import annotations

from contextlib import suppress

from torch import fx, nn

from victims.equations.architectures import FrontNetwork
from victims.networks import FrontSpec
from victims.released.recognition import MISFITS, NotCoveredError, folded, require_equal, step_of, traced
from victims.released.tails import tail_behind

CUT = ("placeholder", "get_attr", "output")
"""Kinds of nodes that compute nothing from one before."""


def front_network_of(module: nn.Module, shape: tuple[int, int, int]) -> FrontNetwork:
    """Return the front and the fully connected layers that together compute what a module does, of its own parameters.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.

    Raises:
        NotCoveredError: its forward cannot be followed, or nothing else is behind a fully connected layer that sees all
            features.
    """
    if isinstance(module, FrontNetwork):
        return module
    graph, modules = traced(module), dict(module.named_modules())
    layers, features = _head(graph, modules)
    if len(layers) < 2:
        return _before_a_tail(module, graph, modules, shape)
    network = FrontNetwork(_front(module, graph, features), layers).eval()
    require_equal(module, network, shape)
    return network


def _before_a_tail(
    module: nn.Module, graph: fx.Graph, modules: dict[str, nn.Module], shape: tuple[int, int, int]
) -> FrontNetwork:
    """Return the front before the first fully connected layer that all features pass, the layer, and its tail."""
    for node in graph.nodes:
        layer = modules[node.target] if node.op == "call_module" else None
        if not isinstance(layer, nn.Linear):
            continue
        with suppress(NotCoveredError, *MISFITS):
            features = _before(_input(node), modules)
            front, tail = _front(module, graph, features), tail_behind(module, graph, node)
            network = FrontNetwork(front, [layer], tail).eval()
            require_equal(module, network, shape)
            return network
    raise NotCoveredError("it has no fully connected layer that all features pass, with another one behind")


def front_spec_of(network: FrontNetwork, name: str, outputs: int, uncovered: str) -> FrontSpec:
    """Return the description of a module that a front network computes.

    Args:
        network: the front and its layers.
        name: the module's class.
        outputs: C.
        uncovered: what it has that a sequence of linear layers and ReLUs has not.
    """
    widths = [layer.out_features for layer in network.layers if isinstance(layer, nn.Linear)]
    tailed = network.tail is not None
    hidden = tuple(widths if tailed else widths[:-1])
    return FrontSpec(name=name, hidden=hidden, tailed=tailed, outputs=outputs, uncovered=uncovered)


def _head(graph: fx.Graph, modules: dict[str, nn.Module]) -> tuple[list[nn.Module], fx.Node]:
    """Return the last linear layers with ReLUs between them, first to last, and the node of the features before them.

    A batch normalisation behind a layer is folded into it. What only changes the shape of the features, or computes
    nothing, is left out from between.
    """
    node, layers, after_relu = _before(_output(graph), modules), list[nn.Module](), True
    features, norm = node, None
    while node.op not in CUT:
        try:
            step = step_of(node, modules)
        except NotCoveredError:
            break
        if isinstance(step, nn.Linear) and after_relu:
            layers = [step if norm is None else folded(step, norm), *layers]
            after_relu, norm = False, None
            node = features = _before(_input(node), modules)
        elif isinstance(step, nn.ReLU) and layers and not after_relu:
            node, after_relu = _before(_input(node), modules), True
        elif isinstance(step, nn.BatchNorm1d) and after_relu and norm is None:
            node, norm = _before(_input(node), modules), step
        else:
            break
    return layers, features


def _before(node: fx.Node, modules: dict[str, nn.Module]) -> fx.Node:
    """Return the node whose value this one has, but for the shape."""
    while node.op not in CUT:
        try:
            if step_of(node, modules) is not None:
                break
        except NotCoveredError:
            break
        node = _input(node)
    return node


def _input(node: fx.Node) -> fx.Node:
    """Return what a node takes.

    Raises:
        NotCoveredError: it takes no one value.
    """
    first = node.args[0] if node.args else None
    if not isinstance(first, fx.Node):
        raise NotCoveredError(f"the operation `{node.name}` of its forward takes no one value")
    return first


def _output(graph: fx.Graph) -> fx.Node:
    """Return the node whose value a graph returns.

    Raises:
        NotCoveredError: it returns several.
    """
    return _input(next(node for node in graph.nodes if node.op == "output"))


def _front(module: nn.Module, graph: fx.Graph, features: fx.Node) -> nn.Module:
    """Return the part of a module that computes the value of a node, with the module's own parameters."""
    front, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in graph.nodes:
        copies[node] = front.node_copy(node, lambda one: copies[one])
        if node is features:
            break
    front.output(copies[features])
    return fx.GraphModule(module, front)
