from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from accelerator import NAME, register

from attacks import context
from attacks.kkt_family.attack import CANDIDATES_PER_BATCH
from bench.scoring.judges import training as judge_training
from victims import unfinished
from victims.informed.training import CHUNK_BYTES
from victims.ordinary import descent
from victims.training import lbfgs, loop

# While tests are collected: the first test that differentiates starts autograd's threads. torch has room for one
# accelerator only, so the device is not pretended beside a real one.
DEVICE = None if torch.cuda.is_available() else register()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device. Batches on it are those of the CPU, and nothing is reported or kept by the clock.

    Autograd stays in this thread: in one of the device's own it would add up gradients in another order.
    """
    if DEVICE is None:
        pytest.skip("there is a GPU, beside which no device can be pretended")
    for by_device in (CANDIDATES_PER_BATCH, CHUNK_BYTES):
        monkeypatch.setitem(by_device, NAME, by_device["cpu"])
    for module in (descent, lbfgs, loop, judge_training):
        monkeypatch.setattr(module, "REPORT_SECONDS", math.inf)
    for keeping in (context, unfinished):
        monkeypatch.setattr(keeping, "CHECKPOINT_SECONDS", math.inf)
    with torch.autograd.set_multithreading_enabled(False):
        yield DEVICE
