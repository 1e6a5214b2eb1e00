"""The optimiser's state that was saved beside somebody's own model: its running mean of the gradients, by parameter."""

from __future__ import annotations

import math
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

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
SCALED = "square_avg"
"""Beside it RMSprop's momentum_buffer is of gradients that were scaled entry by entry, and no sum over images."""


@dataclass(frozen=True)
class OptimiserState:
    """What a file holds of an optimiser.

    Attributes:
        path: the file, for messages.
        groups: of its parameters, each with the numbers `params` and perhaps their names `param_names`.
        moments: what is kept of each parameter that has a running mean, by its number, or by its name.
        means: the running mean of the gradients likewise.
    """

    path: Path
    groups: Sequence[Mapping[str, Any]]
    moments: Mapping[Any, Mapping[str, Any]]
    means: Mapping[Any, Tensor]

    def named(self, module: nn.Module) -> dict[str, Tensor]:
        """Return the means by the names of a module's parameters; raises UserError as `names` does."""
        return {name: self.means[key] for key, name in self.names(module).items()}

    def names(self, module: nn.Module) -> dict[Any, str]:
        """Return the name that each key of the means has in a module; parameters that were not trained are left out.

        A state counts parameters, and may not name them. One group of all parameters has the module's order; else each
        group's follow one another in it, as where weight decay is for matrices alone, and shapes tell which they are.

        Args:
            module: the network whose parameters were optimised.

        Raises:
            UserError: it was of another network, or shapes do not tell which parameter is which.
        """
        parameters = dict(module.named_parameters())
        told = self._told(list(parameters))
        names = {key: told[key] for key in self.means if key in told}
        fits = (name in parameters and parameters[name].shape == self.means[key].shape for key, name in names.items())
        return names if names and all(fits) else self._by_shape(parameters)

    def _told(self, own: list[str]) -> dict[Any, str]:
        """Return the name of each parameter by its number, nothing where the file does not tell; `own` is in order."""
        if all(isinstance(key, str) for key in self.means):
            return {key: key for key in self.means}
        numbers = [number for group in self.groups for number in group["params"]]
        told = [name for group in self.groups for name in group.get("param_names", ())]
        if len(self.groups) == 1 and len(numbers) == len(own):
            told = told or own
        return dict(zip(numbers, told, strict=True)) if len(told) == len(numbers) else {}

    def _by_shape(self, parameters: Mapping[str, nn.Parameter]) -> dict[Any, str]:
        there, wanted = (Counter(one.shape for one in every.values()) for every in (parameters, self.means))
        for shape, count in wanted.items():
            if not there[shape]:
                hint = "it is of another network, or of a low-rank update that is not beside the first layer"
                raise UserError(
                    f"{self.path} does not fit the network, which has no parameter of {_size(shape)}: {hint}"
                )
            if count != there[shape]:
                hint = "which were trained? Build the optimiser from model.named_parameters(), which it then names"
                raise UserError(f"{self.path} has {count} of the {there[shape]} parameters of {_size(shape)}; {hint}")
        left, names = dict(parameters), dict[Any, str]()
        for group in self.groups:
            for number in group["params"]:
                if (mean := self.means.get(number)) is not None:
                    names[number] = next(name for name, own in left.items() if own.shape == mean.shape)
                    del left[names[number]]
        return names

    def of_update(self, weights: Mapping[str, Tensor], shape: Shape) -> Tensor | None:
        """Return the mean (r, d) for A of a low-rank update of the first layer (h, d), None where there is none.

        A (r, d) and B (h, r) follow one another (Hu et al. 2022, LoRA, eq. 3), whatever else was trained beside.

        Args:
            weights: the state of the network that attacks see.
            shape: (C, H, W) of an input.
        """
        first = weights.get(FIRST)
        if first is None or first.shape[1:] != (math.prod(shape),):
            return None
        h, d = first.shape
        whole = any(mean.shape == first.shape for mean in self.means.values())
        pairs = pairwise(self.means.values())
        found = (a for a, b in pairs if a.ndim == 2 and a.shape[1] == d and b.shape == (h, len(a)) and len(a) < h)
        return None if whole else next(found, None)


def momentum_of(
    name: str, network: Callable[[], nn.Module], weights: Path, optimiser: Path, sha256: str, shape: Shape
) -> dict[str, Tensor]:
    """Return the running mean of the gradients by parameter of the network that attacks see, up to a factor.

    Where a low-rank update of the first layer was trained, which the weights hold merged, that for A is returned alone.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        weights: the file of its weights, which fit it.
        optimiser: what torch.save made of optimizer.state_dict(), or of a checkpoint that has it under one of
            `WRAPPED`.
        sha256: its hex SHA-256 when the plug-in was loaded.
        shape: (C, H, W) of an input.

    Raises:
        UserError: the file cannot be read, changed since the plug-in was loaded, holds no running mean, or is of
            another network.
    """
    if sha256_file(optimiser) != sha256:
        raise UserError(f"victim {name}: {optimiser} changed while this ran; start again")
    module, kept = network().float().eval(), read_state(optimiser)
    own = read_weights(weights, module)
    if (update := kept.of_update(network_state(network, own, shape), shape)) is not None:
        return {DOWN: update}
    return as_seen(f"victim {name}: {optimiser} holds a running mean", network, own, kept.named(module), shape)


