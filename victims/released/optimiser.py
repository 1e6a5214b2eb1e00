"""The optimiser's state that was saved beside somebody's own model: its running mean of the gradients, by parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from victims.equations.network import DOWN, FIRST
from victims.errors import UserError
from victims.files import sha256_file
from victims.released.module import Shape, answering, folded_names
from victims.released.weights import read_weights

WRAPPED = ("optimizer", "optimizer_state_dict", "optimizer_states")
"""Entries of a checkpoint that may hold the state: of torchvision, of PyTorch's tutorial, of Lightning (a list)."""
MEANS = ("exp_avg", "momentum_buffer")
"""What torch's optimisers call the running mean: Adam and its like, and SGD."""


def momentum_of(
    name: str, network: Callable[[], nn.Module], weights: Path, optimiser: Path, sha256: str, shape: Shape
) -> dict[str, Tensor]:
    """Return the running mean of the gradients by parameter of the network that attacks see, up to a factor.

    Both ends of a step along it are read as that network, and their difference is returned. Batch normalisations that
    are folded into a layer stay as they were released, which leaves the layer's mean a sum over images. Where a
    low-rank update was trained, which the weights hold merged, that for A of the first layer is returned alone.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        weights: the file of its weights, which fit it.
        optimiser: the file of the optimiser's state.
        sha256: its hex SHA-256 when the plug-in was loaded.
        shape: (C, H, W) of an input.

    Raises:
        UserError: the file cannot be read, changed since the plug-in was loaded, holds no running mean, or is of
            another network.
    """
    if sha256_file(optimiser) != sha256:
        raise UserError(f"victim {name}: {optimiser} changed while this ran; start again")
    module = network().float().eval()
    state, folded = read_weights(weights, module), folded_names(module, shape)
    if (update := _mean_of_update(optimiser, network().eval(), shape)) is not None:
        return {DOWN: update}
    mean = {key: value for key, value in read_momentum(optimiser, module).items() if not key.startswith(folded)}
    size = sum(float(value.square().sum()) for value in mean.values()) ** 0.5
    if not size:
        raise UserError(f"victim {name}: {optimiser} holds a running mean of zeros; save it before it is reset")
    step = sum(float(state[key].float().square().sum()) for key in mean) ** 0.5 / size
    ends = list[dict[str, Tensor]]()
    for factor in (0.0, step):
        moved = {key: value + factor * mean[key] if key in mean else value for key, value in state.items()}
        module = network().float().eval()
        module.load_state_dict(moved)
        ends.append(answering(module, shape).state_dict())
    learnt = [key for key, value in ends[0].items() if not torch.equal(value, ends[1][key])]
    return {key: ends[1][key] - ends[0][key] for key in learnt}


def read_momentum(path: Path, module: nn.Module) -> dict[str, Tensor]:
    """Return the running mean of the gradients in a file, by the names of a module's parameters.

    A state counts parameters and does not name them: those of each group follow one another in the module's order, as
    where weight decay is for matrices alone. Parameters that were not trained are left out.

    Args:
        path: what torch.save made of optimizer.state_dict(), or of a checkpoint that has it under one of `WRAPPED`.
        module: the network whose parameters were optimised.

    Raises:
        UserError: the file cannot be read, holds no such state or no running mean, or one of another network.
    """
    groups, means = _read(path)
    left, named = list(module.named_parameters()), dict[str, Tensor]()
    for group in groups:
        at = 0
        for index in group:
            if (mean := means.get(index)) is None:
                continue
            place = next((at + k for k, (_, own) in enumerate(left[at:]) if own.shape == mean.shape), None)
            if place is None:
                shape = " x ".join(map(str, mean.shape))
                raise UserError(f"{path} does not fit the network: no parameter of {shape} is left for its {index}")
            named[left.pop(place)[0]], at = mean.float(), place
    return named


def _mean_of_update(path: Path, module: nn.Module, shape: Shape) -> Tensor | None:
    """Return the mean (r, d) for A of a low-rank update of the first layer, None where layers were trained themselves.

    Of an update there is one for A (r, d) and one for B (h, r), layer by layer (Hu et al. 2022, LoRA, eq. 3).

    Args:
        path: as of `read_momentum`.
        module: the network.
        shape: (C, H, W) of an input.
    """
    first = answering(module, shape).state_dict().get(FIRST)
    if first is None or first.shape[1:] != (math.prod(shape),):
        return None
    _, means = _read(path)
    every = [means[index] for index in sorted(means)]
    pairs = list(zip(every[::2], every[1::2], strict=False))
    factors = all(a.ndim == b.ndim == 2 and len(a) == b.shape[1] for a, b in pairs)
    if len(every) % 2 or not factors or any(mean.shape == first.shape for mean in every):
        return None
    return next((a.float() for a, _ in pairs if a.shape[1] == first.shape[1] and bool(a.any())), None)


def _read(path: Path) -> tuple[list[list[Any]], dict[Any, Tensor]]:
    """Return the numbers of the parameters of each group in a file, and the running mean of each; raises UserError."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise UserError(f"{path} is no torch file of tensors alone; save optimizer.state_dict()") from None
    state = _unwrapped(found)
    if state is None:
        raise UserError(f"{path} holds no optimiser's state; save optimizer.state_dict()")
    means = dict(_means(state["state"]))
    if not means:
        hint = f"{' or '.join(MEANS)}, as SGD with momentum and Adam have"
        raise UserError(f"{path} holds no running mean of the gradients: {hint}")
    return [group["params"] for group in state["param_groups"]], means


def _unwrapped(found: Any) -> Mapping[str, Any] | None:
    """Return an optimiser's state dict out of what a file holds, None if it holds none."""
    if not isinstance(found, dict):
        return None
    for held in (found, *(found.get(key) for key in WRAPPED)):
        first = held[0] if isinstance(held, (list, tuple)) and held else held
        if isinstance(first, dict) and isinstance(first.get("state"), dict) and "param_groups" in first:
            return first
    return None


def _means(state: Mapping[Any, Any]) -> Iterator[tuple[Any, Tensor]]:
    """Return the running mean of each parameter that has one, by its number."""
    for index, moments in state.items():
        mean = next((moments[key] for key in MEANS if isinstance(moments.get(key), Tensor)), None)
        if mean is not None:
            yield index, mean
