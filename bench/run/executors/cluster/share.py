"""What a run takes of a node, and how many runs the nodes have room for."""

from __future__ import annotations

from typing import Any, NamedTuple

from bench.run.executors.processes import Limits
from victims.errors import UserError


class Share(NamedTuple):
    """What a run takes of a node: CPUs and GPUs as Ray counts them, and bytes of memory, 0 for none in particular."""

    cpus: float
    gpus: float
    memory: int

    @property
    def options(self) -> dict[str, Any]:
        """The options of a remote function that takes this share."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, **({"memory": self.memory} if self.memory else {})}

    @property
    def limits(self) -> Limits:
        """The limits of its processes; memory 0 stands for what is free on the node."""
        return Limits(max(1, int(self.cpus)), self.memory)

    @property
    def _wanted(self) -> dict[str, float]:
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        return {name: amount for name, amount in wanted.items() if amount}

    def _room_on(self, node: dict[str, Any]) -> int:
        """Return how many such shares a node has; Ray gives a share on one node, and GPUs in whole or in parts."""
        return int(min(node["Resources"].get(name, 0) / amount for name, amount in self._wanted.items()))

    def room(self, nodes: list[dict[str, Any]]) -> int:
        """Return how many runs nodes, as Ray describes them, have room for at a time."""
        return sum(map(self._room_on, nodes))

    def require_room(self, nodes: list[dict[str, Any]]) -> None:
        """Check that some node has room for a run at all.

        Raises:
            UserError: none has.
        """
        if not self.room(nodes):
            gib = f" and {self.memory / 2**30:.3g} GiB of memory" if self.memory else ""
            wanted = f"{self.cpus:g} CPUs{f', {self.gpus:g} GPUs' if self.gpus else ''}{gib}"
            raise UserError(f"no node of the Ray cluster has {wanted} for a run; see --cpus, --gpus and --memory")
