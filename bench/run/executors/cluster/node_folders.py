"""The folders of a plan on a node: what its runs read and write there, and what is laid there for them once."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import ray

from bench.run.executors.cluster.bundles import FileBundle, stamp, unpack
from bench.run.setup import Setup
from victims.files import exclusive

OWN_GPUS = "_VISIBLE_DEVICES"
"""The end of the name of a variable by which Ray tells a run which GPUs are its own."""


@dataclass(frozen=True)
class SharedFile:
    """A file of the driver's machine, of data or of weights.

    Attributes:
        path: where it is there.
        stamp: its size and time: a file of the same path and stamp is the same file, in a shared folder.
        content: the reference of a bundle that holds it, by its name.
    """

    path: Path
    stamp: tuple[int, int]
    content: ray.ObjectRef[FileBundle]

    def shared(self) -> bool:
        """Say whether this machine sees the same file."""
        return self.path.is_file() and stamp(self.path) == self.stamp


@dataclass(frozen=True)
class TaskInputs:
    """What travels with a task. References are fetched where they are missing, and not before.

    Attributes:
        token: a file in the driver's cache: a machine that sees it shares the cache.
        plugins: place of the plug-ins in the source that travelled, empty if there are none.
        data: files of the data folder.
        weights: the file that BENCH_LPIPS_WEIGHTS names, None if there is none.
        cache: bundles for the cache, laid there once a node.
        own: the run's own parts of the results folder, such as a checkpoint.
        own_cache: the run's own parts of the cache.
        returned: globs of what comes back from the results folder.
        returned_cache: globs of what comes back from the cache.
    """

    token: Path
    plugins: str
    data: tuple[SharedFile, ...] = ()
    weights: SharedFile | None = None
    cache: tuple[ray.ObjectRef[FileBundle], ...] = ()
    own: FileBundle = field(default_factory=dict)
    own_cache: FileBundle = field(default_factory=dict)
    returned: tuple[str, ...] = ()
    returned_cache: tuple[str, ...] = ()


class NodeFolders:
    """The folder of a plan on a node, below the system's temporary folder.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results, self.cache, self.data = root / "results", root / "cache", root / "data"

    @classmethod
    def here(cls) -> NodeFolders:
        """Return the folders, on this node, of the plan whose task is being executed."""
        context = ray.get_runtime_context()
        name = f"{context.get_node_id()[:12]}-{context.get_job_id()}"
        return cls(Path(tempfile.gettempdir()) / "reconstruction-bench" / name)

    def settle(self, setup: Setup, inputs: TaskInputs) -> Setup:
        """Lay down what a task needs, and return its setup with the folders of this machine.

        Raises:
            OSError: the folder cannot be written.
        """
        with exclusive(self.root / "lock"):
            shared = inputs.token.exists()
            cache = inputs.token.parent if shared else self.cache
            for reference in () if shared else inputs.cache:
                self._once(reference, cache)
            unpack({} if shared else inputs.own_cache, cache)
            unpack(inputs.own, self.results)
            data = setup.data_dir
            if not all(file.shared() for file in inputs.data):
                data = self.data
                for file in inputs.data:
                    self._once(file.content, data)
            environment = dict(setup.environment) | {"BENCH_CACHE_DIR": str(cache)}
            environment.pop("BENCH_DATA_DIR", None)
            environment |= {name: value for name, value in os.environ.items() if name.endswith(OWN_GPUS)}
            if inputs.weights is not None and not inputs.weights.shared():
                self._once(inputs.weights.content, self.data)
                environment["BENCH_LPIPS_WEIGHTS"] = str(self.data / inputs.weights.path.name)
        return replace(
            setup,
            results_dir=self.results,
            data_dir=data,
            plugin_dir=Path.cwd() / inputs.plugins if inputs.plugins else None,
            device=setup.device.partition(":")[0],
            environment=tuple(environment.items()),
        )

    def _once(self, reference: ray.ObjectRef[FileBundle], folder: Path) -> None:
        """Lay a bundle into a folder, unless that was done on this node."""
        mark = self.root / "laid" / reference.hex()
        if not mark.exists():
            bundle: FileBundle = ray.get(reference)
            unpack(bundle, folder)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
