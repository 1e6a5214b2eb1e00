"""How close a trained victim is to the stationary point that the reconstruction attacks assume.

The figures of a victim's card: the relative stationarity residual at the true data, with the best coefficients that
the theory allows (Haim et al. 2022, eqs. 2-5; with weight decay Buzaglo et al. 2023, Section 3).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from victims.equations.architectures import MLP, ReLUNetwork
from victims.equations.kinks import kink_residuals
from victims.equations.losses import sample_losses, soft_margins
from victims.equations.network import Network
from victims.equations.stationarity import layer_residuals
from victims.spec import DecayedDescent, VictimSpec

MOST_SAMPLES = 5000
"""Residuals are measured at no more than these: a Gram matrix of them has 0.2 GB, and one stays for each layer."""
SMALLEST_NORM = 1e-300
"""A layer's squared norm below this counts as this."""


def stationarity_residuals(spec: VictimSpec, model: nn.Module, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return the relative stationarity residual at the true data for every layer.

    With weight decay the residuals are `decay_residuals`, without it `margin_residuals`, which are NaN for a network
    that is not fully connected. At more than `MOST_SAMPLES` they are NaN. A module whose layers are not known has none:
    the list is empty.

    Args:
        spec: the victim's description.
        model: the trained network, on the CPU.
        inputs: (n, C, H, W), mean-subtracted.
        labels: (n,) class indices.
    """
    if not isinstance(model, ReLUNetwork):
        return []
    if len(inputs) > MOST_SAMPLES:
        return [math.nan] * len(model.layers)
    if spec.weight_decay:
        return decay_residuals(spec, model, inputs, labels)
    if isinstance(model, MLP):
        return margin_residuals(model, inputs, labels)
    return [math.nan] * len(model.layers)


def decay_residuals(spec: VictimSpec, model: ReLUNetwork, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return ||theta_l - sum_i l_i grad_l Phi(x_i)|| / ||theta_l||, l_i = -L'(Phi(x_i), y_i) / (n wd), for every layer.

    The coefficients l_i are tied to the loss (Buzaglo et al. 2023, Section 3). For a fully connected network the
    derivatives of ReLUs on their kinks are free, see `victims.equations.kinks`.

    Args:
        spec: the victim's description.
        model: the trained network, on the CPU.
        inputs: (n, C, H, W), mean-subtracted.
        labels: (n,) class indices.
    """
    network, flat = _in_float64(model, inputs)
    outputs = network.forward(flat, torch.relu).requires_grad_()
    shaped = outputs[:, 0] if outputs.shape[1] == 1 else outputs
    (slopes,) = torch.autograd.grad(sample_losses(spec.loss, shaped, labels).mean(), outputs)
    coefficients = -slopes / spec.weight_decay
    if not network.convolutions:
        corners = spec.training.corners if isinstance(spec.training, DecayedDescent) else ()
        return kink_residuals(network, flat, coefficients, corners[-1] if corners else None)
    squares = layer_residuals(network, flat, lambda _: coefficients, torch.relu, differentiable=False)
    norms = [max(float(norm), SMALLEST_NORM) for norm in network.layer_square_norms()]
    return [(float(square) / norm) ** 0.5 for square, norm in zip(squares, norms, strict=True)]


def margin_residuals(model: MLP, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return ||theta_l - sum_i lambda_i grad_l m_i|| / ||theta_l|| at the true data for every layer; NaN for zeros.

    The margin m_i is y_i Phi(x_i), or with several classes -log sum_{j != y} exp(Phi_j - Phi_y): its gradient shares a
    sample's multiplier between the rival classes as the cross-entropy does. The multipliers lambda >= 0 minimise the
    residual of all layers together (Haim et al. 2022, eq. 3), by L-BFGS-B on the n x n Gram matrix of the gradients.
    What is left at a converged ReLU victim comes mostly from pre-activations on the kink, where the true gate is a
    fraction and the gate here is 0 or 1.

    Args:
        model: the trained network, on the CPU.
        inputs: (n, C, H, W), mean-subtracted.
        labels: (n,) class indices.
    """
    outputs = model(inputs).detach().requires_grad_()
    (shares,) = torch.autograd.grad(soft_margins(outputs, labels).sum(), outputs)
    network, flat = _in_float64(model, inputs)
    _, activations, errors = network.passes(flat, lambda _: shares.double().view(len(labels), -1))

    # for every layer l: <grad_l m_i, grad_l m_j> (n, n), <theta_l, grad_l m_i> (n,) and ||theta_l||^2
    grams, products = [], []
    for weight, bias, error, activation in zip(network.weights, network.biases, errors, activations, strict=True):
        grams.append((error @ error.T) * (activation @ activation.T + (0.0 if bias is None else 1.0)))
        product = ((error @ weight) * activation).sum(1)
        products.append(product if bias is None else product + error @ bias)
    norms = [float(norm) for norm in network.layer_square_norms()]
    gram, product_np = sum(grams[1:], grams[0]).numpy(), sum(products[1:], products[0]).numpy()
    scale = 1 / max(gram.diagonal().max(), np.finfo(float).tiny)

    def objective(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        image = gram @ coefficients
        return scale * float(coefficients @ (image / 2 - product_np)), scale * (image - product_np)

    start = np.full(len(gram), max(product_np.mean(), 0) / max(gram.sum(1).mean(), np.finfo(float).tiny))
    bounds = [(0, None)] * len(gram)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 2000})
    solution = torch.from_numpy(np.maximum(found.x, 0))
    squares = [
        norm - 2 * float(product @ solution) + float(solution @ gram_l @ solution)
        for gram_l, product, norm in zip(grams, products, norms, strict=True)
    ]
    pairs = zip(squares, norms, strict=True)
    return [float(np.sqrt(max(square, 0) / norm)) if norm else math.nan for square, norm in pairs]


def _in_float64(model: ReLUNetwork, inputs: Tensor) -> tuple[Network, Tensor]:
    """Return the network as plain tensors in float64, without gradients, and inputs (n, C, H, W) as rows (n, d)."""
    channels, height, width = inputs.shape[1:]
    network = Network.of(model.state_dict(), (channels, height, width), dtype=torch.float64)
    return network, inputs.flatten(1).double()
