"""The deleted record in closed form (Bertran et al. 2024): what the first trained layer saw, read off its gradient.

For one record that gradient is an outer product, of the layer's back-propagated error with (phi, 1), where phi is what
the layer sees and 1 belongs to the bias. So (phi, 1) is the first right singular vector, divided by its last entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from victims.deletion.objective import Parameters, mean, outputs
from victims.deletion.spec import ShallowSpec


def seen_by_first_layer(gradient: Parameters, longest: float) -> Tensor:
    """Return phi (q,) of the one record whose gradient this is.

    Args:
        gradient: of the record's loss, by parameter name.
        longest: upper bound on ||phi||; it bounds the scale from below where noise dominates the bias's gradient.
    """
    layer = torch.cat([gradient["layers.0.weight"], gradient["layers.0.bias"][:, None]], 1)
    vector: Tensor = torch.linalg.svd(layer, full_matrices=False)[2][0]
    direction, bias = vector[:-1], float(vector[-1])
    least = float(direction.norm()) / longest
    scale = max(abs(bias), least, 1e-300)
    return direction / (scale if bias >= 0 else -scale)


def answered(spec: ShallowSpec, parameters: Parameters, seen: Tensor, gradients: Sequence[Parameters]) -> Tensor:
    """Return the y of B deleted records: the outputs or probabilities, less the gradient of the last layer's bias.

    Args:
        spec: the model.
        parameters: of the model at which the gradients are taken.
        seen: (B, q) what the first layer saw of the records.
        gradients: of the records' losses, by parameter name.

    Returns:
        Classes (B, 1), or the y (B, 1) of a regression.
    """
    wanted = mean(spec, outputs(spec, parameters, seen)) - torch.stack([last_bias(one) for one in gradients])
    return wanted if spec.outputs == 1 else wanted.argmax(1, keepdim=True)


def last_bias(gradient: Parameters) -> Tensor:
    """Return the gradient (outputs,) of the last layer's bias."""
    return [value for name, value in gradient.items() if name.endswith("bias")][-1]
