"""Training in the span of the data.

Full-batch or mini-batch gradient descent moves W1 only within span{x_i}: its gradient is D'X. With an orthonormal basis
V (d, r) of that span the network can be trained on the coordinates XV with W1 V, and W1 (I - VV'), which no gradient
touches and weight decay shrinks by a known factor, is added back at the end. The trajectory is the same up to
rounding; layer 1 costs r <= n instead of d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.architectures import MLP


@dataclass(frozen=True)
class InputSpan:
    """An orthonormal basis of the span of the training inputs.

    Attributes:
        basis: (d, r), float64.
    """

    basis: Tensor

    @classmethod
    def of(cls, inputs: Tensor) -> InputSpan:
        """Return the span of inputs (n, d); directions below 1e-9 of the largest singular value count as absent."""
        _, singular, directions = torch.linalg.svd(inputs.double(), full_matrices=False)
        rank = int((singular > 1e-9 * singular[0]).sum())
        return cls(directions[:rank].T.contiguous())

    def coordinates(self, inputs: Tensor) -> Tensor:
        """Return (n, r) coordinates of inputs (n, d), float64."""
        return inputs.double() @ self.basis

    def reduce(self, model: MLP) -> tuple[MLP, Tensor]:
        """Return the network on coordinates, and the part (h, d) of W1 outside the span, float64."""
        first = model.linears()[0].weight.detach().double()
        inside = first @ self.basis
        return _with_first_weight(model, inside), first - inside @ self.basis.T

    def restore(self, reduced: MLP, outside: Tensor) -> MLP:
        """Return the network on pixels, given the network on coordinates and the part outside the span."""
        first = reduced.linears()[0].weight.detach().double()
        return _with_first_weight(reduced, first @ self.basis.T + outside)


def _with_first_weight(model: MLP, first: Tensor) -> MLP:
    layers = model.linears()
    widths = (first.shape[1], *(layer.out_features for layer in layers))
    changed = MLP(widths, [layer.bias is not None for layer in layers]).to(layers[0].weight)
    state = model.state_dict() | {"layers.0.weight": first.to(layers[0].weight)}
    changed.load_state_dict(state)
    return changed
