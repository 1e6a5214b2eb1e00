"""Copies to a device that the host does not wait for."""

from __future__ import annotations

import torch
from torch import Tensor


def uploaded(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device: the tensor itself if it is there already, else a copy that the host goes on beside.

    A step that copies something to a GPU calls this; what is copied once, before a loop, needs it not. CUDA may let the
    host wait for all that the GPU has been given before it takes numbers out of ordinary memory, `non_blocking` or not.
    So they pass through page-locked memory, which torch keeps for the next copy and does not overwrite before this one
    has ended.
    """
    if device.type != "cpu" and tensor.is_cpu:
        tensor = tensor.pin_memory()  # raises on a machine without an accelerator
    return tensor.to(device, non_blocking=True)
