"""What of a machine this process may use: cores, and memory that is free. Imports no torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows control groups, version 2."""
OWN_CGROUP = Path("/proc/self/cgroup")


def cores() -> int:
    """Return how many physical cores this process may use: no more than the CPUs that it is bound to."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else physical  # macOS binds none
    return min(physical, bound)


def free_memory() -> int:
    """Return the bytes that are free: no more than a control group of this process, as of a container, leaves."""
    free: int = psutil.virtual_memory().available
    return min([free, *(_left(folder) for folder in _control_groups() if (folder / "memory.max").exists())])


def _control_groups() -> list[Path]:
    """Return the folders of this process's control group and of those around it; each may have a limit of its own."""
    try:
        entries = OWN_CGROUP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    places = [entry.removeprefix("0::/") for entry in entries if entry.startswith("0::/")]
    return [folder for place in places for folder in (CGROUPS / place, *(CGROUPS / place).parents)]


def _left(group: Path) -> int:
    """Return the bytes that a control group leaves: its limit less what it holds, but for files read long ago."""
    try:
        most = (group / "memory.max").read_text(encoding="utf-8")
        held = int((group / "memory.current").read_text(encoding="utf-8"))
        entries = dict(line.split() for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines())
        return max(0, int(most) - held + int(entries.get("inactive_file", 0)))
    except (OSError, ValueError):  # such as "max", for no limit
        return sys.maxsize
