"""The ReLU's derivatives, against their definitions."""

from __future__ import annotations

import torch

from victims.equations.gates import smooth_gate_relu


def test_smooth_gate_is_relu_forward_and_sigmoid_backward_twice() -> None:
    z = torch.tensor([-0.4, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    out = smooth_gate_relu(z, 5.0)
    torch.testing.assert_close(out, z.relu())
    (slope,) = torch.autograd.grad(out.sum(), z, create_graph=True)
    gate = torch.sigmoid(5.0 * z)
    torch.testing.assert_close(slope, gate)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    torch.testing.assert_close(curvature, 5.0 * gate * (1 - gate))
