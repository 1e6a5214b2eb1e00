"""Runs on a Ray cluster: on this machine, or on all that see the results, data and cache folders at the same paths.

A victim is trained once whoever needs it first: the others wait for the lock of its folder in the cache.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from bench.plan.registry import ROOT
from bench.run.executors.processes import Limits, Processes
from bench.run.executors.task import Task, work
from bench.run.failures import Failure
from bench.run.runner import Outcome
from bench.run.setup import Setup
from bench.store.records import Status
from bench.terminal.progress import Reporter
from victims.errors import UserError

RETRIES = 1
"""How often a run is begun again whose worker was lost."""
ANSWER_SECONDS = 5.0


class Ray:
    """Executes tasks on a cluster, as many at a time as it has processors, or GPUs where they need one.

    Args:
        reporter: told what is recorded here.
        address: of the cluster, host:port or ray://host:port; empty for the one that RAY_ADDRESS names, or else a new
            one on this machine.

    Raises:
        UserError: nothing answers at the address.
    """

    def __init__(self, reporter: Reporter, address: str) -> None:
        self.reporter = reporter
        if address not in ("", "auto", "local"):
            _require_answer(address)
        # The source that the tasks' ids were made from; on other machines, what is installed there.
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}}
        try:
            ray.init(address or None, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"--ray-address {address}: {str(error).splitlines()[0]}") from None

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end.

        Raises:
            UserError: the tasks want a GPU, and the cluster has none.
        """
        waiting = {self._submit(task): task for task in tasks}
        try:
            while waiting:
                done, _ = ray.wait(list(waiting))
                yield self._outcome(done[0], waiting.pop(done[0]))
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            ray.shutdown()

    def _submit(self, task: Task) -> ray.ObjectRef[Outcome]:
        gpus = int(task.setup.device.startswith("cuda"))
        if gpus and not ray.cluster_resources().get("GPU"):
            raise UserError(f"--device {task.setup.device}: the Ray cluster has no GPU; use --device cpu")
        reference: ray.ObjectRef[Outcome] = _work.options(num_gpus=gpus).remote(
            replace(task, setup=_absolute(task.setup))
        )
        return reference

    def _outcome(self, reference: ray.ObjectRef[Outcome], task: Task) -> Outcome:
        try:
            outcome: Outcome = ray.get(reference)
        except RayTaskError as error:  # the suite is not what it is here, or cannot write there
            raise UserError(f"{task.run_id} on the cluster: {str(error).strip().splitlines()[-1]}") from None
        except RayError as error:
            status = Status.OOM if isinstance(error, OutOfMemoryError) else Status.ERROR
            reason = f"its worker was lost, {1 + RETRIES} times ({type(error).__name__})"
            failure = Failure(status, reason, nulls=False)
            outcome = work(replace(task, failure=failure), self.reporter)
        return outcome


def _absolute(setup: Setup) -> Setup:
    """Return a setup whose folders are found from anywhere."""
    data, plugins = (path and path.resolve() for path in (setup.data_dir, setup.plugin_dir))
    return replace(setup, results_dir=setup.results_dir.resolve(), data_dir=data, plugin_dir=plugins)


class _Silent:
    """Shows nothing: a worker has no terminal."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float], job: str = "") -> None:
        """Show nothing."""

    def notice(self, text: str) -> None:
        """Say nothing."""

    def finished(self, job: str) -> None:
        """Show nothing."""


@ray.remote(num_cpus=1, max_retries=RETRIES)
def _work(task: Task) -> Outcome:
    """Do a task in a process of its own, beside the worker: its attack is out of reach of the training images."""
    (outcome,) = Processes(_Silent(), 1, Limits.shared(1, None)).execute([task])
    return outcome


def _require_answer(address: str) -> None:
    """Check that an address answers; Ray itself would wait a minute.

    Raises:
        UserError: nothing answers, or this is no address.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except ValueError:
        raise UserError(f"--ray-address {address!r} is no address; write host:port or ray://host:port") from None
    except OSError as error:
        raise UserError(f"--ray-address {address}: nothing answers ({error.strerror or error})") from None
