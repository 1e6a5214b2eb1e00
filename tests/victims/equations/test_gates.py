"""The ReLU's derivatives, against their definitions."""

from __future__ import annotations

import torch

from victims.equations.gates import RoundedReLU, smooth_gate_relu


def test_smooth_gate_is_relu_forward_and_sigmoid_backward_twice() -> None:
    z = torch.tensor([-0.4, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    out = smooth_gate_relu(z, 5.0)
    torch.testing.assert_close(out, z.relu())
    (slope,) = torch.autograd.grad(out.sum(), z, create_graph=True)
    gate = torch.sigmoid(5.0 * z)
    torch.testing.assert_close(slope, gate)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    torch.testing.assert_close(curvature, 5.0 * gate * (1 - gate))


def test_a_rounded_relu_is_the_relu_off_its_corner_and_its_slope_the_derivative() -> None:
    z = torch.tensor([[-2.0, -0.3, -0.1, 0.0, 0.2, 0.3, 5.0]], dtype=torch.float64).T.requires_grad_()
    width = torch.tensor([0.5], dtype=torch.float64)
    activations = RoundedReLU.apply(z, width)
    off = (z.detach().abs() > 0.25)[:, 0]
    torch.testing.assert_close(activations[off], z[off].relu())
    assert bool((activations[~off] > z[~off].relu()).all())
    assert torch.autograd.gradcheck(lambda values: RoundedReLU.apply(values, width), (z,))
