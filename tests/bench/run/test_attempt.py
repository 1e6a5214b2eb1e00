"""One attempt of an attack: what is told of the seconds that it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
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


class Precise(Idle):
    """An attack that says at what precision a GPU would compute its products and convolutions."""

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return nothing but the flags."""
        told = f"{torch.get_float32_matmul_precision()}, TF32 {torch.backends.cudnn.allow_tf32}"
        return Reconstruction(candidates=torch.zeros(1, 1, 3, 3), flags=(told,))


def performed(
    kind: type[Idle],
    device: str = "cpu",
    needs: frozenset[Knowledge] = frozenset(),
    answer: Callable[[Tensor], Tensor] = lambda inputs: inputs,
) -> attempt.Attacked:
    told = attempt.Attempt("idle", "{}", 0, UNLIMITED, device, needs, facts={}, own="", shape=(1, 3, 3), targets=None)
    return attempt.perform(told, kind, None, answer, lambda *progress, **more: None)


class Doubtful(Idle):
    """An attack that computes in float64 and is not sure of anything."""

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return images of which the second is the surer."""
        images = torch.rand(2, 1, 3, 3, dtype=torch.float64, generator=ctx.generator)
        return Reconstruction(candidates=images, confidence=torch.tensor([torch.nan, -1e9]))


def flags(monkeypatch: pytest.MonkeyPatch, device: str = "cpu", **constants: Any) -> tuple[str, ...]:
    for name, value in constants.items():
        monkeypatch.setattr(attempt, name, value)
    return performed(Idle, device).flags


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system does not tell how long threads wait."""
    monkeypatch.setattr(attempt, "THREADS", tmp_path / "absent")


@pytest.mark.usefixtures("untold")
def test_an_attack_that_had_a_part_of_a_core_says_that_its_seconds_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (flag,) = flags(monkeypatch, LONG=0.1)
    assert flag.startswith("wall_s is too long: the machine was shared, the attack had ")


@pytest.mark.parametrize(("waited", "flagged"), [((900, 900), True), ((0, 1800), True), ((5, 5), False)])
def test_threads_that_waited_for_cores_say_it_though_together_they_had_more_than_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waited: tuple[int, int], flagged: bool
) -> None:
    """Milliseconds of waiting in ten seconds; a thread that was there before has waited for an hour by then."""
    now = {"wall": 0.0}
    clock = SimpleNamespace(perf_counter=lambda: now["wall"], process_time=lambda: 1.5 * now["wall"])
    monkeypatch.setattr(attempt, "time", clock)
    monkeypatch.setattr(attempt, "THREADS", tmp_path)

    def tell(thread: int, ns: int) -> None:
        (tmp_path / f"{thread}").mkdir(exist_ok=True)
        (tmp_path / f"{thread}" / "schedstat").write_text(f"123 {ns} 4\n")

    def shared(attack: Idle, view: VictimView, ctx: AttackContext) -> Reconstruction:
        now["wall"] += 10.0
        tell(1, 3600 * 10**9 + waited[0] * 10**6)
        tell(2, waited[1] * 10**6)
        return Reconstruction(candidates=torch.zeros(1, 1, 3, 3))

    monkeypatch.setattr(Idle, "reconstruct", shared)
    tell(1, 3600 * 10**9)
    told = "wall_s is too long: the machine was shared, the attack waited 1.8 s for cores"
    assert performed(Idle).flags == ((told,) if flagged else ())


def test_a_part_of_a_core_is_told_where_no_thread_waited_in_a_queue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So a container's quota holds threads back, and a kernel that keeps no account has zeros."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "schedstat").write_text("0 0 0\n")
    (flag,) = flags(monkeypatch, LONG=0.1, THREADS=tmp_path)
    assert flag.startswith("wall_s is too long: the machine was shared, the attack had ")


@pytest.mark.usefixtures("untold")
def test_short_attacks_and_those_with_a_core_of_their_own_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flags(monkeypatch) == ()
    monkeypatch.setattr(time, "process_time", time.perf_counter)
    assert flags(monkeypatch, LONG=0.1) == ()


@pytest.mark.usefixtures("untold")
def test_waiting_for_answers_is_no_sign_of_a_shared_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim may answer in another process: of 60 s the attack waits 50, and computes in all others."""
    now = {"wall": 0.0, "computed": 0.0}
    clock = SimpleNamespace(perf_counter=lambda: now["wall"], process_time=lambda: now["computed"])
    monkeypatch.setattr(attempt, "time", clock)

    def answer(queries: Tensor) -> Tensor:
        now["wall"] += 50.0
        return queries

    def asked(attack: Idle, view: VictimView, ctx: AttackContext) -> Reconstruction:
        now["wall"] += 10.0
        now["computed"] += 10.0
        return Reconstruction(candidates=view.logits(torch.zeros(1, 1, 3, 3)))

    monkeypatch.setattr(Idle, "reconstruct", asked)
    assert performed(Idle, needs=frozenset({Knowledge.LOGITS}), answer=answer).flags == ()


def test_candidates_of_another_floating_type_and_an_undefined_confidence_are_taken_as_they_are() -> None:
    found = performed(Doubtful).reconstruction
    assert found.candidates.dtype == torch.float64
    assert found.confidence is not None
    assert found.confidence.isnan().tolist() == [True, False]


def test_an_attack_computes_at_full_precision_in_whatever_process() -> None:
    """A process of its own starts with torch's defaults, of which TF32 in convolutions is one."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.allow_tf32 = True
        assert performed(Precise).reconstruction.flags == ("highest, TF32 False",)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
