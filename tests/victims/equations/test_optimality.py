"""How far a network is from a stationary point: the figures of a card, against plain least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from victims.equations.architectures import MLP
from victims.equations.kinks import kink_residuals
from victims.equations.losses import residual_weights, sample_losses
from victims.equations.network import Network
from victims.equations.optimality import margin_residuals
from victims.spec import Loss

N, D = 5, 6


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("outputs", [1, 3])
def test_multipliers_on_margins_are_the_nonnegative_least_squares_of_all_layers(outputs: int) -> None:
    model = MLP((D, 8, 7, outputs), [True, True, False]).double()
    for seed, parameter in enumerate(model.parameters()):
        parameter.data = drawn(seed, *parameter.shape)
    inputs, labels = drawn(9, N, 1, 2, 3), torch.tensor([0, 1, 1, 0, 1])
    columns = []
    for image, label in zip(inputs, labels.tolist(), strict=True):
        phi = model(image[None])[0]
        others = phi[[j != label for j in range(outputs)]] if outputs > 1 else None
        margin = (2 * label - 1) * phi if others is None else -torch.logsumexp(others - phi[label], 0)
        gradients = torch.autograd.grad(margin, list(model.parameters()))
        columns.append(torch.cat([gradient.flatten() for gradient in gradients]))
    theta = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    matrix = torch.stack(columns, 1)
    multipliers, _ = nnls(matrix.numpy(), theta.numpy())
    assert 0 < (multipliers == 0).sum() < N
    left = theta - matrix @ torch.from_numpy(multipliers)
    sizes = [sum(parameter.numel() for parameter in layer.parameters()) for layer in model.layers]
    expected = [float(a.norm() / b.norm()) for a, b in zip(left.split(sizes), theta.split(sizes), strict=True)]
    assert margin_residuals(model, inputs, labels) == pytest.approx(expected, rel=1e-3)


def test_on_a_kink_the_gate_is_the_best_between_closed_and_open() -> None:
    """Two neurons have one input each on their kinks, or just above; the best gate of one is closed, of one ajar."""
    first, last, inputs, coefficients = drawn(0, 4, D), drawn(1, 1, 4), drawn(2, N, D), drawn(3, N, 1)
    bias = drawn(4, 4)
    bias[0], bias[1] = -first[0] @ inputs[2], 1e-8 - first[1] @ inputs[3]
    before = inputs @ first.T + bias
    theta, extended = torch.cat([first, bias[:, None]], 1), torch.cat([inputs, torch.ones(N, 1)], 1)
    ungated = coefficients @ last
    squares, best = [], list[float]()
    for neuron, kink in ((0, 2), (1, 3), (2, None), (3, None)):
        gates = (before[:, neuron] > 1e-9).double()
        choices = np.linspace(0, 1, 2001) if kink is not None else [0.0]
        found = []
        for gate in choices:
            if kink is not None:
                gates[kink] = gate
            found.append(float((theta[neuron] - (ungated[:, neuron] * gates) @ extended).square().sum()))
        squares.append(min(found))
        best.append(choices[int(np.argmin(found))])
    assert best[0] == 0 < best[1] < 1
    expected = (sum(squares) / float(theta.square().sum())) ** 0.5
    network = Network((first, last), (bias, None))
    assert kink_residuals(network, inputs, coefficients)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", ["l2", "l2.5", "huber"])
def test_a_weight_times_its_residual_is_the_slope_of_the_loss(loss: Loss) -> None:
    outputs, labels = torch.tensor([-1.3, 0.2, 0.9, 4.0, 1.6], dtype=torch.float64), torch.tensor([0, 0, 1, 1, 1])
    residuals = outputs - (2.0 * labels - 1.0)
    outputs.requires_grad_()
    (slope,) = torch.autograd.grad(sample_losses(loss, outputs, labels).sum(), outputs)
    torch.testing.assert_close(residual_weights(loss, residuals) * residuals, slope)
