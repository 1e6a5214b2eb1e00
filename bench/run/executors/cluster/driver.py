"""The executor on a Ray cluster: what is to be done when, where a lost run goes, and what the user sees of it."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayError, RayTaskError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from attacks.base import Resources
from bench.plan import registry
from bench.plan.run import Run
from bench.run.executors.cluster import needs, worker
from bench.run.executors.cluster.connection import connect
from bench.run.executors.cluster.mailbox import Mailbox, News
from bench.run.executors.cluster.needs import Preparation
from bench.run.executors.cluster.nodes import Nodes, on_every_node
from bench.run.executors.cluster.probe import versions
from bench.run.executors.cluster.share import Share
from bench.run.executors.cluster.source import gather
from bench.run.executors.cluster.staging import FileStaging
from bench.run.executors.processes import JobReporter
from bench.run.executors.task import Task, work
from bench.run.failures import Failure
from bench.run.nulls.kinds import twins_of
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.records import Status
from bench.terminal.progress import plural
from bench.terminal.text import one_line
from victims.errors import UserError

RETRIES = 1
"""How often a run is begun again whose worker was lost."""
OF_NODES = RayTaskError, RuntimeEnvSetupError
"""Errors of a living node, which the next runs there may meet too."""
POLL_SECONDS = 0.5
LEAVE_SECONDS = 5.0
SPARE = 2
"""So many more runs are sent than there is room for: a worker that is done finds the next one waiting."""
PLAN = "runs on the cluster"
"""What the progress of the whole plan is called."""
Cell = tuple[str, str, str, int]
"""Attack, parameters, victim and its retraining; seeds of one cell share the attacked twins."""
Work = Task | Preparation
Need = Cell | Preparation


class Ray:
    """Executes tasks on a cluster whose machines may share folders and need not; this one writes the results.

    A victim is trained once, before the runs on it, and so are null controls that attack a twin: the other seeds of the
    attack wait for the first. What waits holds no worker. A run whose worker is lost is begun once more, from the last
    checkpoint that came back.

    Args:
        reporter: told how they go.
        setup: what all tasks share.

    Raises:
        UserError: nothing answers at the address, or a node cannot do the runs.
    """

    def __init__(self, reporter: JobReporter, setup: Setup) -> None:
        assert setup.cluster is not None
        self.reporter, self.setup, self.cluster = reporter, setup, setup.cluster
        self._source = TemporaryDirectory(prefix="reconstruction-bench-")
        plugins = gather(Path(self._source.name), setup.plugin_dir)
        connect(self.cluster.address, Path(self._source.name))
        self._attacks, self._victims = registry.attacks(setup.plugin_dir), registry.victims(setup.plugin_dir)
        broken = frozenset(Path(entry.origin).name for entry in registry.broken(self._attacks, self._victims))
        try:
            self._nodes = Nodes(plugins, broken, reporter.notice)
        except UserError:
            ray.shutdown()
            raise
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._mailbox: Any = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
        self._news = self._ask_mailbox()
        self._staging = FileStaging(setup, Session(setup, reporter), self._victims, plugins)
        self._queue: deque[Work] = deque()
        self._waiting: dict[Need, list[Task]] = defaultdict(list)
        self._running: dict[ray.ObjectRef[Any], Work] = {}
        self._begun: set[Preparation] = set()
        self._settled: set[Need] = set()
        self._leading: dict[Cell, str] = {}
        self._losses: dict[Work, int] = defaultdict(int)
        self._held: list[Work] = []
        self._seconds = 0.0

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end.

        Raises:
            UserError: no node of the cluster has room for a run.
        """
        plan, began = list(tasks), time.monotonic()
        self._queue.extend(plan)
        ended, total = 0, len(plan)
        try:
            for attack in self._attacks.match(dict.fromkeys(task.attack for task in plan)):
                self._share(attack.resources).require_room(self._nodes.able())
            while self._queue or self._running or self._held:
                self._nodes.watch()
                self._fill()
                done, _ = ray.wait([*self._running, *self._nodes.asked], timeout=POLL_SECONDS)
                self._tell_news()
                for reference in self._running.keys() & set(done):
                    outcome = self._ended(reference, self._running.pop(reference))
                    if outcome is not None:
                        ended += 1
                        self.reporter.progress(PLAN, ended, total, {}, PLAN)
                        yield outcome
            moved = f"{self._staging.moved / 2**20:.1f} MiB of files moved"
            spent = f"took {self._seconds:.0f} s of its nodes in {time.monotonic() - began:.0f} s"
            self.reporter.notice(f"on the cluster {plural(ended, 'run')} {spent}; {moved}")
        finally:
            self.reporter.finished(PLAN)
            self._leave()

    def _fill(self) -> None:
        """Send as much as there is room for; what waits for a training, or for another seed, is set aside."""
        if not self._nodes.asked:
            self._queue.extendleft(self._held)
            self._held.clear()
        limit = self.cluster.jobs or self._share(Resources()).room(self._nodes.able()) + SPARE
        while self._queue and len(self._running) < limit:
            what = self._queue.popleft()
            if isinstance(what, Preparation):
                self._prepare(what)
                continue
            run = what.run(self._attacks, self._victims)
            known = self._staging.session.definition(run.victim)  # without its data a run goes out at once, to tell it
            wanted = needs.preparations(run, self.setup.twins) if known else []
            if (missing := self._missing(what, run, wanted)) is not None:
                self._waiting[missing].append(what)
                continue
            inputs = self._staging.for_run(run, what.run_id, wanted)
            share = self._share(run.attack.resources)
            carry_out = worker.carry_out.options(**share.options, **self._nodes.options)
            reference = carry_out.remote(what, inputs, self._mailbox, share.limits, versions())
            self._running[reference] = what

    def _missing(self, task: Task, run: Run, wanted: list[Preparation]) -> Need | None:
        """Return what a task waits for, None if nothing; put trainings that nobody has begun in front of the queue."""
        missing = [one for one in wanted if not self._made(one)]
        self._queue.extendleft(one for one in reversed(missing) if one not in self._begun)
        self._begun.update(missing)
        if missing:
            return missing[0]
        if self.setup.twins and twins_of(run):
            cell = _cell(task)
            if cell not in self._settled and self._leading.setdefault(cell, task.run_id) != task.run_id:
                return cell
        return None

    def _made(self, preparation: Preparation) -> bool:
        """Say whether a training is in this machine's cache, or was tried."""
        if preparation not in self._settled and preparation.made(self._staging.session, self._victims):
            self._settled.add(preparation)
        return preparation in self._settled

    def _prepare(self, preparation: Preparation) -> None:
        share = self._share(Resources())
        inputs = self._staging.for_training(preparation)
        prepare = worker.prepare.options(**share.options, **self._nodes.options)
        reference = prepare.remote(preparation, self.setup, inputs, self._mailbox, share.limits, versions())
        self._running[reference] = preparation

    def _ended(self, reference: ray.ObjectRef[Any], what: Work) -> Outcome | None:
        """Return how a run ended; None of a training, and of a run that is begun again."""
        self.reporter.finished(_job(what))
        try:
            result = ray.get(reference)
        except RayError as error:
            return self._lost(what, error)
        if isinstance(what, Preparation):
            self._staging.trained(what, result)
            self._settle(what)
            return None
        self._settle(_cell(what))
        self._seconds += result.seconds
        if result.outcome.record.run_id != what.run_id:
            reason = "its victim, its data or its attack is another one in the cluster; paths of images do not travel"
            return self._failed(what, Failure(Status.ERROR, reason, nulls=False))
        return self._staging.record(result, self.reporter)

    def _lost(self, what: Work, error: RayError) -> Outcome | None:
        """Begin work again that its worker lost, or record the loss and return that; None if no row comes of it."""
        self._losses[what] += 1
        cause = error.cause if isinstance(error, RayTaskError) else error
        if isinstance(cause, ObjectLostError):
            self._staging.forget()
        if self._losses[what] <= RETRIES and isinstance(error, OF_NODES):
            self._nodes.examine()
            self._held.append(what)
            return None
        if self._losses[what] <= RETRIES:
            self._queue.appendleft(what)
            return None
        if isinstance(what, Preparation):  # its runs will tell
            self._settle(what)
            return None
        self._settle(_cell(what))
        status = Status.OOM if isinstance(error, OutOfMemoryError) else Status.ERROR
        lost, told = "its worker was lost", type(error).__name__
        if isinstance(error, OF_NODES):
            lost, told = "its node failed", str(cause)
        reason = f"{lost}, {self._losses[what]} times ({one_line(told)})"
        return self._failed(what, Failure(status, reason, nulls=False))

    def _failed(self, task: Task, failure: Failure) -> Outcome:
        return work(replace(task, failure=failure), self.reporter)

    def _settle(self, need: Need) -> None:
        """Put what waited for a training, or for another seed, in front of all else."""
        self._settled.add(need)
        self._queue.extendleft(reversed(self._waiting.pop(need, [])))

    def _tell_news(self) -> None:
        """Tell what the mailbox has answered since it was asked, and ask again; nothing waits for it."""
        if ray.wait([self._news], timeout=0)[0]:
            with suppress(RayError):  # it is begun again, and what it held is lost
                self._tell(ray.get(self._news))
            self._news = self._ask_mailbox()

    def _ask_mailbox(self) -> ray.ObjectRef[News]:
        reference: ray.ObjectRef[News] = self._mailbox.collect.remote()
        return reference

    def _tell(self, news: News) -> None:
        """Show the news of work that is still running, and keep its checkpoints."""
        running = {_job(what) for what in self._running.values()}
        for job in running & news.progress.keys():
            self.reporter.progress(*news.progress[job], job)
        for notice in news.notices:
            self.reporter.notice(notice)
        for job in running & news.checkpoints.keys():
            self._staging.keep(news.checkpoints[job])

    def _share(self, resources: Resources) -> Share:
        """Return what a run takes of a node: what the user says, or else its attack."""
        on_gpu = self.setup.device.startswith("cuda")
        cpus = resources.cpus if self.cluster.cpus is None else self.cluster.cpus
        gpus = resources.gpus if self.cluster.gpus is None else self.cluster.gpus
        return Share(cpus, gpus if on_gpu else 0.0, self.setup.memory or resources.memory)

    def _leave(self) -> None:
        """End what runs, and leave nothing behind on the nodes that can be reached."""
        for reference in self._running:
            ray.cancel(reference, force=True)
        with suppress(RayError):
            left = on_every_node(worker.leave)
            ray.wait(list(left), num_returns=len(left), timeout=LEAVE_SECONDS)
        self._staging.close()
        ray.shutdown()
        self._source.cleanup()


def _cell(task: Task) -> Cell:
    return task.attack, task.params_json, task.victim, task.victim_seed


def _job(what: Work) -> str:
    return what.run_id if isinstance(what, Task) else str(what)
