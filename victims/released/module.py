"""The torch module of somebody's own model: its weights, what it is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from victims.errors import UserError
from victims.files import sha256_file
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import KernelSpec
from victims.released.fronts import folded_normalisations, front_network_of, spec_of
from victims.released.onnx_model import SUFFIX, onnx_module
from victims.released.recognition import NotCoveredError, architecture_of, relu_network_of
from victims.released.tails import tail_network_of, tail_spec_of
from victims.spec import ModuleSpec, NetworkSpec

Shape = tuple[int, int, int]
SHOWN = 4
"""Entries that a message names of a file that holds something else; the others are counted."""


def loaded(
    name: str, network: Callable[[], nn.Module], weights: Path, sha256: str, shape: Shape, end: Path | None = None
) -> nn.Module:
    """Return the network with the weights of a file, float32, in evaluation mode.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        weights: the file.
        sha256: its hex SHA-256 when the plug-in was loaded.
        shape: (C, H, W) of an input.
        end: the released weights, if the file holds those that a training started from. Batch normalisations that are
            folded into a layer are then those of the end: folded into both ends of a training, one normalisation
            leaves the difference of the layer a sum over images.

    Raises:
        UserError: the weights cannot be read, changed since the plug-in was loaded, or are none of the network's.
    """
    state, module = _read_weights(weights), network().eval()
    try:
        module.load_state_dict(state)
        if end is not None:
            norms = folded_normalisations(_on_rows(module, shape), shape)
            folded = tuple(f"{norm}." for norm, part in module.named_modules() if part in norms)
            released = _read_weights(end).items()
            module.load_state_dict(state | {key: value for key, value in released if key.startswith(folded)})
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"victim {name}: {weights} does not fit the network: {reason}") from None
    if sha256_file(weights) != sha256:
        raise UserError(f"victim {name}: {weights} changed while this ran; start again")
    return answering(module, shape).float()


def built_architecture(name: str, network: Callable[[], nn.Module], shape: Shape) -> NetworkSpec:
    """Return what a network is, tried on two inputs.

    Args:
        name: the victim's, for messages.
        network: builds the module.
        shape: (C, H, W) of an input.

    Raises:
        UserError: it cannot be built, is no module, or does not answer such inputs.
    """
    try:
        module: object = network()
    except OSError as error:  # such as a download of weights
        hint = "build the module without loading anything, its weights come from the file"
        raise UserError(f"victim {name}: `network` failed ({' '.join(str(error).split())}); {hint}") from None
    if not isinstance(module, nn.Module):
        raise UserError(f"victim {name}: `network` returned {type(module).__name__}; expected a torch.nn.Module")
    try:
        model = answering(module.eval(), shape)
        with torch.no_grad():
            outputs = model(torch.zeros(2, *shape))
    except (RuntimeError, TypeError, ValueError) as error:
        size = f"{shape[2]} columns" if is_row(shape) else f"shape (n, {', '.join(map(str, shape))})"
        reason = " ".join(str(error).split())
        raise UserError(f"victim {name}: the network does not take inputs of {size}: {reason}") from None
    if not isinstance(outputs, Tensor) or outputs.ndim > 2 or len(outputs) != 2:
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"victim {name}: the network answers 2 inputs with {found}; expected (2,), (2, 1) or (2, C)")
    if isinstance(module, KernelMachine):
        return KernelSpec(model=module.model, kernel=module.kernel, outputs=len(module.intercept))
    try:
        return architecture_of(relu_network_of(_on_rows(module, shape), shape))
    except NotCoveredError as error:
        uncovered = str(error)
    rows, kind, classes = _on_rows(module, shape), type(module).__name__, 1 if outputs.ndim == 1 else outputs.shape[1]
    with suppress(NotCoveredError):
        return tail_spec_of(tail_network_of(rows, shape), kind, classes, uncovered)
    with suppress(NotCoveredError):
        return spec_of(front_network_of(rows, shape), kind, classes, uncovered)
    return ModuleSpec(name=kind, outputs=classes, uncovered=uncovered)


def answering(module: nn.Module, shape: Shape) -> nn.Module:
    """Return the network of named layers that the module is, or the module itself, answering (n,) for one output.

    A row of a table, (1, 1, d), reaches the module as (n, d).
    """
    module = _on_rows(module, shape)
    for network_of in (relu_network_of, tail_network_of, front_network_of):
        with suppress(NotCoveredError):
            return network_of(module, shape)
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


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Return the state dict of real numbers in a file, at its top level or under "state_dict", or an ONNX model's.

    Raises:
        UserError: the file cannot be read, or holds none.
    """
    if path.suffix == SUFFIX:
        return onnx_module(path).state_dict()
    try:
        own = path.suffix == ".safetensors"
        state = load_file(path) if own else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read as safetensors ({' '.join(str(error).split())})") from None
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise UserError(f"{path} is no torch file of tensors alone; save model.state_dict(), as safetensors") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        told = f"{path} holds no state dict, which is tensors by name, but {_described(state)}"
        raise UserError(f"{told}; write it with safetensors.torch.save_file(model.state_dict(), ...)")
    if strange := [name for name, value in state.items() if value.is_complex()]:
        raise UserError(f"{path} holds complex numbers in {strange[0]}; expected real weights")
    return state


def _described(found: object) -> str:
    """Return what a file holds in the place of a state dict; of a checkpoint of a training its first entries."""
    if not isinstance(found, dict):
        return f"a {type(found).__name__}"
    entries = [f"{' '.join(str(name).split())} ({type(value).__name__})" for name, value in found.items()]
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"a dict of {', '.join(entries[:SHOWN])}{more}"
