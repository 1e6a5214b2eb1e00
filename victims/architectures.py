"""The networks that are attacked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from victims.spec import MLPSpec


class MLP(nn.Module):
    """A ReLU network with one output; parameters are `layers.{l}.weight` and, where there is one, `layers.{l}.bias`.

    Args:
        widths: (d, h_1, ..., 1).
        biases: for each layer, whether it has a bias.
    """

    def __init__(self, widths: Sequence[int], biases: Sequence[bool]) -> None:
        super().__init__()
        pairs = zip(widths[:-1], widths[1:], biases, strict=True)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b, bias in pairs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return Phi(theta; x), shape (n,), for inputs of shape (n, ...)."""
        hidden = inputs.flatten(1)
        for layer in self.layers[:-1]:
            hidden = torch.relu(layer(hidden))
        output: Tensor = self.layers[-1](hidden)
        return output[:, 0]

    def linears(self) -> list[nn.Linear]:
        """Return the layers, first to last."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def degrees(self) -> list[int]:
        """Return, per parameter, the power k such that theta_p -> c^k theta_p for all p gives Phi -> c^L Phi.

        A weight has degree 1, the bias of layer l (from 1) degree l: with a bias in layer 1 alone this is the
        network's positive homogeneity; with more biases it still scales the function exactly.
        """
        places = (name.split(".") for name, _ in self.named_parameters())
        return [int(layer) + 1 if kind == "bias" else 1 for _, layer, kind in places]


def build(spec: MLPSpec, inputs: int, generator: torch.Generator, dtype: torch.dtype) -> MLP:
    """Return an initialised network on the CPU.

    Layer 1 is drawn from N(0, first_layer_scale^2), its bias too; the others from torch's standard
    U(-1/sqrt(fan_in), 1/sqrt(fan_in)) (Haim et al. 2022, Section 5.1 and their public code).

    Args:
        spec: the architecture.
        inputs: d, the number of pixels times channels.
        generator: the CPU generator that makes the draw reproducible.
        dtype: of the parameters; the draw itself is made in float64, so both precisions start at one point.
    """
    depth = len(spec.hidden) + 1
    biases = [layer == 0 or (spec.biases == "all" and layer < depth - 1) for layer in range(depth)]
    model = MLP((inputs, *spec.hidden, 1), biases).to(torch.float64)
    for index, layer in enumerate(model.linears()):
        for parameter in layer.parameters():
            with torch.no_grad():
                if index == 0 and spec.first_layer_scale is not None:
                    parameter.normal_(0, spec.first_layer_scale, generator=generator)
                else:
                    bound = 1 / math.sqrt(layer.in_features)
                    parameter.uniform_(-bound, bound, generator=generator)
    return model.to(dtype)
