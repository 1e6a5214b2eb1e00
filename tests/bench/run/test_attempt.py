"""One attempt of an attack: what is told of the seconds that it took."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from attacks.base import Attack, AttackContext, AttackParams, Reconstruction, VictimView
from attacks.context import UNLIMITED
from bench.run import attempt


class Idle(Attack[AttackParams]):
    """An attack that waits a fifth of a second."""

    name = "idle"
    summary = "waits"
    paper = "none"
    needs = frozenset()
    Params = AttackParams

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return noise."""
        time.sleep(0.2)
        return Reconstruction(candidates=torch.rand(2, 1, 3, 3, generator=ctx.generator))


def flags(monkeypatch: pytest.MonkeyPatch, device: str = "cpu", **constants: Any) -> tuple[str, ...]:
    for name, value in constants.items():
        monkeypatch.setattr(attempt, name, value)
    told = attempt.Attempt(
        "idle", "idle", "{}", 0, UNLIMITED, device, frozenset(), facts={}, own="", shape=(1, 3, 3), targets=None
    )
    return attempt.perform(told, Idle, None, lambda inputs: inputs, lambda *progress, **more: None).flags


def test_an_attack_that_had_a_part_of_a_core_says_that_its_seconds_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (flag,) = flags(monkeypatch, LONG=0.1)
    assert flag.startswith("wall_s is too long: the machine was shared, the attack had ")


def test_short_attacks_and_those_with_a_core_of_their_own_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flags(monkeypatch) == ()
    monkeypatch.setattr(time, "process_time", time.perf_counter)
    assert flags(monkeypatch, LONG=0.1) == ()
