"""The nodes of a cluster that may get runs, and whether they can do them."""

from __future__ import annotations

from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bench.run.executors.cluster import probe
from bench.run.executors.server import THIRD_PARTY
from bench.terminal.text import one_line
from victims.errors import UserError

ANSWER_SECONDS = 600.0
MODULES = tuple(sorted({name.partition(".")[0] for name in THIRD_PARTY}))
"""What every node must have beside Python and Ray."""


def on_every_node(function: Any, *arguments: Any) -> dict[ray.ObjectRef[Any], str]:
    """Call a remote function on each living node that may get runs; return the node's name by reference."""
    called = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            reference = function.options(scheduling_strategy=there).remote(*arguments)
            called[reference] = str(node["NodeManagerHostname"])
    return called


def require_fit(plugins: str, broken: frozenset[str]) -> None:
    """Check that every node that may get runs can do them: the same versions give the same numbers.

    Args:
        plugins: place of the plug-ins in the source that travels, empty if there are none.
        broken: names of plug-in files that do not import here either.

    Raises:
        UserError: a node cannot; the line names it, and what it lacks.
    """
    cloudpickle.register_pickle_by_value(probe)
    try:
        lacking = ray.remote(num_cpus=0, max_retries=0)(probe.lacking)
        examined = on_every_node(lacking, probe.versions(), MODULES, plugins, broken)
    finally:
        cloudpickle.unregister_pickle_by_value(probe)
    for reference, name in examined.items():
        try:
            trouble = ray.get(reference, timeout=ANSWER_SECONDS)
        except RayError as error:
            trouble = one_line(str(error))
        if trouble:
            raise UserError(f"node {name} of the cluster cannot do the runs: {trouble}")


def require_versions(wanted: dict[str, str]) -> None:
    """Check, on a node, that it has the versions of the driver's machine; it may have joined after all were examined.

    Raises:
        UserError: it has others.
    """
    for name, found in probe.versions().items():
        if found != wanted[name]:
            raise UserError(f"{name} {found} is there, {wanted[name]} here")
