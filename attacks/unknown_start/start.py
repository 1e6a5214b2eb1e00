"""The start of a training, estimated layer by layer from the released weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from attacks.unknown_start.uniform import STEPS, Separation
from victims.equations.row_space import CHANNEL_SIZES, CosineSpace


def estimated_start(
    weights: Mapping[str, Tensor],
    shape: tuple[int, int, int],
    expired: Callable[[], bool] = lambda: False,
    report: Callable[[int, int], None] = lambda step, steps: None,
) -> tuple[dict[str, Tensor] | None, tuple[str, ...]]:
    """Return the initial weights by parameter name, as far as they can be told, and flags on them.

    Biases and the last layer are returned as they were released: the former were not drawn to be told from what was
    added, of the latter next to nothing is left. Without weights that were drawn as `torch.nn.Linear` draws them, the
    result is None.

    Args:
        weights: the released parameters of a fully connected network, `layers.{l}.weight` and `layers.{l}.bias`.
        shape: (C, H, W) of an input.
        expired: asked before every step whether the budget is spent.
        report: called every few steps with their number, and with the number of all.
    """
    hidden = sum(name.endswith(".weight") for name in weights) - 1
    total = STEPS * hidden
    channels, height, width = shape
    first = weights["layers.0.weight"]
    if not bool(first.any()):
        return None, ("the first layer is zero",)
    seen = channels in (1, len(CHANNEL_SIZES)) and min(height, width) > 1
    space = CosineSpace.of(shape, first) if seen else None
    found = Separation(first, space).run(expired, partial(_behind, report, 0, total))
    if not found.uniform:
        return None, (
            f"the first layer was not drawn uniformly, as torch.nn.Linear draws it: what is left of it has a "
            f"distribution {found.misfit:.2g} away from that",
        )
    start = dict(weights) | {"layers.0.weight": (first - found.added) / found.decay}
    for layer in range(1, hidden):
        name = f"layers.{layer}.weight"
        reported = partial(_behind, report, STEPS * layer, total)
        added = Separation(weights[name], None, found.decay).run(expired, reported)
        start[name] = (weights[name] - added.added) / found.decay
    return start, (f"start estimated: uniform to {found.misfit:.2g}",)


def _behind(report: Callable[[int, int], None], done: int, total: int, step: int) -> None:
    """Report a step behind those that earlier layers took."""
    report(done + step, total)
