"""A network whose first layer alone is known: what is behind it, its tail, may be anything that can be differentiated.

The first layer holds sum_i D_i x_i' whatever is behind it: other activations, normalisation, dropout, residual blocks.
The errors D of an image in this layer are then those that autograd carries back from the outputs,

    D = sum_j c_j dPhi_j / dz,   z = W1 x + b1,

in the place of the recursion through gates (`victims.equations.network`). Behind a front x is the features of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attacks.knowledge import Architecture
from attacks.known_start.front import network_between
from victims.equations.architectures import FrontNetwork, TailNetwork
from victims.equations.network import Network
from victims.networks import has_tail


@dataclass(frozen=True)
class Tailed:
    """A first layer and its tail, at one point of the way from a start to the released network.

    Attributes:
        weight: W1 (h, r), on coordinates of the inputs.
        bias: b1 (h,), None where there is none.
        tail: from pre-activations z (m, h) to outputs (m,) or (m, C), with parameters that need no gradient.
        outputs: C.
    """

    weight: Tensor
    bias: Tensor | None
    tail: nn.Module
    outputs: int

    @classmethod
    def between(
        cls, build: Callable[[], nn.Module], start: Mapping[str, Tensor], end: Mapping[str, Tensor], share: float
    ) -> Tailed:
        """Return the network at a share in [0, 1] of the straight way.

        Args:
            build: returns the network with arbitrary weights.
            start: its state at the beginning.
            end: its state as released.
            share: of the way.
        """
        network = network_between(build, start, end, share)
        assert isinstance(network, (TailNetwork, FrontNetwork))
        first = network.layers[0]
        assert isinstance(first, nn.Linear)
        assert network.tail is not None
        outputs = network.tail(torch.zeros(1, first.out_features).to(first.weight)).numel()
        return cls(first.weight, first.bias, network.tail, outputs)

    def on_coordinates(self, basis: Tensor) -> Tailed:
        """Return it on coordinates c of inputs x = basis c, for a basis (d, r)."""
        return replace(self, weight=self.weight @ basis)

    def answers(self, candidates: Tensor) -> Tensor:
        """Return the outputs (m, C) for candidates (m, r)."""
        found: Tensor = self.tail(F.linear(candidates, self.weight, self.bias))
        return found.reshape(len(candidates), -1)

    def errors(self, candidates: Tensor) -> Tensor:
        """Return the errors (m, C, h) of candidates (m, r) in layer 1, one for each output, with the gradient by them.

        The gates of a tail's own ReLUs are 0 or 1, and have none.
        """
        with torch.enable_grad():
            before = F.linear(candidates, self.weight, self.bias)
            if not before.requires_grad:
                before.requires_grad_()
            found = self.tail(before.clone()).reshape(len(before), -1)  # which it may write over
            each = [
                torch.autograd.grad(one.sum(), before, retain_graph=True, create_graph=candidates.requires_grad)[0]
                for one in found.unbind(1)
            ]
        return torch.stack(each, 1)


def layers(architecture: Architecture, state: Mapping[str, Tensor]) -> Network:
    """Return the layers that a state describes.

    Of a network with a tail these are its matrices, for what looks at each by itself.

    Args:
        architecture: of a network whose first layer is fully connected.
        state: its parameters and running statistics by name.
    """
    if has_tail(architecture.spec):
        return Network.of_matrices(state)
    return Network.of(state, architecture.input_shape)


def tails_between(
    architecture: Architecture, start: Mapping[str, Tensor], end: Mapping[str, Tensor], *shares: float
) -> tuple[Tailed, ...]:
    """Return the network with its tail, interpolated at each share between start and end.

    An empty tuple for a ReLU network, whose errors the recursion gives.

    Args:
        architecture: of a network whose first layer is fully connected.
        start: its state at the beginning.
        end: its state as released.
        shares: in [0, 1], 0 at the start.
    """
    if not has_tail(architecture.spec):
        return ()
    return tuple(Tailed.between(architecture.build, start, end, share) for share in shares)
