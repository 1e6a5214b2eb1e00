"""How the suite computes: float32 products are not rounded to TF32, and a GPU plays again what it has recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from victims.training import hardware
from victims.training.hardware import prepare


def test_products_are_not_rounded() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.allow_tf32 = True
        prepare(torch.device("cpu"))
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def test_what_a_gpu_repeats_is_recorded_once_for_each_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def recorded(repeated: hardware.Repeated[None]) -> Callable[[], None]:
        calls.append("record")
        return lambda: calls.append("play")

    monkeypatch.setattr(hardware.Repeated, "_warm", lambda repeated: calls.append("call"))
    monkeypatch.setattr(hardware.Repeated, "_recorded", recorded)
    repeated = hardware.Repeated[None](lambda alpha: None, torch.device("cuda"))
    for alpha in (1.0, 1.0, 1.0, 1.0, 1.0, 2.0):
        repeated(alpha)
    assert calls == ["call"] * hardware.WARM_UP + ["record", "play", "play", "call"]


def test_a_cpu_repeats_by_calling() -> None:
    repeated = hardware.Repeated(lambda alpha: 2 * alpha, torch.device("cpu"))
    assert [repeated(1.0), repeated(1.0), repeated(3.0)] == [2.0, 2.0, 6.0]
