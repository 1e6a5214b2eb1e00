"""The start of a training, estimated layer by layer from the released weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from attacks.unknown_start.uniform import STEPS, Separation
from victims.equations.row_space import CosineSpace


def estimated_start(
    weights: Mapping[str, Tensor],
    shape: tuple[int, int, int],
    expired: Callable[[], bool] = lambda: False,
    report: Callable[[int, int], None] = lambda step, steps: None,
) -> tuple[dict[str, Tensor] | None, tuple[str, ...]]:
    """Return the initial weights by parameter name, as far as they can be told, and flags on them.

    The result is None if the first layer was not drawn as `torch.nn.Linear` draws it. Three things are returned as they
    were released: a hidden layer that was not drawn so, which a flag names; the last layer, which a training moves in
    all its rows, so that no low rank tells how; and biases, one number a neuron.

    Args:
        weights: the released parameters of a fully connected network, `layers.{l}.weight` and `layers.{l}.bias`.
        shape: (C, H, W) of an input.
        expired: asked before every step whether the budget is spent.
        report: called every few steps with their number, and with the number of all.
    """
    hidden = sum(name.endswith(".weight") for name in weights) - 1

    def steps_of(layer: int) -> Callable[[int], None]:
        return lambda step: report(STEPS * layer + step, STEPS * hidden)

    channels, height, width = shape
    first = weights["layers.0.weight"]
    if not bool(first.any()):
        return None, ("the first layer is zero",)
    images = channels in (1, 3) and min(height, width) > 1
    space = CosineSpace.of(shape, first) if images else None
    found = Separation(first, space).run(expired, steps_of(0))
    if not found.uniform:
        return None, (
            "the first layer was not drawn uniformly, as torch.nn.Linear draws it: what is left of it has a "
            f"distribution {found.misfit:.2g} away from that",
        )
    start = dict(weights) | {"layers.0.weight": (first - found.added) / found.decay}
    flags = [f"start estimated: uniform to {found.misfit:.2g}"]
    for layer in range(1, hidden):
        name = f"layers.{layer}.weight"
        behind = Separation(weights[name], None, found.decay).run(expired, steps_of(layer))
        if behind.uniform:
            start[name] = (weights[name] - behind.added) / found.decay
        else:
            flags.append(f"layer {layer + 1} was not drawn uniformly: taken as released")
    return start, tuple(flags)
