"""Where and with what a number was made: peak memory, the commit, the clock."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.registry import ROOT

if TYPE_CHECKING:
    import torch


def peak_memory(device: torch.device) -> float:
    """Return the peak of this process's resident memory, or of the GPU's allocations, in MiB."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource

    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if platform.system() == "Darwin" else peak / 2**10


def git_commit() -> str:
    """Return this checkout's short commit, or the empty string outside a checkout."""
    if not (ROOT / ".git").exists():
        return ""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def now_utc() -> str:
    """Return the time, ISO 8601, to the millisecond: of two runs of one cell the newer counts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
