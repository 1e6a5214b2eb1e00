"""Two checkpoints of somebody's own training, each with the optimiser's state: what they tell attacks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from victims.equations.checkpoint import Checkpoint, summed_gradients
from victims.errors import UserError
from victims.files import sha256_file
from victims.released.module import Shape, loaded
from victims.released.optimiser import OptimiserState, as_seen, network_state, read_state
from victims.released.weights import read_weights
from victims.spec import Released

EARLIER = "`earlier` is to be an earlier checkpoint of the same training"


def progress_of(name: str, training: Released, shape: Shape) -> tuple[Checkpoint, Checkpoint]:
    """Return two states of the network that attacks see, of which `summed_gradients` tells the sum between checkpoints.

    The sum is taken in the module's own parameters, each with its own rate, decay and number of steps, and then read as
    one of that network, up to a factor that all share. A running mean that forgets nothing holds it, from zero on. The
    steps of these states are counted from the first of them; SGD counts none, and is taken to have had one.

    Args:
        name: the victim's, for messages.
        training: where the weights and the optimiser's state lie, of both checkpoints; the later ones were read before.
        shape: (C, H, W) of an input.

    Raises:
        UserError: a file cannot be read, changed since the plug-in was loaded, or is of another network or training; or
            what the optimiser did cannot be undone.
    """
    network, state, earlier = training.network, training.state, training.earlier_state
    assert network is not None
    assert state is not None
    assert training.earlier is not None
    assert earlier is not None
    begun = loaded(name, network, training.earlier, training.earlier_sha256, shape).state_dict()
    if sha256_file(earlier) != training.earlier_state_sha256:
        raise UserError(f"victim {name}: {earlier} changed while this ran; start again")
    module = network().float().eval()
    weights = read_weights(training.weights, module)
    ended, kept = network_state(network, weights, shape), read_state(state)
    if kept.of_update(ended, shape) is not None:
        hint = "two checkpoints of which tell no sum of gradients; leave `earlier` out"
        raise UserError(f"victim {name}: {state} is of a low-rank update, {hint}")
    before = _states(name, read_state(earlier), read_weights(training.earlier, module), module, uncounted=0)
    after = _states(name, kept, weights, module, uncounted=1)
    if before.keys() != after.keys():
        raise UserError(f"victim {name}: {earlier} is of other parameters than {state}; {EARLIER}")
    steps = {parameter: one.steps - before[parameter].steps for parameter, one in after.items()}
    if min(steps.values()) < 0 or not any(steps.values()):
        raise UserError(f"victim {name}: {earlier} is of no earlier step than {state}; {EARLIER}")
    summed = dict[str, Tensor]()
    for parameter in (parameter for parameter, taken in steps.items() if taken):  # others were frozen on the way
        try:
            summed |= summed_gradients(before[parameter], after[parameter])
        except ValueError:
            raise UserError(f"victim {name}: {earlier} has other betas than {state}; {EARLIER}") from None
    what = f"victim {name}: {earlier} and {state} tell a sum of gradients"
    seen = as_seen(what, network, weights, summed, shape)
    zero = {parameter: torch.zeros_like(value) for parameter, value in seen.items()}
    return _with_sum(begun, zero, 0), _with_sum(ended, seen, max(steps.values()))


def _with_sum(weights: dict[str, Tensor], summed: dict[str, Tensor], steps: int) -> Checkpoint:
    """Return a state whose running mean is the sum of all gradients so far: beta is 1, and each counts whole."""
    return Checkpoint(weights, summed, {}, steps, lr=1.0, decay=0.0, betas=(1.0, 0.0), epsilon=0.0)


def _states(
    name: str, kept: OptimiserState, weights: Mapping[str, Tensor], module: nn.Module, uncounted: int
) -> dict[str, Checkpoint]:
    """Return a state of each parameter that was trained, by its name; raises UserError as `progress_of` does.

    Args:
        name: the victim's, for messages.
        kept: the optimiser's state.
        weights: of the module.
        module: the network whose parameters were optimised.
        uncounted: the number of steps where the optimiser counts none.
    """
    states = dict[str, Checkpoint]()
    for key, parameter in kept.names(module).items():
        try:
            states[parameter] = _state(kept, key, parameter, weights[parameter], uncounted)
        except KeyError as missing:
            hint = "as torch's SGD, Adam and AdamW do, which alone can be undone; leave `earlier` out"
            raise UserError(f"victim {name}: {kept.path} does not tell {missing} of {parameter}, {hint}") from None
    return states


def _state(kept: OptimiserState, key: object, parameter: str, weights: Tensor, uncounted: int) -> Checkpoint:
    """Return the state of one parameter, whose mean counts each gradient whole.

    A mean that counts a share of each makes the steps that one of whole gradients makes at this share of the rate.

    Raises:
        KeyError: the optimiser's state lacks what the steps of torch's SGD, Adam and AdamW come from, as NAdam's and
            RAdam's lack `amsgrad`.
    """
    group = next((one for one in kept.groups if key in one["params"]), {})
    moments, mean, rate = kept.moments[key], kept.means[key].double(), float(group["lr"])
    at = {parameter: weights}
    if "exp_avg" not in moments:
        share, beta = 1 - float(group["dampening"]), float(group["momentum"])
        if group["nesterov"]:
            mean = beta * mean  # steps along g + beta m are undone as those along m are, with beta m in the place of m
        return Checkpoint(at, {parameter: mean / share}, {}, uncounted, rate * share, 0.0, (beta, 0.0), epsilon=0.0)
    betas, epsilon = (float(group["betas"][0]), float(group["betas"][1])), float(group["eps"])
    share, second = 1 - betas[0], moments["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"]
    # older torch does not tell the two apart, and AdamW is the one that is given a decay
    decay = float(group["weight_decay"]) if group.get("decoupled_weight_decay", True) else 0.0
    first, steps = {parameter: mean / share}, int(moments["step"])
    return Checkpoint(at, first, {parameter: second}, steps, rate * share, decay / share, betas, epsilon)
