"""The nodes of a cluster: whether they can do the runs, when a plan begins and while nodes come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, NotIn

from bench.run.executors.cluster import probe
from bench.run.executors.server import THIRD_PARTY
from bench.terminal.text import one_line
from victims.errors import UserError

ANSWER_SECONDS = 600.0
"""A node that is silent for longer gets no runs."""
MODULES = tuple(sorted({"skimage", *(name.partition(".")[0] for name in THIRD_PARTY)}))
"""What every node must have beside Python and Ray: some attacks and data need what no run imports at its start."""


def living() -> dict[str, dict[str, Any]]:
    """Return the living nodes that may get runs, as Ray describes them, by their ids."""
    return {str(node["NodeID"]): node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}


def on_every_node(function: Any, *arguments: Any) -> list[ray.ObjectRef[Any]]:
    """Call a remote function on each living node that may get runs, and return what will hold the results."""
    return [_on(node, function, *arguments) for node in living()]


def _on(node: str, function: Any, *arguments: Any) -> ray.ObjectRef[Any]:
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    reference: ray.ObjectRef[Any] = function.options(scheduling_strategy=strategy).remote(*arguments)
    return reference


class Nodes:
    """Knows which nodes cannot do the runs, for want of a module, a version, a disk or a plug-in.

    Nodes are examined before anything runs, when they come, and after a run failed on one of them.

    Args:
        plugins: place of the plug-ins in the source that travels, empty if there are none.
        broken: names of plug-in files that do not import here either.
        notice: told in a line of a node that has come and cannot do the runs.

    Attributes:
        asked: the nodes that are being examined, by the reference of their answer.

    Raises:
        UserError: a node that is there at the beginning cannot do the runs; the line names it, and what it lacks.
    """

    def __init__(self, plugins: str, broken: frozenset[str], notice: Callable[[str], None]) -> None:
        self.notice = notice
        self._arguments = probe.versions(), MODULES, plugins, broken
        self._examined: set[str] = set()
        self.asked: dict[ray.ObjectRef[str], str] = {}
        self._deadlines: dict[ray.ObjectRef[str], float] = {}
        self._unfit: dict[str, str] = {}
        self._told_empty = False
        cloudpickle.register_pickle_by_value(probe)
        self._lacking = ray.remote(num_cpus=0, max_retries=0)(probe.lacking)
        self.examine()
        ray.wait(list(self.asked), num_returns=len(self.asked), timeout=ANSWER_SECONDS)
        for reference in list(self.asked):
            if told := self._answer(reference):
                raise UserError(told)

    def able(self) -> list[dict[str, Any]]:
        """Return the living nodes that are not known to be unable, as Ray describes them."""
        return [node for name, node in living().items() if name not in self._unfit]

    @property
    def options(self) -> dict[str, Any]:
        """The options of a remote function that keep it off the nodes that cannot do the runs."""
        if not self._unfit:
            return {}
        return {"scheduling_strategy": NodeLabelSchedulingStrategy({_id_label(): NotIn(*self._unfit)})}

    def watch(self) -> None:
        """Examine the nodes that have come, and hear what was answered."""
        self._ask()
        answered, _ = ray.wait(list(self.asked), num_returns=len(self.asked), timeout=0) if self.asked else ([], [])
        now = time.monotonic()
        for reference in [one for one in self.asked if one in answered or now > self._deadlines[one]]:
            if told := self._answer(reference):
                self.notice(f"{told}; it gets none")
        if self.able():
            self._told_empty = False
        elif not self._told_empty:
            self._told_empty = True
            self.notice("the cluster has no node that can do the runs; they wait for one")

    def examine(self) -> None:
        """Have all nodes examined, once more if they were before."""
        self._examined.clear()
        self._ask()

    def _ask(self) -> None:
        for node in living().keys() - self._examined:
            self._examined.add(node)
            reference = _on(node, self._lacking, *self._arguments)
            self.asked[reference], self._deadlines[reference] = node, time.monotonic() + ANSWER_SECONDS

    def _answer(self, reference: ray.ObjectRef[str]) -> str:
        """Return in a line what a node lacks; empty if nothing, if it has gone, or if that was told before."""
        node = self.asked.pop(reference)
        del self._deadlines[reference]
        try:
            trouble = ray.get(reference, timeout=0)
        except GetTimeoutError:
            trouble = f"it has not answered in {ANSWER_SECONDS:.0f} s"
        except RayError as error:
            trouble = one_line(str(error))
        before, described = self._unfit.pop(node, ""), living().get(node)
        if not trouble or described is None:
            return ""
        self._unfit[node] = trouble
        if trouble == before:
            return ""
        return f"node {described['NodeManagerHostname']} of the cluster cannot do the runs: {trouble}"


def require_able(wanted: dict[str, str]) -> None:
    """Check, on a node, that it can do a run: it may have come, or its disk be full, since it was examined.

    Raises:
        UserError: it cannot.
    """
    if trouble := probe.lacking(wanted, (), "", frozenset()):
        raise UserError(trouble)


def _id_label() -> str:
    """Return the label whose value is a node's id; versions of Ray spell it differently."""
    labels = (label for node in ray.nodes() for label, value in node["Labels"].items() if value == node["NodeID"])
    return str(next(labels))
