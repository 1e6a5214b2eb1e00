"""The source that travels: the three packages and the plug-ins, without data, results and what Python compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.plan.registry import ROOT
from victims.errors import UserError

PACKAGES = ("bench", "attacks", "victims")
PLUGINS = "plugins"
"""The folder of the plug-ins in what travels."""
MOST_BYTES = 200 * 2**20
"""Of the plug-ins; Ray itself refuses 512 MiB."""
COMPILED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def gather(folder: Path, plugin_dir: Path | None) -> str:
    """Copy what travels into a folder, and return the place of the plug-ins in it, empty if there are none.

    Of a folder of plug-ins all travels, the weights and images beside the files too; of a single file, the file alone.

    Raises:
        UserError: the plug-ins are too large to travel.
    """
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=COMPILED)
    if plugin_dir is None:
        return ""
    taken = [plugin_dir] if plugin_dir.is_file() else [path for path in plugin_dir.rglob("*") if path.is_file()]
    if (total := sum(path.stat().st_size for path in taken)) > MOST_BYTES:
        sizes = f"{total / 2**20:.0f} MiB, and {MOST_BYTES / 2**20:.0f} MiB travel to a cluster"
        raise UserError(f"--plugin-dir {plugin_dir} holds {sizes}; keep data in --data-dir")
    if plugin_dir.is_file():
        (folder / PLUGINS).mkdir()
        shutil.copy(plugin_dir, folder / PLUGINS)
        return f"{PLUGINS}/{plugin_dir.name}"
    shutil.copytree(plugin_dir, folder / PLUGINS, ignore=COMPILED)
    return PLUGINS
