"""A kernel machine as a torch module (Barzilai et al. 2025), and its kernels with their derivatives."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from victims.kernel.spec import Kernel, Model

NEAREST = 1e-9
"""Distances below this count as this where a kernel has no derivative."""


def squared_distances(queries: Tensor, points: Tensor) -> Tensor:
    """Return ||z_q - x_j||^2 (q, n) for queries (q, d) and points (n, d), at least 0."""
    lengths = (queries * queries).sum(1)[:, None] + (points * points).sum(1)[None]
    return (lengths - 2 * queries @ points.T).clamp_min(0)


def kernel_values(kernel: Kernel, gamma: float | Tensor, squared: Tensor) -> Tensor:
    """Return k, (q, n) in [0, 1], for squared distances (q, n)."""
    return (-gamma * (squared if kernel == "gaussian" else squared.sqrt())).exp()


def kernel_slopes(kernel: Kernel, gamma: float | Tensor, squared: Tensor, values: Tensor) -> Tensor:
    """Return s (q, n) such that the derivative of k(z, x) by x is s (x - z).

    Args:
        kernel: k.
        gamma: its inverse width.
        squared: (q, n) ||z - x||^2.
        values: (q, n) k(z, x).
    """
    if kernel == "gaussian":
        return -2 * gamma * values
    return -gamma * values / squared.sqrt().clamp_min(NEAREST)


def kernel_width_slopes(kernel: Kernel, gamma: float | Tensor, squared: Tensor, values: Tensor) -> Tensor:
    """Return the derivative (q, n) of k by log gamma; arguments as for `kernel_slopes`."""
    return -gamma * (squared if kernel == "gaussian" else squared.sqrt()) * values


class KernelMachine(nn.Module):
    """Answers sum_i A_ic k(z, x_i) + b_c in float64 to inputs z (m, C, H, W); a density answers log sum + b.

    Attributes:
        points: (n, d) x_i, the training images that count, float32.
        gamma: (1,) the kernel's inverse width.
        coefficients: (n, outputs) A.
        intercept: (outputs,) b.
    """

    points: Tensor
    gamma: Tensor

    def __init__(
        self, model: Model, kernel: Kernel, gamma: float, points: Tensor, coefficients: Tensor, intercept: Tensor
    ) -> None:
        super().__init__()
        self.model, self.kernel = model, kernel
        self.register_buffer("points", points.float())
        self.register_buffer("gamma", torch.tensor([gamma], dtype=torch.float32))
        self.coefficients = nn.Parameter(coefficients.float())
        self.intercept = nn.Parameter(intercept.float())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the answers (m, outputs), (m,) for one output."""
        squared = squared_distances(inputs.flatten(1).double(), self.points.double())
        if self.model == "density":
            exponents = -self.gamma.double() * (squared if self.kernel == "gaussian" else squared.sqrt())
            weights = self.coefficients.double().clamp_min(0).log()
            sums = torch.stack([(exponents + column).logsumexp(1) for column in weights.T], 1)
        else:
            sums = kernel_values(self.kernel, self.gamma.double(), squared) @ self.coefficients.double()
        answers = sums + self.intercept.double()
        return answers[:, 0] if answers.shape[1] == 1 else answers

    @classmethod
    def of(cls, model: Model, kernel: Kernel, state: dict[str, Tensor]) -> KernelMachine:
        """Return the machine of that state dict."""
        machine = cls(model, kernel, float(state["gamma"]), state["points"], state["coefficients"], state["intercept"])
        machine.load_state_dict(state)
        return machine
