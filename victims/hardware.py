"""Names of the hardware that a number was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def cpu_name() -> str:
    """Return the processor's model and how many cores this process may use, e.g. `AMD EPYC 7B13 (2 cores)`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor() or platform.machine()} ({cores} cores)"


def gpu_name(device: torch.device) -> str:
    """Return the GPU's name, or the empty string for another device."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""
