"""The pretend device computes what the CPU does, refuses what a GPU refuses, and counts what a GPU waits for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from accelerator import NAME, PretendTensor
from torch import Tensor, nn
from waits import Waits, growth

from victims.devices.upload import uploaded

GENERATOR = torch.Generator().manual_seed(0)
X, Y = (torch.randn(4, 3, generator=GENERATOR) for _ in range(2))
HERE = "tests/pretend/test_accelerator.py"

COMPUTED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda x, y: x + 2 * y,
    "scalar": lambda x, y: x * torch.tensor(3.0) + x.new_tensor(2.0),
    "product": lambda x, y: x @ y.T,
    "views": lambda x, y: torch.cat([x[1:, ::2], y.T[:2].reshape(4, 2)]),
    "index": lambda x, y: x[torch.tensor([2, 0])] + y[(y > 0).any(1)][:2],
    "in place": lambda x, y: x.clone().mul_(y).diagonal().add_(1),
    "shape in place": lambda x, y: x[:1].clone().squeeze_().unsqueeze_(1).t_(),
    "out": lambda x, y: torch.add(x, y, out=torch.empty_like(x)),
    "masked": lambda x, y: torch.where(x > 0, y, torch.zeros((), device=x.device)),
    "decomposition": lambda x, y: torch.linalg.svd(x).S,
    "double": lambda x, y: x.double().to(torch.float16).float(),
    "factories": lambda x, y: torch.eye(3, device=x.device) + torch.arange(3, device=x.device) + torch.ones(3).to(x),
    "autograd": lambda x, y: torch.autograd.grad((x.requires_grad_() @ y.T).tanh().norm(), x)[0],
    "vmap": torch.vmap(torch.func.grad(lambda a, b: (a * b).exp().sum())),
    "forward mode": lambda x, y: torch.func.jvp(lambda a: (a @ a.T).relu().sum(), (x,), (y,))[1],
    "hessian": lambda x, y: torch.func.hessian(lambda a: (a**3).sum())(x[0]),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_are_those_of_the_cpu_bit_for_bit(name: str, pretend: torch.device) -> None:
    compute = COMPUTED[name]
    found = compute(X.clone().to(pretend), Y.clone().to(pretend))
    assert isinstance(found, PretendTensor)
    assert found.device == torch.device(NAME, 0)
    wanted = compute(X.clone(), Y.clone())
    assert found.dtype == wanted.dtype
    assert torch.equal(found.cpu(), wanted)


def trained(device: torch.device) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(X.to(device)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimiser.step()
    return model.double()


def test_a_module_trains_there_as_on_the_cpu(pretend: torch.device) -> None:
    here, there = trained(torch.device("cpu")), copy.deepcopy(trained(pretend))
    assert all(isinstance(parameter, nn.Parameter) for parameter in there.parameters())
    for name, wanted in here.state_dict().items():
        found = there.state_dict()[name]
        assert found.device.type == NAME
        assert torch.equal(found.cpu(), wanted)
    vector = nn.utils.parameters_to_vector(there.parameters()).detach()
    nn.utils.vector_to_parameters(2 * vector, there.parameters())
    assert torch.equal(nn.utils.parameters_to_vector(there.parameters()), 2 * vector)


REFUSED: dict[str, tuple[Callable[[Tensor, Tensor], object], str]] = {
    "a sum of two devices": (lambda x, y: x + y, "same device"),
    "a product": (lambda x, y: y @ x.T, "same device"),
    "a scalar in a stack": (lambda x, y: torch.stack([x[0, 0], torch.tensor(1.0)]), "same device"),
    "writing to the host": (lambda x, y: torch.tensor(1.0).add_(x[0, 0]), "same device"),
    "a device's mask on the host": (lambda x, y: torch.arange(4)[x[:, 0] > 0], "same device"),
    "a device's index on the host": (lambda x, y: y[x.argmax(0)], "same device"),
    "numpy": (lambda x, y: np.asarray(x), "numpy"),
    "a generator of the host": (
        lambda x, y: torch.randn(3, device=x.device, generator=torch.Generator()),
        "'pretend' device type for generator",
    ),
    "no generator": (lambda x, y: torch.rand_like(x), "global generator"),
    "noise in place": (lambda x, y: x.normal_(generator=torch.Generator()), "'pretend' device type for generator"),
    "dropout": (lambda x, y: nn.functional.dropout(x), "global generator"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_refuses_is_refused(name: str, pretend: torch.device) -> None:
    compute, said = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError), match=said):
        compute(X.to(pretend), Y)


WAITS: dict[str, tuple[Callable[[Tensor], object], int]] = {
    "float": (lambda x: float(x.sum()), 1),
    "bool": (lambda x: bool((x > 0).all()), 1),
    "item": (lambda x: x[0, 0].item(), 1),
    "a branch": (lambda x: 1 if x[0, 0] > 0 else 2, 1),
    "cpu": (lambda x: x.cpu(), 1),
    "to": (lambda x: x.to("cpu", torch.float64), 1),
    "tolist": (lambda x: x.tolist(), 1),
    "copied to the host": (lambda x: torch.empty(4, 3).copy_(x), 1),
    "nonzero": (lambda x: (x > 0).nonzero(), 1),
    "mask": (lambda x: x[x > 0], 1),
    "masked_select": (lambda x: x.masked_select(x > 0), 1),
    "unique": (lambda x: x.unique(), 1),
    "equal": (lambda x: torch.equal(x, x), 1),
    "an index of a device's number": (lambda x: [1, 2, 3][x[0].argmax()], 1),
    "repeats of the device": (lambda x: x[0].repeat_interleave(x[0].long().abs()), 1),
    "checked decomposition": (lambda x: torch.linalg.inv(x.T @ x), 1),
    "upload": (lambda x: torch.ones(3).to(x.device), 1),
    "upload of a number": (lambda x: torch.tensor(1.0, device=x.device), 1),
    "an index of the host": (lambda x: x[torch.tensor([0, 1])], 1),
    "a mask that is filled": (lambda x: x.clone().index_put_((x > 0,), torch.tensor(1.0)), 0),
    "upload of ordinary memory": (lambda x: torch.ones(3).to(x.device, non_blocking=True), 1),
    "a blocking upload": (lambda x: torch.ones(3).pin_memory().to(x.device), 1),
    "upload without a wait": (lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True), 0),
    "uploaded": (lambda x: uploaded(torch.ones(3), x.device) + uploaded(x[0], x.device), 0),
    "factories": (lambda x: torch.full((2,), 3.0, device=x.device) + x.new_ones(2) + torch.zeros_like(x)[0, :2], 0),
    "a number of the host": (lambda x: x * 2.0 + torch.tensor(1.0), 0),
    "computing": (lambda x: (x @ x.T).softmax(1).argmax(1) + x[:, 1:].sum(), 0),
    "classes": (lambda x: nn.functional.cross_entropy(x, x.argmax(1)) + nn.functional.one_hot(x.argmax(1), 3), 0),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_a_gpu_waits_for_is_counted(name: str, pretend: torch.device) -> None:
    compute, wanted = WAITS[name]
    x = X.to(pretend)
    with Waits() as waits:
        compute(x)
    assert sum(waits.count.values()) == wanted
    assert set(waits.by_place) == ({f"{HERE}:<lambda>"} if wanted else set())


def test_a_wait_in_a_step_is_named_and_one_at_the_end_is_not(pretend: torch.device) -> None:
    def waiting(steps: int) -> float:
        x = X.to(pretend)
        for _ in range(steps):
            x = x / float(x.norm())
        return float(x.sum())

    def running(steps: int) -> float:
        x = X.to(pretend)
        for _ in range(steps):
            x = x / x.norm()
        return float(x.sum())

    assert growth(waiting, 3)[1] == {f"{HERE}:waiting"}
    assert growth(running, 3)[1] == set()
    assert growth(running, 3)[0] == pytest.approx(waiting(3))


def test_backward_may_wait_too(pretend: torch.device) -> None:
    class Waiting(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * float(gradients[0].sum())

    x = X.to(pretend).requires_grad_()
    with Waits() as waits:
        Waiting.apply(x).sum().backward()
    assert waits.by_place == {f"{HERE}:backward": 1}


def test_on_the_cpu_nothing_is_copied_into_page_locked_memory() -> None:
    assert uploaded(X, torch.device("cpu")) is X
