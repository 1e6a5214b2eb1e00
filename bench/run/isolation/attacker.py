"""The process of one attack: it receives an attempt, runs the attack, and sends the result."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from bench.run.attempt import Attempt, perform
from bench.run.failures import failure_of
from bench.run.isolation.messages import found_message, receive, send
from bench.run.isolation.reading import Readings

if TYPE_CHECKING:
    from torch import Tensor, nn

PROGRESS_SECONDS = 0.1


class RunConnection:
    """Talks with the process of the run over one connection; several threads may.

    Args:
        connection: to the process that holds the victim.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._sent = 0.0

    def progress(self, step: int, steps: int, **figures: float) -> None:
        """Tell where the attack is, ten times a second at most."""
        now = time.monotonic()
        if now - self._sent >= PROGRESS_SECONDS or step >= steps:
            self._sent = now
            plain = {name: float(value) for name, value in figures.items()}
            self.tell({"what": "progress", "step": int(step), "steps": int(steps), "figures": plain})

    def answer(self, queries: Tensor) -> Tensor:
        """Return what the victim answers to inputs (m, C, H, W), on their device.

        Raises:
            RuntimeError: it cannot answer them.
        """
        with self._lock:
            send(self.connection, {"what": "query"}, {"queries": queries})
            header, tensors = receive(self.connection)
        if "trouble" in header:
            raise RuntimeError(header["trouble"])
        return tensors["answers"].to(queries.device)

    def tell(self, header: dict[str, object], tensors: dict[str, Tensor] | None = None) -> None:
        """Send a message."""
        with self._lock:
            send(self.connection, header, tensors)


def attack(connection: Connection, plugin_dir: Path | None, threads: int) -> None:
    """Receive an attempt, run it, and send its result or its failure.

    Args:
        connection: to the process that holds the victim.
        plugin_dir: folder of plug-ins, the attack's own among them.
        threads: that it may use.
    """
    import torch

    from bench.plan import registry

    torch.set_num_threads(threads)
    attempt: Attempt = pickle.loads(connection.recv_bytes())
    run = RunConnection(connection)
    try:
        kind = registry.attacks(plugin_dir).match([attempt.attack])[0]
        readings = Readings(attempt.guarded)
        network = _network(attempt, plugin_dir)
        run.tell({"what": "begun"})
        readings.arm()
        attacked = perform(attempt, kind, network, run.answer, run.progress)
        header, tensors = found_message(attacked)
        sys.stdout.flush()  # who is told of the end may end this process
        run.tell({**header, "harness_flags": [*attacked.flags, *readings.flags]}, tensors)
    except BaseException as error:  # whatever an attack raises is told, and is one row
        failure = failure_of(error)
        told = {"status": failure.status.value, "reason": failure.reason, "details": failure.details}
        run.tell({"what": "failed", **told})


def _network(attempt: Attempt, plugin_dir: Path | None) -> Callable[[], nn.Module] | None:
    """Return a function that builds the victim's network; None if the architecture was not disclosed."""
    from attacks.base import Architecture, Knowledge
    from bench.plan import registry
    from bench.run.disclosure import network_from
    from victims.spec import NetworkSpec, Released

    told = attempt.facts.get(Knowledge.ARCHITECTURE)
    if not isinstance(told, Architecture) or not isinstance(told.spec, NetworkSpec) or told.spec.kind == "kernel":
        return None
    architecture, own = told.spec, None
    if attempt.own:
        training = registry.victims(plugin_dir).match([attempt.own])[0].training
        own = training.network if isinstance(training, Released) else None
    return lambda: network_from(architecture, attempt.shape, own)
