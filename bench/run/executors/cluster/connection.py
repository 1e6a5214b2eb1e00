"""The way into a cluster: its address, and the source that travels there."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from pathlib import Path

import ray
from ray.exceptions import RayError

from bench.terminal.text import one_line
from victims.errors import UserError

ANSWER_SECONDS = 5.0
HERE = ("auto", "local")
"""Addresses that Ray finds by itself."""
NAMED = "RAY_ADDRESS"


def connect(address: str, source: Path) -> None:
    """Join a cluster and send it the source; if no address is known, begin a cluster on this machine.

    Args:
        address: host:port or ray://host:port; empty for the one that RAY_ADDRESS names, or else a new one.
        source: the folder from which workers import the suite.

    Raises:
        UserError: nothing answers, or what answers is of another version of Ray or Python.
    """
    # without an address Ray would look for the last cluster of this machine, and wait for one that has gone
    chosen = address or os.environ.get(NAMED) or "local"
    told = f"--ray-address {chosen}" if address else f"{NAMED} {chosen}" if NAMED in os.environ else "Ray"
    if chosen not in HERE:
        _require_answer(chosen, told)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            chosen,
            runtime_env={"working_dir": str(source)},
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=False if chosen == "local" else None,
        )
    except (ConnectionError, ImportError, RuntimeError, ValueError, RayError) as error:
        raise UserError(f"{told}: {one_line(str(error))}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own would end the process, and no table be written


def _require_answer(address: str, told: str) -> None:
    """Check that an address answers; Ray itself would wait a minute.

    Args:
        address: the address.
        told: how the user is told of it.

    Raises:
        UserError: nothing answers, or this is no address.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except (ValueError, OverflowError):
        raise UserError(f"{told} is no address; write host:port or ray://host:port") from None
    except OSError as error:
        raise UserError(f"{told}: nothing answers ({error.strerror or error})") from None
