"""Every attack and recipe runs on a GPU, and recorded steps are steps: `python -m pytest -m gpu tests/pretend`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from test_pretend_attacks import CASES as ATTACKS
from test_pretend_attacks import run
from test_pretend_trainings import CASES as TRAININGS
from torch import Tensor

from victims.devices.upload import uploaded
from victims.training import hardware

pytestmark = pytest.mark.gpu
CPU = torch.device("cpu")
STEPS = 2 * hardware.WARM_UP + 2
"""So many that a recorded step is played again."""
CLOSE = 1e-2
"""Relative distance that a few steps make of rounding: Adam's first steps are signs."""
RECORDED = ("kkt", "kkt published", "kkt-multiclass", "kkt-general tied", "kkt-span", "kkt-span kinks", "kkt-conv")


@pytest.fixture(scope="module")
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch.device("cuda")


def assert_close(found: Tensor, wanted: Tensor) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    found, wanted = found.cpu().double(), wanted.cpu().double()
    assert (found - wanted).norm() <= CLOSE * wanted.norm()


def test_the_host_goes_on_beside_an_upload(cuda: torch.device) -> None:
    drawn = torch.randn(2**22)
    uploaded(drawn, cuda)  # torch keeps the page-locked memory
    torch.cuda.synchronize()
    busy = torch.cuda.Event()
    torch.cuda._sleep(2**31)  # cycles, about a second
    busy.record()
    found = uploaded(drawn, cuda)
    assert not busy.query()
    assert torch.equal(found.cpu(), drawn)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_runs_on_the_gpu(name: str, cuda: torch.device) -> None:
    """It finds as many candidates as on the CPU; which ones depends on the signs of singular vectors."""
    case = ATTACKS[name]
    here, there = run(case, CPU)(STEPS), run(case, cuda)(STEPS)
    assert there.candidates.isfinite().all()
    assert there.candidates.shape == here.candidates.shape
    assert len(there.flags) == len(here.flags)  # some tell a number


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_step_is_the_step(name: str, cuda: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings, record = list[object](), hardware.Repeated._recorded

    def counted(repeated: hardware.Repeated[None]) -> Callable[[], None]:
        recordings.append(repeated)
        return record(repeated)

    monkeypatch.setattr(hardware.Repeated, "_recorded", counted)
    recorded = run(ATTACKS[name], cuda)(STEPS)
    assert recordings
    monkeypatch.setattr(hardware, "WARM_UP", STEPS)
    assert_close(recorded.candidates, run(ATTACKS[name], cuda)(STEPS).candidates)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_recipe_trains_on_the_gpu_to_the_weights_of_the_cpu(name: str, cuda: torch.device) -> None:
    here, there = (TRAININGS[name].train(device, STEPS) for device in (CPU, cuda))
    assert here.keys() == there.keys()
    real = [key for key, value in here.items() if value.is_floating_point()]
    assert_close(*(torch.cat([found[key].cpu().double().flatten() for key in real]) for found in (there, here)))
