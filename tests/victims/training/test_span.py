"""The span of the training inputs: all of it, and no more."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from victims.training.span import InputSpan


def inputs(smallest: float) -> Tensor:
    """Twelve inputs (12, 30) whose singular values fall from 1 to `smallest`."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(k, 12, generator=generator, dtype=torch.float64) for k in (12, 30))
    singular = torch.diag(torch.logspace(0, 1, 12, base=smallest, dtype=torch.float64))
    return torch.linalg.qr(left).Q @ singular @ torch.linalg.qr(right).Q.T


@pytest.mark.parametrize("smallest", [0.5, 1e-3, 1e-6, 1e-8])
def test_a_direction_in_which_inputs_hardly_differ_is_of_their_span(smallest: float) -> None:
    """Gradients move W1 along it too, and natural images have such directions: fine against coarse."""
    span = InputSpan.of(inputs(smallest))
    assert span.basis.shape == (30, 12)
    torch.testing.assert_close(span.coordinates(inputs(smallest)) @ span.basis.T, inputs(smallest), rtol=0, atol=1e-14)


def test_what_is_there_twice_and_what_is_rounding_are_no_directions() -> None:
    distinct = inputs(0.5)[:7]
    noise = torch.randn(14, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert InputSpan.of(torch.cat([distinct, distinct]) + 1e-13 * noise).basis.shape == (30, 7)
