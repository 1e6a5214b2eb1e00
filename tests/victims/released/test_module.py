"""Somebody's own module is tried on inputs before anything else: its precision, its shape, what it answers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.run.disclosure import network_from
from victims.errors import UserError
from victims.released.module import built_architecture
from victims.spec import MLPSpec, ModuleSpec

SHAPE = (1, 4, 4)


def mlp(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3), *more)


class Asserting(nn.Module):
    """A module that raises an error of its own at inputs of another size, as torchvision's ViT does."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise self.error


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_module_of_another_precision_is_taken_in_float32(dtype: torch.dtype) -> None:
    found = built_architecture("mine", lambda: mlp().to(dtype), SHAPE)

    assert isinstance(found, MLPSpec) and found.hidden == (5,)
    network = network_from(found, SHAPE, lambda: mlp().to(dtype))
    assert network(torch.zeros(2, *SHAPE)).dtype == torch.float32


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AssertionError("Wrong image height!\nExpected 224 but got 4!"), "Wrong image height! Expected 224 but got 4!"),
        (AssertionError(), "AssertionError"),
        (IndexError("Dimension out of range"), "Dimension out of range"),
    ],
)
def test_whatever_a_forward_raises_is_one_line(error: Exception, told: str) -> None:
    with pytest.raises(UserError) as caught:
        built_architecture("mine", lambda: Asserting(error), SHAPE)

    assert str(caught.value) == f"victim mine: the network does not take inputs of shape (n, 1, 4, 4): {told}"


def test_a_single_number_for_two_inputs_is_refused() -> None:
    class Mean(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.mean()

    with pytest.raises(UserError, match=r"answers 2 inputs with \(\); expected"):
        built_architecture("mine", Mean, SHAPE)


def test_probabilities_are_refused_and_their_logarithms_are_not() -> None:
    with pytest.raises(UserError, match="answers with probabilities; return logits, without the softmax"):
        built_architecture("mine", lambda: mlp(nn.Softmax(1)), SHAPE)
    for last in (nn.LogSoftmax(1), nn.ReLU(), nn.Sigmoid()):
        assert not isinstance(built_architecture("mine", lambda last=last: mlp(last), SHAPE), ModuleSpec)
