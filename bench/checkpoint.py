"""The checkpoint of an attack: its state in a file that is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

from attacks.context import Checkpoint
from victims.files import atomic


class CheckpointFile:
    """Keeps the last checkpoint of one run in a file; `attacks.context.Checkpoints` says what for.

    Args:
        path: the file; who uses it has claimed the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Checkpoint | None:
        """Return the last checkpoint, None if there is none that can be read."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as stored:
                state = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 it is no mapping
                metadata = stored.metadata()
            return Checkpoint(state, json.loads(metadata["trace"]), float(metadata["seconds"]))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            return None

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint in the place of the last one."""
        from safetensors.torch import save_file

        tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.state.items()}
        metadata = {"trace": json.dumps(checkpoint.trace), "seconds": repr(checkpoint.seconds)}
        with atomic(self.path) as temporary:
            save_file(tensors, temporary, metadata)

    def discard(self) -> None:
        """Remove it: the run is stored."""
        self.path.unlink(missing_ok=True)