def as_seen(
    what: str,
    network: Callable[[], nn.Module],
    weights: Mapping[str, Tensor],
    direction: Mapping[str, Tensor],
    shape: Shape,
) -> dict[str, Tensor]:
    """Return a direction in a module's parameters by parameter of the network that attacks see, up to a factor.

    Both ends of a step along it are read as that network, and their difference is returned. Batch normalisations that
    are folded into a layer stay as they were released, which leaves a sum over images in the layer such a sum.

    Args:
        what: the direction, for messages.
        network: builds the module.
        weights: of the module, where the step begins.
        direction: by the names of the module's parameters; those that it does not move are absent.
        shape: (C, H, W) of an input.

    Raises:
        UserError: the direction is zero, or not finite.
    """
    module = network().float().eval()
    folded, own = folded_names(module, shape), {id(value): key for key, value in module.named_parameters()}
    every = {key: direction.get(own.get(id(value), "")) for key, value in module.state_dict(keep_vars=True).items()}
    moved = {key: value for key, value in every.items() if value is not None and not key.startswith(folded)}
    if not all(bool(value.isfinite().all()) for value in moved.values()) or not any(map(torch.any, moved.values())):
        raise UserError(f"{what} that is zero, or not finite")
    # as long as the weights where the direction is the smallest beside them, so that float32 holds it everywhere
    step = max(_times(weights[key], value) for key, value in moved.items() if value.any())
    after = {key: (value + step * moved[key].double()).float() for key, value in weights.items() if key in moved}
    ends = [network_state(network, at, shape) for at in (weights, {**weights, **after})]
    return {key: ends[1][key] - value for key, value in ends[0].items() if not torch.equal(value, ends[1][key])}


def read_state(path: Path) -> OptimiserState:
    """Return what a file holds of an optimiser; raises UserError where it holds none, several, or no running mean."""
    try:
        with torch.serialization.safe_globals([Namespace]):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise UserError(f"{path} is no torch file of tensors alone; save optimizer.state_dict()") from None
    held = [found, *(found.get(key) for key in WRAPPED)] if isinstance(found, dict) else []
    several = (entry if isinstance(entry, (list, tuple)) else [entry] for entry in held)
    states: list[dict[str, Any]] = [one for entry in several for one in entry if _is_state(one)]
    if len(states) != 1:
        found = f"the states of {len(states)} optimisers" if states else "no optimiser's state"
        raise UserError(f"{path} holds {found}; save the optimizer.state_dict() of the weights")
    (state,) = states
    means = {
        key: moments[kind].float()
        for key, moments in state["state"].items()
        for kind in MEANS
        if isinstance(moments.get(kind), Tensor) and SCALED not in moments
    }
    if not means:
        hint = f"{' or '.join(MEANS)}, as SGD with momentum and Adam have"
        raise UserError(f"{path} holds no running mean of the gradients: {hint}")
    order = {
        number: place for place, number in enumerate(n for group in state["param_groups"] for n in group["params"])
    }
    means = dict(sorted(means.items(), key=lambda item: order.get(item[0], len(order))))
    return OptimiserState(path, state["param_groups"], {key: state["state"][key] for key in means}, means)


def _is_state(found: Any) -> TypeGuard[dict[str, Any]]:
    """Say whether this is an optimiser's state dict, of groups and of moments by parameter."""
    if not isinstance(found, dict) or not isinstance(found.get("state"), dict):
        return False
    groups = found.get("param_groups")
    if not isinstance(groups, list) or not all(isinstance(one, dict) for one in (*groups, *found["state"].values())):
        return False
    return all(isinstance(group.get("params"), (list, tuple)) for group in groups)


def network_state(network: Callable[[], nn.Module], weights: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Return the state of the network that attacks see, of a module with these weights."""
    module = network().float().eval()
    module.load_state_dict(weights)
    return answering(module, shape).state_dict()


def _times(weights: Tensor, mean: Tensor) -> float:
    """Return how many times as long as a mean its weights are, at least 1e-30 for weights of zero."""
    return max(float(weights.double().norm() / mean.double().norm()), 1e-30)


def _size(shape: torch.Size) -> str:
    return " x ".join(map(str, shape))
