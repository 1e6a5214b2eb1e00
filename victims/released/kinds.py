"""Recognition of a user's torch module as one of three kinds of networks, whose layers attacks can use.

They are tried in this order: a sequence of linear layers and ReLUs, a first layer and its tail, a front and the layers
behind it. Of any other module attacks see outputs and gradients alone.
"""

from __future__ import annotations

from torch import nn

from victims.equations.architectures import FrontNetwork, ReLUNetwork, TailNetwork
from victims.networks import ModuleSpec
from victims.released.fronts import front_network_of, front_spec_of
from victims.released.recognition import NORMALISATIONS, NotCoveredError, architecture_of, relu_network_of
from victims.released.tails import tail_network_of, tail_spec_of
from victims.spec import NetworkSpec

Layered = ReLUNetwork | TailNetwork | FrontNetwork
"""A network whose layers attacks can use."""


def recognised(module: nn.Module, shape: tuple[int, int, int]) -> tuple[Layered | None, str]:
    """Return the network that computes what a module does, of its own parameters, and why it is none of ReLUs alone.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.

    Returns:
        The network, None where the module is of none of these kinds; and what the module has that a sequence of linear
        layers and ReLUs has not, empty for such a sequence.
    """
    uncovered = ""
    for network_of in (relu_network_of, tail_network_of, front_network_of):
        try:
            return network_of(module, shape), uncovered
        except NotCoveredError as error:
            uncovered = uncovered or str(error)
    return None, uncovered


def described(module: nn.Module, shape: tuple[int, int, int], name: str, outputs: int) -> NetworkSpec:
    """Return the description of a module.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.
        name: its class.
        outputs: C.
    """
    network, uncovered = recognised(module, shape)
    if isinstance(network, ReLUNetwork):
        return architecture_of(network)
    if isinstance(network, TailNetwork):
        return tail_spec_of(network, name, outputs, uncovered)
    if isinstance(network, FrontNetwork):
        return front_spec_of(network, name, outputs, uncovered)
    return ModuleSpec(name=name, outputs=outputs, uncovered=uncovered)


def folded_normalisations(module: nn.Module, shape: tuple[int, int, int]) -> set[nn.Module]:
    """Return the batch normalisations of a module that are folded into the layers before them.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.
    """
    network, _ = recognised(module, shape)
    if network is None:
        return set()
    kept = set(network.modules())
    return {part for part in module.modules() if isinstance(part, NORMALISATIONS) and part not in kept}
