"""The torch module of somebody's own model: its weights, what it is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from victims.errors import UserError
from victims.files import sha256_file
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import KernelSpec
from victims.released.kinds import described, folded_normalisations, recognised
from victims.released.weights import last_layer, read_weights
from victims.spec import NetworkSpec

Shape = tuple[int, int, int]
SUMS_TO_ONE = 1e-4
"""Outputs whose sum is this near to 1, and none below 0, are probabilities."""


def loaded(name: str, network: Callable[[], nn.Module], weights: Path, sha256: str, shape: Shape) -> nn.Module:
    """Return the network with the weights of a file, float32, in evaluation mode.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        weights: the file.
        sha256: its hex SHA-256 when the plug-in was loaded.
        shape: (C, H, W) of an input.

    Raises:
        UserError: the weights cannot be read, changed since the plug-in was loaded, or are none of the network's.
    """
    module = network().float().eval()
    _fill(name, module, weights, sha256, read_weights(weights, module))
    return answering(module, shape)


def started(
    name: str, network: Callable[[], nn.Module], initial: Path, sha256: str, shape: Shape, end: Path
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the state that a training started from, and the weights of it that are taken from its end.

    Of the last layer those are taken that the start lacks, or has in another shape, as where a public checkpoint got a
    new head. So are batch normalisations that are folded into a layer: folded into both ends of a training, one
    normalisation leaves the difference of the layer a sum over images; these are not told. The former head is left out
    where its weights have other names, as where a Linear became a Sequential(Dropout, Linear).

    Args:
        name: the victim's, for messages.
        network: builds the module.
        initial: the file of the start.
        sha256: its hex SHA-256 when the plug-in was loaded.
        shape: (C, H, W) of an input.
        end: the released weights, which fit the network.

    Raises:
        UserError: as for `loaded`.
    """
    module = network().float().eval()
    state, released = read_weights(initial, module), read_weights(end, module)
    expected, last = module.state_dict(), last_layer(module, shape)
    taken = [
        key
        for key, value in expected.items()
        if last and key.startswith(f"{last}.") and (key not in state or state[key].shape != value.shape)
    ]
    state = {key: value for key, value in state.items() if key in expected or not _of_former_head(key, last)}
    state |= {key: released[key] for key in taken}
    _fill(name, module, initial, sha256, state)
    folded = folded_names(module, shape)
    module.load_state_dict(state | {key: value for key, value in released.items() if key.startswith(folded)})
    return answering(module, shape).state_dict(), tuple(taken)


def folded_names(module: nn.Module, shape: Shape) -> tuple[str, ...]:
    """Return what the names of the weights begin with that are folded into other layers, as batch normalisations are.

    Args:
        module: the module, in evaluation mode.
        shape: (C, H, W) of an input.
    """
    norms = folded_normalisations(_on_rows(module, shape), shape)
    return tuple(f"{norm}." for norm, part in module.named_modules() if part in norms)


def _of_former_head(key: str, last: str) -> bool:
    """Say whether weights are of a head in the place of which the last layer stands, in a module above it or below.

    Such as `fc.weight` where the last layer is `fc.1`, of a Sequential(Dropout, Linear), and the other way round.
    """
    module = key.rpartition(".")[0]
    above, below = last.startswith(f"{module}."), module.startswith(f"{last}.")
    return bool(module and last) and (above or below)


def _fill(name: str, module: nn.Module, weights: Path, sha256: str, state: dict[str, Tensor]) -> None:
    """Load what was read of a file into a module; raises UserError as `loaded` does."""
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"victim {name}: {weights} does not fit the network: {reason}") from None
    if sha256_file(weights) != sha256:
        raise UserError(f"victim {name}: {weights} changed while this ran; start again")


def built_architecture(name: str, network: Callable[[], nn.Module], shape: Shape) -> NetworkSpec:
    """Return what a network is, tried on two inputs.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        shape: (C, H, W) of an input.

    Raises:
        UserError: it cannot be built, is no module, or does not answer such inputs, or answers with probabilities.
    """
    try:
        module: object = network()
    except OSError as error:  # such as a download of weights
        hint = "build the module without loading anything, its weights come from the file"
        raise UserError(f"victim {name}: `network` failed ({' '.join(str(error).split())}); {hint}") from None
    if not isinstance(module, nn.Module):
        raise UserError(f"victim {name}: `network` returned {type(module).__name__}; expected a torch.nn.Module")
    try:
        model = answering(module.float().eval(), shape)
        with torch.no_grad():
            outputs = model(torch.zeros(2, *shape))
            drawn = model(torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)))
    except Exception as error:  # whatever the module's own code raises
        size = f"{shape[2]} columns" if is_row(shape) else f"shape (n, {', '.join(map(str, shape))})"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"victim {name}: the network does not take inputs of {size}: {reason}") from None
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or len(outputs) != 2:
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"victim {name}: the network answers 2 inputs with {found}; expected (2,), (2, 1) or (2, C)")
    if _probabilities(drawn):
        hint = "return logits, without the softmax"
        raise UserError(f"victim {name}: the network answers with probabilities; {hint}")
    if isinstance(module, KernelMachine):
        return KernelSpec(model=module.model, kernel=module.kernel, outputs=len(module.intercept))
    classes = 1 if outputs.ndim == 1 else outputs.shape[1]
    return described(_on_rows(module, shape), shape, type(module).__name__, classes)


def _probabilities(outputs: Tensor) -> bool:
    """Say whether all rows of outputs (n,) or (n, C) are those of a softmax."""
    if outputs.ndim < 2 or outputs.shape[1] < 2:
        return False
    return bool((outputs >= 0).all() and ((outputs.sum(1) - 1).abs() < SUMS_TO_ONE).all())


def answering(module: nn.Module, shape: Shape) -> nn.Module:
    """Return the network of named layers that the module is, or the module itself, answering (n,) for one output.

    A row of a table, (1, 1, d), reaches the module as (n, d).
    """
    module = _on_rows(module, shape)
    network, _ = recognised(module, shape)
    if network is not None:
        return network
    module.register_forward_hook(_one_output)
    return module


def is_row(shape: Shape) -> bool:
    """Say whether an input of this shape is a row of a table."""
    return shape[:2] == (1, 1)


def _on_rows(module: nn.Module, shape: Shape) -> nn.Module:
    return nn.Sequential(nn.Flatten(), module).eval() if is_row(shape) else module


def _one_output(module: nn.Module, inputs: object, outputs: object) -> object:
    single = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] == 1
    return outputs[:, 0] if single else outputs  # type: ignore[index]
