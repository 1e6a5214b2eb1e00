"""Messages between the process of an attack and that of its run: JSON, and tensors as safetensors."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from attacks.base import Reconstruction
from bench.run.artifacts import named_tensors
from bench.run.attempt import Attacked
from bench.store.tensors import plain
from bench.terminal.text import one_line

if TYPE_CHECKING:
    from torch import Tensor

Message = tuple[dict[str, Any], "dict[str, Tensor]"]


class GarbledError(Exception):
    """The bytes that came are no message."""


def send(connection: Connection, header: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> None:
    """Send a JSON-able header and tensors by name.

    Raises:
        OSError: nobody listens any more.
    """
    told = json.dumps(header, default=float).encode()
    stored = save(plain(tensors or {}))
    connection.send_bytes(told)  # all that can raise is done before, so that no half of a message is sent
    connection.send_bytes(stored)


def receive(connection: Connection) -> Message:
    """Return the next message.

    Raises:
        EOFError: there will be none.
        OSError: likewise, in the middle of one.
        GarbledError: it is none.
    """
    header, tensors = connection.recv_bytes(), connection.recv_bytes()
    try:
        told = json.loads(header)
        if not isinstance(told, dict):
            raise GarbledError("it is no object")
        return told, load(tensors)
    except (ValueError, RecursionError, SafetensorError) as error:
        raise GarbledError(one_line(str(error))) from None


def found_message(attacked: Attacked) -> Message:
    """Return a result as a message."""
    reconstruction = attacked.reconstruction
    header = {
        "what": "found",
        "resolved": reconstruction.resolved,
        "loss": float(reconstruction.loss),
        "grad_evals": int(reconstruction.grad_evals),
        "flags": [str(flag) for flag in reconstruction.flags],
        "trace": attacked.trace,
        "seconds": attacked.seconds,
        "peak_mem_mb": attacked.peak_mem_mb,
        "harness_flags": list(attacked.flags),
    }
    return header, named_tensors(reconstruction)


def attacked_from(message: Message) -> Attacked:
    """Return the result that a message holds.

    Raises:
        GarbledError: it holds none.
    """
    header, tensors = message
    try:
        reconstruction = Reconstruction(
            **tensors,
            resolved=dict(header["resolved"]),
            loss=float(header["loss"]),
            grad_evals=int(header["grad_evals"]),
            flags=tuple(map(str, header["flags"])),
        )
        own = tuple(map(str, header["harness_flags"]))
        return Attacked(
            reconstruction, list(header["trace"]), float(header["seconds"]), float(header["peak_mem_mb"]), own
        )
    except (KeyError, TypeError, ValueError) as error:
        raise GarbledError(f"it does not tell what was found ({error!r})") from None
