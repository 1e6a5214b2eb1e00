"""The start of a training: told, drawn by a guessed seed, or estimated layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from torch import Tensor

from attacks.context import AttackContext
from attacks.knowledge import VictimView
from attacks.unknown_start import UNLIKE
from attacks.unknown_start.uniform import STEPS, StartSeparation
from victims.equations.row_space import CosineSpace
from victims.spec import BuiltSpec


def initial_weights(
    view: VictimView,
    ctx: AttackContext,
    start: Literal["known", "guess", "uniform"],
    seeds: int,
) -> tuple[dict[str, Tensor] | None, tuple[str, ...]]:
    """Return the initial weights by parameter name, None if they cannot be told, and flags on how they were had.

    Args:
        view: what the attack knows.
        ctx: for progress and budget.
        start: whether it is told, its seed guessed, or itself estimated.
        seeds: how many seeds are tried, from 0 on.

    Raises:
        ValueError: the victim has no one start to tell.
    """
    ctx.resume()  # what was spent before an interruption counts while a start is sought
    if start == "known":
        if view.initial_weights is None:
            raise ValueError("the victim has no one start")
        return view.initial_weights, ()
    if start == "uniform":
        weights = {name: value.float() for name, value in view.weights.items()}
        return estimated_start(weights, view.architecture.input_shape, lambda: ctx.expired(0), ctx.progress)
    from victims.ordinary.seeds import drawn_start, guess_seed

    architecture = view.architecture
    assert isinstance(architecture.spec, BuiltSpec)
    first = next(iter(view.weights.values())).cpu().numpy()
    guess = guess_seed(
        first,
        range(seeds),
        progress=lambda done: ctx.progress(done, seeds),
        expired=lambda: ctx.expired(0),
    )
    odds = f"correlation {guess.correlation:.3f}, threshold {guess.threshold:.3f} for {guess.tried} seeds"
    if not guess.found:
        return None, (f"no seed below {guess.tried} drew the start: {odds}",)
    drawn = drawn_start(architecture.spec, architecture.input_shape, guess.seed, view.weights)
    if drawn is None:
        return None, (f"seed {guess.seed} drew the first layer: {odds}", UNLIKE)
    return drawn, (f"seed {guess.seed} drew the start: {odds}",)


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
    found = StartSeparation(first, space).run(expired, steps_of(0))
    if not found.uniform and expired():
        return None, ("the budget was spent before the start was estimated",)
    if not found.uniform:
        return None, (
            "the first layer does not look drawn uniformly, as torch.nn.Linear draws it: what is left of it has a "
            f"distribution {found.misfit:.2g} away from that",
        )
    start = dict(weights) | {"layers.0.weight": (first - found.added) / found.decay}
    flags = [f"start estimated: uniform to {found.misfit:.2g}"]
    for layer in range(1, hidden):
        name = f"layers.{layer}.weight"
        behind = StartSeparation(weights[name], None, found.decay).run(expired, steps_of(layer))
        if behind.uniform:
            start[name] = (weights[name] - behind.added) / found.decay
        elif expired():
            flags.append(f"the budget was spent before layer {layer + 1} was estimated: taken as released")
        else:
            flags.append(f"layer {layer + 1} does not look drawn uniformly: taken as released")
    return start, tuple(flags)
