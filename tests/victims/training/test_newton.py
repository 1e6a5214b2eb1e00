"""Newton's method: it takes no step that does not help, and no problem whose Hessian is too large."""

from __future__ import annotations

import torch
from twelve import problem

from victims.equations.losses import signs
from victims.training.newton import LARGEST, newton


def test_newtons_method_returns_its_start_where_it_does_not_help() -> None:
    """A step from far away that overshoots is not taken, and a problem too large for a Hessian is left alone."""
    inputs, labels = problem()
    signed_inputs = inputs.flatten(1).double() * signs(labels).double()[:, None]
    far = signed_inputs.mean(0) * 1e3
    torch.testing.assert_close(newton(signed_inputs, 1e-6, far, 1e-9), far, rtol=0, atol=0)
    wide = torch.zeros(LARGEST + 1, dtype=torch.float64)
    assert newton(signed_inputs, 1e-6, wide, 1e-9) is wide
