"""How close a trained victim is to the KKT point that the reconstruction attacks assume."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from victims.architectures import MLP


def stationarity_residuals(model: MLP, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return, per layer, ||theta_l - sum_i lambda_i y_i grad_l Phi(x_i)|| / ||theta_l|| at the true data.

    lambda >= 0 is the minimiser over all layers together (Haim et al. 2022, eq. 3), by L-BFGS-B on the n x n Gram
    matrix. At a converged ReLU victim the rest is mostly pre-activations that sit on the kink, where the true gate is
    a fraction and autograd's is 0 or 1.

    Args:
        model: the victim.
        inputs: (n, C, H, W), mean-subtracted.
        labels: (n,) in {-1, +1}.
    """
    with torch.no_grad():
        layers = model.linears()
        weights = [layer.weight.double() for layer in layers]
        activations, gates = [inputs.flatten(1).double()], []
        for layer, weight in zip(layers[:-1], weights[:-1], strict=True):
            bias = 0 if layer.bias is None else layer.bias.double()
            pre = activations[-1] @ weight.T + bias
            gates.append((pre > 0).double())
            activations.append(pre.relu())
        signals = [labels.double()[:, None]]
        for weight, gate in zip(reversed(weights[1:]), reversed(gates), strict=True):
            signals.insert(0, (signals[0] @ weight) * gate)

        # <grad_l Phi_i, grad_l Phi_j>, <theta_l, y_i grad_l Phi_i> and ||theta_l||^2, layer by layer.
        grams, products, norms = [], [], []
        for layer, weight, signal, activation in zip(layers, weights, signals, activations, strict=True):
            one, bias = (0.0, None) if layer.bias is None else (1.0, layer.bias.double())
            grams.append((signal @ signal.T) * (activation @ activation.T + one))
            product = ((signal @ weight) * activation).sum(1)
            products.append(product if bias is None else product + signal @ bias)
            norms.append(float(weight.square().sum() + (0 if bias is None else bias.square().sum())))
    gram, product_np = sum(grams).numpy(), sum(products).numpy()  # type: ignore[union-attr]
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
    return [float(np.sqrt(max(square, 0) / norm)) for square, norm in zip(squares, norms, strict=True)]
