"""The weights of somebody's own model, read from its file, and those that its training started from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from victims.errors import UserError
from victims.released.onnx_model import SUFFIX, onnx_module

SHOWN = 4
"""Entries that a message names of a file that holds something else; the others are counted."""
WRAPPED = ("state_dict", "model_state_dict", "model")
"""Entries of a checkpoint that may hold the state dict: of Lightning, of PyTorch's tutorial, of torchvision."""
WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that nn.DataParallel and torch.compile put before the names of all weights."""


def read_weights(path: Path, module: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of real numbers in a file: at its top level, under one of `WRAPPED`, or an ONNX model's.

    Args:
        path: the file.
        module: the network that they are for. `WRAPPERS` that its own names do not have are left out.

    Raises:
        UserError: the file cannot be read, holds no state dict, or several.
    """
    if path.suffix == SUFFIX:
        return onnx_module(path).state_dict()
    try:
        own = path.suffix == ".safetensors"
        found = load_file(path) if own else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read as safetensors ({' '.join(str(error).split())})") from None
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise UserError(f"{path} is no torch file of tensors alone; save model.state_dict(), as safetensors") from None
    state = _unwrapped(path, found)
    if strange := [name for name, value in state.items() if value.is_complex()]:
        raise UserError(f"{path} holds complex numbers in {strange[0]}; expected real weights")
    own_names = module.state_dict().keys()
    for prefix in WRAPPERS * 2:  # either may wrap the other
        if not any(name.startswith(prefix) for name in own_names):
            consume_prefix_in_state_dict_if_present(state, prefix)
    return state


def last_layer(module: nn.Module, shape: tuple[int, int, int]) -> str:
    """Return the name of the module with weights of its own that an input passes last; "" if it passes only one.

    Args:
        module: the network, in evaluation mode.
        shape: (C, H, W) of an input.
    """
    passed = list[str]()
    leaves = {
        name: part
        for name, part in module.named_modules()
        if next(part.children(), None) is None and next(part.parameters(), None) is not None
    }
    hooks = [
        part.register_forward_hook(lambda part, inputs, outputs, name=name: passed.append(name))
        for name, part in leaves.items()
    ]
    with torch.no_grad():
        module(torch.zeros(2, *shape).flatten(1) if shape[:2] == (1, 1) else torch.zeros(2, *shape))
    for hook in hooks:
        hook.remove()
    return passed[-1] if len({*passed}) > 1 else ""


def _unwrapped(path: Path, found: object) -> dict[str, Tensor]:
    """Return the state dict of what a file holds.

    Raises:
        UserError: it holds none, or several.
    """
    wrapped = [key for key in WRAPPED if isinstance(found, dict) and _is_state(found.get(key)) and found[key]]
    if len(wrapped) > 1:
        hint = "save the state dict of the released model alone"
        raise UserError(f"{path} holds several state dicts, under {' and '.join(wrapped)}; {hint}")
    state: Any = found[wrapped[0]] if wrapped and isinstance(found, dict) else found
    if not _is_state(state):
        told = f"{path} holds no state dict, which is tensors by name, but {_described(state)}"
        raise UserError(f"{told}; write it with safetensors.torch.save_file(model.state_dict(), ...)")
    return cast(dict[str, Tensor], state)


def _is_state(found: object) -> bool:
    return isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()
    )


def _described(found: object) -> str:
    """Return what a file holds in the place of a state dict; of a checkpoint of a training its first entries."""
    if not isinstance(found, dict):
        return f"a {type(found).__name__}"
    entries = [f"{' '.join(str(name).split())} ({type(value).__name__})" for name, value in found.items()]
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"a dict of {', '.join(entries[:SHOWN])}{more}"
