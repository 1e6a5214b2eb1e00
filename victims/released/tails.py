"""Recognition of a fully connected first layer in a user's torch module, which opens it to `cocktail-party`.

What is behind that layer is its tail, of any kind that torch.fx can follow: other activations, normalisation, dropout,
residual blocks. The first layer sees all of an input at once, and so its weights hold sums over images
(`attacks.independent_components`).
"""

from __future__ import annotations

from torch import fx, nn

from victims.equations.architectures import TailNetwork
from victims.networks import TailSpec
from victims.released.recognition import NotCoveredError, is_shape, require_equal, step_of, traced


def tail_network_of(module: nn.Module, shape: tuple[int, int, int]) -> TailNetwork:
    """Return the first layer and the tail that together compute what a module does, of its own parameters.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.

    Raises:
        NotCoveredError: its forward cannot be followed, or does not begin with one fully connected layer.
    """
    if isinstance(module, TailNetwork):
        return module
    graph, modules = traced(module), dict(module.named_modules())
    node, first = _first(graph, modules)
    network = TailNetwork(first, tail_behind(module, graph, node)).eval()
    require_equal(module, network, shape, "what is behind its first layer asks for the input's shape")
    return network


def tail_spec_of(network: TailNetwork, name: str, outputs: int, uncovered: str) -> TailSpec:
    """Return the description of a module that a first layer and its tail compute.

    Args:
        network: the layer and its tail.
        name: the module's class.
        outputs: C.
        uncovered: what it has that a sequence of linear layers and ReLUs has not.
    """
    first = network.layers[0]
    assert isinstance(first, nn.Linear)
    return TailSpec(name=name, hidden=(first.out_features,), outputs=outputs, uncovered=uncovered)


def _first(graph: fx.Graph, modules: dict[str, nn.Module]) -> tuple[fx.Node, nn.Linear]:
    """Return the node of the fully connected layer that alone takes the input, and the layer.

    Raises:
        NotCoveredError: something else takes the input, or more than one thing does.
    """
    node = next(node for node in graph.nodes if node.op == "placeholder")
    while True:
        takers = [taker for taker in node.users if not is_shape(taker)]
        if len(takers) != 1:
            raise NotCoveredError(f"{len(takers)} operations of its forward take the input")
        node = takers[0]
        step = step_of(node, modules)
        if isinstance(step, nn.Linear):
            return node, step
        if step is not None:
            raise NotCoveredError(f"{type(step).__name__} stands before its first fully connected layer")


def tail_behind(module: nn.Module, graph: fx.Graph, first: fx.Node) -> nn.Module:
    """Return the part of a module that computes its output from the value of a node.

    What takes another value, that was computed before, takes this one all the same, and the part computes something
    else than the module.

    Args:
        module: the module.
        graph: of its forward.
        first: the node.

    Raises:
        NotCoveredError: no matrix is behind the node, as behind the last layer.
    """
    tail, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    begun = tail.placeholder("before")
    before = True
    for node in graph.nodes:
        if before and not is_shape(node):
            copies[node], before = begun, node is not first
        else:  # the size of the batch is that of the pre-activations
            copies[node] = tail.node_copy(node, lambda one: copies[one])
    made = fx.GraphModule(module, tail)
    made.graph.eliminate_dead_code()  # such as sizes that only what stood before asked for
    made.recompile()
    if not any(parameter.ndim > 1 for parameter in made.parameters()):
        raise NotCoveredError("no layer is behind it")
    return made
