"""What a node lacks to do the runs. This file travels by value: it needs nothing there but Python's own library."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator

LISTS_BROKEN = """
import json, sys
from pathlib import Path
from bench.plan import registry
folder = Path(sys.argv[1])
broken = registry.broken(registry.attacks(folder), registry.victims(folder))
print(json.dumps({Path(entry.origin).name: entry.reason for entry in broken}))
"""
ROOM = 2**20
"""Bytes that the temporary folder must take."""


def versions() -> dict[str, str]:
    """Return the versions that decide numbers, of Python and torch; builds of one version count as the same."""
    torch = importlib.metadata.version("torch").partition("+")[0]
    return {"Python": ".".join(platform.python_version_tuple()[:2]), "torch": torch}


def lacking(wanted: dict[str, str], modules: tuple[str, ...], plugins: str, broken: frozenset[str]) -> str:
    """Return in one line what this node lacks, empty if nothing.

    Args:
        wanted: versions, as `versions` returns them.
        modules: names of modules that must be there to be imported.
        plugins: place of the plug-ins below the working directory, empty if there are none.
        broken: names of the plug-in files that do not import on the driver's machine either.
    """
    return next(_reasons(wanted, modules, plugins, broken), "")


def _reasons(wanted: dict[str, str], modules: tuple[str, ...], plugins: str, broken: frozenset[str]) -> Iterator[str]:
    found = {name: importlib.util.find_spec(name) for name in modules}
    absent = [name for name, spec in found.items() if spec is None or spec.origin is None]  # or an empty folder
    if absent:
        yield f"it has no {', '.join(absent)}; install what pyproject.toml names"
    for name, version in versions().items():
        if version != wanted[name]:
            yield f"{name} {version} is there, {wanted[name]} here; install the same"
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(ROOM))
            file.flush()
    except OSError as error:
        yield f"its temporary folder cannot be written ({error.strerror}); name another there with TMPDIR"
    if plugins:
        yield from _broken(plugins, broken)


def _broken(plugins: str, known: frozenset[str]) -> Iterator[str]:
    """Yield the plug-ins that do not import on this node, tried in a process of their own, without the `known` ones."""
    paths = [str(os.getcwd()), *filter(None, [os.environ.get("PYTHONPATH")])]  # noqa: PTH109
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", LISTS_BROKEN, plugins]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"the suite does not start there ({(done.stderr.splitlines() or ['no reason given'])[-1]})"
        return
    for name, reason in json.loads(done.stdout.splitlines()[-1]).items():
        if name not in known:
            hint = "what it needs must lie in --plugin-dir, or be installed there"
            yield f"the plug-in {name} does not import there ({reason}); {hint}"
