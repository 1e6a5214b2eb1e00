"""What a worker of the cluster does: a run, or a training that runs wait for, in a process of its own beside it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import ray

from bench.run.executors import server
from bench.run.executors.child import PipeReporter, begin
from bench.run.executors.cluster.bundles import FileBundle, pack
from bench.run.executors.cluster.mailbox import MailboxReporter
from bench.run.executors.cluster.needs import Preparation, checkpoint_of_run
from bench.run.executors.cluster.node_folders import NodeFolders, TaskInputs
from bench.run.executors.cluster.nodes import require_able
from bench.run.executors.processes import LEAVE_SECONDS, JobReporter, Limits, Processes, log_of
from bench.run.executors.task import Task
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.file_names import RUNS
from bench.store.folders import Store


@dataclass(frozen=True)
class Returned:
    """What a run left on its node.

    Attributes:
        outcome: how it ended.
        results: its files of the results folder.
        cache: files of the cache that others may need too.
        seconds: how long its process took.
        unfinished: whether it kept its checkpoint there, to be tried again from.
    """

    outcome: Outcome
    results: FileBundle
    cache: FileBundle
    seconds: float
    unfinished: bool = False


@ray.remote(max_retries=0)
def carry_out(task: Task, inputs: TaskInputs, mailbox: Any, limits: Limits, versions: dict[str, str]) -> Returned:
    """Do a run, and return it with its files."""
    require_able(versions)
    _forget_program()
    folders, reporter = NodeFolders.here(), MailboxReporter(mailbox, task.run_id)
    here = replace(task, setup=folders.settle(task.setup, inputs))
    began = time.monotonic()
    try:
        with reporter.checkpoints(folders.results, checkpoint_of_run(task.run_id)):
            (outcome,) = Processes(reporter, 1, _limited(limits)).execute([here])
        seconds = time.monotonic() - began
        results = pack(folders.results, inputs.returned)
        unfinished = Store(folders.results).checkpoint(task.run_id).exists()
    finally:
        shutil.rmtree(folders.results / RUNS / task.run_id, ignore_errors=True)
    cache = {} if inputs.token.exists() else _changed(pack(folders.cache, inputs.returned_cache), inputs.own_cache)
    return Returned(outcome, results, cache, seconds, unfinished)


@ray.remote(max_retries=0)
def prepare(
    preparation: Preparation, setup: Setup, inputs: TaskInputs, mailbox: Any, limits: Limits, versions: dict[str, str]
) -> FileBundle:
    """Make a training, and return what it left in the cache; what fails is told by the runs that need it."""
    require_able(versions)
    _forget_program()
    folders, reporter = NodeFolders.here(), MailboxReporter(mailbox, str(preparation))
    here = folders.settle(setup, inputs)
    with reporter.checkpoints(folders.cache, tuple(f"{folder}checkpoint-*" for folder in _folders(inputs))):
        _train(preparation, here, reporter, _limited(limits).threads)
    return {} if inputs.token.exists() else pack(folders.cache, inputs.returned_cache)


@ray.remote(num_cpus=0, max_retries=0)
def leave() -> None:
    """Remove the folder of the plan from the node."""
    shutil.rmtree(NodeFolders.here().root, ignore_errors=True)


def _forget_program() -> None:
    """Keep the processes of runs from importing Ray's worker program, as multiprocessing has them do by its file."""
    vars(sys.modules["__main__"]).pop("__file__", None)


def _limited(limits: Limits) -> Limits:
    """Return limits whose memory is what is free here, where none is given."""
    return limits if limits.memory else Limits(limits.threads, Limits.shared(1, None).memory)


def _changed(bundle: FileBundle, before: FileBundle) -> FileBundle:
    return {name: content for name, content in bundle.items() if before.get(name) != content}


def _folders(inputs: TaskInputs) -> list[str]:
    return [pattern.removesuffix("*") for pattern in inputs.returned_cache if pattern.startswith("victims/")]


def _train(preparation: Preparation, setup: Setup, reporter: JobReporter, threads: int) -> None:
    """Make a training in a process of its own, and pass on what it reports."""
    context = server.start(threads)
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryFile() as output:
        with sender, log_of(output) as log:
            process = context.Process(target=_main, args=(preparation, setup, sender, log, threads))
            process.start()
        try:
            with suppress(EOFError, OSError):
                while True:
                    what, arguments = receiver.recv()
                    getattr(reporter, what)(*arguments)
        finally:
            process.join(LEAVE_SECONDS)
            process.kill()


def _main(preparation: Preparation, setup: Setup, connection: Connection, output: Connection, threads: int) -> None:
    begin(output, threads)
    from bench.plan import registry

    os.environ.update(setup.environment)
    session = Session(setup, PipeReporter(connection))
    preparation.make(session, registry.victims(setup.plugin_dir))
