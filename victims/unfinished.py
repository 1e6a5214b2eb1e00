"""The state of a training that is not finished, in a file, and the seconds that all its parts have taken."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from victims.files import atomic

CHECKPOINT_SECONDS = 30.0
_SECONDS = "seconds"
"""The key, among a file's metadata, of the seconds that the training had taken."""


class Unfinished:
    """The checkpoint of a training, written about every `CHECKPOINT_SECONDS`, and the training's clock.

    The clock runs from here on. After a resume it counts the seconds before the checkpoint too: an interruption makes
    a training no cheaper.

    Args:
        path: the file, which whoever trains removes once the result is stored; None for no checkpoints.
        source: hash of the code that trains.
    """

    def __init__(self, path: Path | None = None, source: str = "") -> None:
        self.path, self.source = path, source
        self._earlier = 0.0
        self._begun = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """What the training has taken so far, without what an interruption lost."""
        return self._earlier + time.monotonic() - self._begun

    def load(self) -> dict[str, Tensor]:
        """Return the last state, empty if there is none; a torn file is removed."""
        if self.path is None or not self.path.exists():
            return {}
        try:
            with safe_open(self.path, "pt") as file:
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
                self._earlier = float((file.metadata() or {}).get(_SECONDS, 0.0))
        except (SafetensorError, ValueError):
            self.discard()
            return {}
        return state

    def discard(self) -> None:
        """Remove a state that cannot be gone on from, and forget its seconds."""
        self._earlier = 0.0
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old enough for another."""
        return self.path is not None and time.monotonic() - self._saved > CHECKPOINT_SECONDS

    def save(self, state: Mapping[str, Tensor]) -> None:
        """Keep a state in the place of the last one; nothing without a path.

        Raises:
            OSError: the folder cannot be written.
        """
        if self.path is None:
            return
        with atomic(self.path) as path:
            tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
            save_file(tensors, path, {_SECONDS: repr(self.seconds)})
        self._saved = time.monotonic()
