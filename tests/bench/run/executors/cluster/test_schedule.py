"""What is sent to a cluster when: a cluster that does nothing stands in for Ray, and ends what is oldest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
import torch
from ray.exceptions import ObjectLostError, RayTaskError, RuntimeEnvSetupError, WorkerCrashedError

from attacks.base import Resources
from attacks.context import Budget
from bench.plan import registry
from bench.plan.config import Section, planned
from bench.run.executors.cluster import driver, staging
from bench.run.executors.cluster.mailbox import News
from bench.run.executors.cluster.needs import Preparation
from bench.run.executors.cluster.worker import Returned
from bench.run.executors.task import Task
from bench.run.provenance import blank_record
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Cluster, Setup
from bench.terminal.progress import TerminalReporter

Work = Task | Preparation


@dataclass
class Idle:
    """A cluster of one node with four processors, which is told how what it was sent ends.

    Attributes:
        sent: all that was sent, in its order; `where` has the options of each.
        ended: how much of that had ended when each was sent.
        failing: what each task raises, by its seed, in the order of its tries.
        most: the most that was there at a time.
        put: what was put into its object store.
    """

    failing: dict[int, list[Exception]] = field(default_factory=dict)
    sent: list[Work] = field(default_factory=list)
    where: list[dict[str, Any]] = field(default_factory=list)
    ended: list[list[Work]] = field(default_factory=list)
    most: int = 0
    put: list[str] = field(default_factory=list)
    _there: list[Work] = field(default_factory=list)
    _done: list[Work] = field(default_factory=list)
    _results: dict[int, Any] = field(default_factory=dict)

    def function(self, end: Callable[[Work], Any]) -> Any:
        """Stand in for a remote function whose first argument is the work."""

        def send(options: dict[str, Any], what: Work) -> int:
            self.sent.append(what)
            self.where.append(options)
            self.ended.append(list(self._done))
            self._there.append(what)
            self.most = max(self.most, len(self._there))
            reference = len(self.sent)
            self._results[reference] = end(what)
            return reference

        return SimpleNamespace(
            options=lambda **options: SimpleNamespace(remote=lambda what, *_: send(options, what)),
        )

    def wait(self, references: Sequence[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        known = [reference for reference in references if reference in self._results]
        for reference in known[:1]:
            what = self.sent[reference - 1]
            self._there.remove(what)
            self._done.append(what)
        return known[:1] or list(references), []

    def get(self, reference: Any, **_: Any) -> Any:
        if reference == "news":
            return News()
        if isinstance(result := self._results[reference], Exception):
            raise result
        return result


@dataclass
class Nodes:
    """The nodes of that cluster; an examination is answered when the driver has asked twice how it stands."""

    asked: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    _watched: int = 0

    def able(self) -> list[dict[str, Any]]:
        return [{"Resources": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**33}}]

    def examine(self) -> None:
        self.asked, self._watched = {"examination": "node"}, 0

    def watch(self) -> None:
        self._watched += 1
        if self.asked and self._watched == 3:
            self.asked, self.options = {}, {"scheduling_strategy": "not there"}


Scheduled = Callable[..., tuple[Idle, list[Outcome]]]


@pytest.fixture
def scheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scheduled:
    """Execute runs of attacks on victims on the idle cluster, from a cache in which nothing is made yet."""
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))
    attacks, victims = registry.attacks(), registry.victims()

    def execute(section: Section, cluster: Cluster | None = None, twins: bool = False, **ways: Any) -> Any:
        device, memory = ways.pop("device", "cpu"), ways.pop("memory", None)
        setup = Setup(tmp_path, None, None, device, twins, memory=memory, cluster=cluster or Cluster())
        session = Session(setup, TerminalReporter(Console()))
        idle = Idle(**ways)

        def end(task: Work) -> Any:
            assert isinstance(task, Task)
            if idle.failing.get(task.seed):
                return idle.failing[task.seed].pop(0)
            record = blank_record(task.run(attacks, victims), task.run_id, "", torch.device("cpu"))
            return Returned(Outcome(record), {}, {}, 1.0)

        mailbox = SimpleNamespace(collect=SimpleNamespace(remote=lambda: "news"))
        actor = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: mailbox))
        context = SimpleNamespace(get_node_id=lambda: "0" * 56)
        fake = SimpleNamespace(
            wait=idle.wait,
            get=idle.get,
            remote=lambda _: actor,
            get_runtime_context=lambda: context,
            cancel=lambda *_, **__: None,
            shutdown=lambda: None,
            put=lambda _: idle.put.append("bundle"),
        )
        monkeypatch.setattr(driver, "ray", fake)
        monkeypatch.setattr(staging, "ray", fake)
        monkeypatch.setattr(driver, "connect", lambda *_: None)
        monkeypatch.setattr(driver, "Nodes", lambda *_: Nodes())
        monkeypatch.setattr(driver, "on_every_node", lambda *_: [])
        monkeypatch.setattr(driver.worker, "carry_out", idle.function(end))
        monkeypatch.setattr(driver.worker, "prepare", idle.function(lambda _: {}))
        plan = planned((section,), attacks, victims, Budget())
        tasks = [Task.of(run, session.run_id(run), setup) for run in plan]
        outcomes = list(driver.Ray(TerminalReporter(Console(quiet=True)), setup).execute(tasks))
        assert sorted(one.record.run_id for one in outcomes) == sorted(task.run_id for task in tasks)
        return idle, outcomes

    return execute


FACES = Section(attack=("random", "first-layer"), victim=("faces-mlp-20", "faces-mlp-100"), seeds="0-2")


def test_trainings_are_sent_once_before_what_needs_them(scheduled: Scheduled) -> None:
    idle, outcomes = scheduled(FACES, twins=True)
    trainings = [one for one in idle.sent if isinstance(one, Preparation)]
    assert len(trainings) == len(set(trainings)) == 2 * 4  # two victims, two twins and a judge of each
    for task, ended in zip(idle.sent, idle.ended, strict=True):
        if isinstance(task, Task):
            assert {one for one in trainings if one.victim == task.victim} <= set(ended)
    assert len(outcomes) == 12


def test_the_other_seeds_wait_for_the_first_where_twins_are_attacked(scheduled: Scheduled) -> None:
    idle, _ = scheduled(FACES, twins=True)
    first: dict[tuple[str, str], Task] = {}
    for task, ended in zip(idle.sent, idle.ended, strict=True):
        if isinstance(task, Task):
            leader = first.setdefault((task.attack, task.victim), task)
            assert leader is task or leader in ended


@pytest.mark.parametrize("jobs", [1, 3])
def test_no_more_is_sent_than_jobs_say_trainings_included(scheduled: Scheduled, jobs: int) -> None:
    idle, _ = scheduled(FACES, Cluster(jobs=jobs), twins=True)
    assert idle.most == jobs


def test_without_jobs_as_much_is_sent_as_there_is_room_for(scheduled: Scheduled) -> None:
    idle, _ = scheduled(FACES)
    assert idle.most == 4 + driver.SPARE


@pytest.mark.parametrize(
    ("device", "cluster", "memory", "share"),
    [
        ("cpu", Cluster(), None, (2, 0, 2**30)),
        ("cuda", Cluster(), None, (2, 0.5, 2**30)),
        ("cuda", Cluster(cpus=1, gpus=0.25), 2**31, (1, 0.25, 2**31)),
    ],
)
def test_a_run_takes_what_its_attack_says_or_else_the_user(
    scheduled: Scheduled,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    cluster: Cluster,
    memory: int | None,
    share: tuple[float, float, int],
) -> None:
    (attack,) = registry.attacks().match(["random"])
    monkeypatch.setattr(attack, "resources", Resources(cpus=2, gpus=0.5, memory=2**30))
    idle, _ = scheduled(ONE, cluster, device=device, memory=memory)
    taken = [where for what, where in zip(idle.sent, idle.where, strict=True) if isinstance(what, Task)]
    assert {(one["num_cpus"], one["num_gpus"], one["memory"]) for one in taken} == {share}


def test_a_run_without_its_data_goes_out_to_tell_it_and_ends_no_other(
    scheduled: Scheduled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path / "absent"))
    idle, outcomes = scheduled(Section(attack=("random",), victim=("cifar-mlp-500", "faces-mlp-20")), twins=True)
    assert {one.record.victim for one in outcomes} == {"cifar-mlp-500", "faces-mlp-20"}
    assert {one.victim for one in idle.sent if isinstance(one, Preparation)} == {"faces-mlp-20"}


LOST = WorkerCrashedError()
UNSET = RuntimeEnvSetupError("No space left on device")
FULL = RayTaskError("carry_out", "", OSError(28, "No space left on device"))
ONE = Section(attack=("random",), victim=("faces-mlp-20",), seeds="0-5")


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        ([LOST], ""),
        ([LOST, LOST], "its worker was lost, 2 times (WorkerCrashedError)"),
        ([FULL], ""),
        ([FULL, FULL], "its node failed, 2 times ([Errno 28] No space left on device)"),
    ],
)
def test_what_is_lost_is_tried_once_more(scheduled: Scheduled, failures: list[Exception], reason: str) -> None:
    idle, outcomes = scheduled(ONE, failing={2: failures})
    tries = [task for task in idle.sent if isinstance(task, Task) and task.seed == 2]
    assert len(tries) == 2
    assert {one.record.seed: one.record.reason for one in outcomes} == dict.fromkeys(range(6), "") | {2: reason}


def test_what_was_lost_from_the_object_store_is_put_there_again(scheduled: Scheduled) -> None:
    kept, _ = scheduled(ONE)
    lost, _ = scheduled(ONE, failing={5: [RayTaskError("carry_out", "", ObjectLostError("0" * 56, None, ""))]})
    assert len(lost.put) == 2 * len(kept.put) == 2 * 2  # the victim and what measures, for the last run once more


@pytest.mark.parametrize("failure", [FULL, UNSET], ids=["in the run", "before it"])
def test_what_failed_on_a_node_waits_until_the_nodes_are_examined(scheduled: Scheduled, failure: Exception) -> None:
    """Otherwise a node that fails at once would take this run again, and further ones, while other nodes are busy."""
    idle, _ = scheduled(ONE, failing={2: [failure]})
    (_, again) = [at for at, task in enumerate(idle.sent) if isinstance(task, Task) and task.seed == 2]
    assert idle.where[again]["scheduling_strategy"] == "not there"
