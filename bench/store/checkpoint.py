"""The checkpoint of an attack: its state in a file that is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

from attacks.context import Checkpoint


class CheckpointFile:
    """Keeps the last checkpoint of one run in a file; `attacks.context.Checkpoints` says what for.

    Args:
        path: the file; who uses it has claimed the run.
        source: hash of the attack's source; a state that another source left is not loaded.
        weights: hash of the victim's weights, likewise.

    Attributes:
        trouble: why the last checkpoint could not be kept, empty if it was; the attack goes on all the same.
    """

    def __init__(self, path: Path, source: str, weights: str) -> None:
        self.path, self.made_of = path, {"source": source, "weights": weights}
        self.trouble = ""

    def load(self) -> Checkpoint | None:
        """Return the last checkpoint of this source and these weights, None if there is none that can be read."""
        from bench.store.tensors import DamagedError, read_tensors

        try:
            state, metadata = read_tensors(self.path)
            if any(metadata[name] != value for name, value in self.made_of.items()):
                return None
            return Checkpoint(state, json.loads(metadata["trace"]), float(metadata["seconds"]))
        except (OSError, DamagedError, ValueError, KeyError, TypeError):
            return None

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint in the place of the last one."""
        from bench.store.tensors import write_tensors

        metadata = {
            **self.made_of,
            "trace": json.dumps(checkpoint.trace),
            "seconds": repr(checkpoint.seconds),
        }
        try:
            write_tensors(self.path, checkpoint.state, metadata)
            self.trouble = ""
        except OSError as error:
            self.trouble = error.strerror or type(error).__name__
