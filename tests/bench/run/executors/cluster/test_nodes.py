"""Nodes that come, are silent, or cannot do the runs: a cluster that stands in for Ray says what each answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
from ray.exceptions import GetTimeoutError

from bench.run.executors.cluster import nodes
from victims.errors import UserError


@dataclass
class Asked:
    """A cluster whose nodes are asked what they lack.

    Attributes:
        answers: what each node answers, by a letter; None if it is silent.
        asked: the nodes that were asked, in that order; a reference is a place in it.
        clock: seconds that have gone by.
    """

    answers: dict[str, str | None]
    asked: list[str] = field(default_factory=list)
    clock: float = 0.0

    def remote(self, **_: Any) -> Any:
        return lambda function: SimpleNamespace(options=self.options)

    def options(self, scheduling_strategy: Any) -> Any:
        def ask(*_: Any) -> int:
            self.asked.append(scheduling_strategy.node_id[0])
            return len(self.asked) - 1

        return SimpleNamespace(remote=ask)

    def nodes(self) -> list[dict[str, Any]]:
        told = {"Alive": True, "Resources": {"CPU": 1}}
        ids = {name: 56 * name for name in self.answers}
        return [
            {**told, "NodeID": node, "NodeManagerHostname": name, "Labels": {"ray.io/node-id": node}}
            for name, node in ids.items()
        ]

    def wait(self, references: Sequence[int], **_: Any) -> tuple[list[int], list[int]]:
        return [one for one in references if self.answers[self.asked[one]] is not None], []

    def get(self, reference: int, timeout: float) -> str:
        if (answer := self.answers[self.asked[reference]]) is None:
            raise GetTimeoutError
        return answer


def begun(monkeypatch: pytest.MonkeyPatch, **answers: str | None) -> tuple[Asked, nodes.Nodes, list[str]]:
    cluster, told = Asked(answers), list[str]()
    monkeypatch.setattr(nodes, "ray", cluster)
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: cluster.clock))
    return cluster, nodes.Nodes("", frozenset(), told.append), told


def able(known: nodes.Nodes) -> set[str]:
    return {node["NodeManagerHostname"] for node in known.able()}


@pytest.mark.parametrize(("answer", "told"), [("it has no scipy", "it has no scipy"), (None, "not answered in 600 s")])
def test_a_node_that_cannot_do_the_runs_ends_the_plan_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, told: str
) -> None:
    with pytest.raises(UserError, match=rf"node b of the cluster cannot do the runs: .*{told}"):
        begun(monkeypatch, a="", b=answer)


def test_a_node_that_comes_and_is_silent_gets_none_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, known, told = begun(monkeypatch, a="")
    cluster.answers["b"] = None
    known.watch()
    assert (len(known.asked), able(known), told) == (1, {"a", "b"}, [])  # Ray may give it a run, which it examines, too
    cluster.clock = nodes.ANSWER_SECONDS + 1
    known.watch()
    assert (len(known.asked), able(known)) == (0, {"a"})
    assert told == ["node b of the cluster cannot do the runs: it has not answered in 600 s; it gets none"]
    cluster.answers["b"] = ""
    known.examine()
    known.watch()
    assert (able(known), known.options) == ({"a", "b"}, {})


def test_what_a_node_lacks_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, known, told = begun(monkeypatch, a="")
    cluster.answers["b"] = "it has no scipy"
    for _ in range(3):
        known.examine()
        known.watch()
        assert able(known) == {"a"}
    cluster.answers["b"] = "its temporary folder cannot be written"
    known.examine()
    known.watch()
    assert [line.partition(": ")[2] for line in told] == [
        "it has no scipy; it gets none",
        "its temporary folder cannot be written; it gets none",
    ]
