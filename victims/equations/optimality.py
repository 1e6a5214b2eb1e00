"""How close a trained victim is to the stationary point that the reconstruction attacks assume."""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from victims.equations.architectures import MLP, ReLUNetwork
from victims.equations.kinks import kink_residuals
from victims.equations.losses import rival_margins, sample_losses
from victims.spec import DecayedDescent, VictimSpec


def stationarity_residuals(spec: VictimSpec, model: nn.Module, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return the relative residual of the victim's stationarity condition at the true data, one a layer.

    With weight decay that is `decay_residuals`; without, `margin_residuals`, which is known for fully connected
    networks only (else NaN). A module whose layers are not known has none.

    Args:
        spec: what the victim is.
        model: the victim.
        inputs: (n, C, H, W), mean-subtracted.
        labels: (n,) class indices.
    """
    if not isinstance(model, ReLUNetwork):
        return []
    if spec.weight_decay:
        return decay_residuals(spec, model, inputs, labels)
    if isinstance(model, MLP):
        return margin_residuals(model, inputs, labels)
    return [float("nan")] * len(model.layers)


def decay_residuals(spec: VictimSpec, model: ReLUNetwork, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return ||theta_l - sum_i l_i grad_l Phi(x_i)|| / ||theta_l||, l_i = -L'(Phi(x_i), y_i) / (n wd), per layer.

    The coefficients are tied to the loss (Buzaglo et al. 2023, Section 3). For a fully connected network the derivative
    of a ReLU on its kink is free, see `victims.equations.kinks`; a training that ended with rounded corners says what it is.
    """
    model = deepcopy(model).double()
    outputs = model(inputs.double())
    loss = sample_losses(spec.loss, outputs, labels).mean()
    if isinstance(model, MLP):
        (slopes,) = torch.autograd.grad(loss, outputs)
        corners = spec.training.corners if isinstance(spec.training, DecayedDescent) else ()
        corner = corners[-1] if corners else None
        return kink_residuals(model, inputs, -slopes.view(len(labels), -1) / spec.weight_decay, corner)
    residuals = []
    for layer in model.layers:
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        pairs = list(zip(parameters, gradients, strict=True))
        square = sum(float((p.detach() + g / spec.weight_decay).square().sum()) for p, g in pairs)
        residuals.append((square / max(sum(float(p.detach().square().sum()) for p in parameters), 1e-300)) ** 0.5)
    return residuals


def margin_residuals(model: MLP, inputs: Tensor, labels: Tensor) -> list[float]:
    """Return, per layer, ||theta_l - sum_i lambda_i grad_l m_i|| / ||theta_l|| at the true data.

    m_i is y_i Phi(x_i), or with several classes -log sum_j exp(Phi_j - Phi_y): its gradient shares a sample's
    multiplier between its rivals as the cross-entropy does. lambda >= 0 is the minimiser over all layers together
    (Haim et al. 2022, eq. 3), by L-BFGS-B on the n x n Gram matrix. At a converged ReLU victim the rest is mostly
    pre-activations that sit on the kink, where the true gate is a fraction and autograd's is 0 or 1. A layer
    of zeros has NaN.
    """
    outputs = model(inputs).detach().requires_grad_()
    soft_margins = -torch.logsumexp(-rival_margins(outputs, labels), 1)
    (shares,) = torch.autograd.grad(soft_margins.sum(), outputs)
    with torch.no_grad():
        layers = model.linears()
        weights = [layer.weight.double() for layer in layers]
        activations, gates = [inputs.flatten(1).double()], []
        for layer, weight in zip(layers[:-1], weights[:-1], strict=True):
            bias = 0 if layer.bias is None else layer.bias.double()
            pre = activations[-1] @ weight.T + bias
            gates.append((pre > 0).double())
            activations.append(pre.relu())
        signals = [shares.double().view(len(labels), -1)]
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
    gram, product_np = sum(grams).numpy(), sum(products).numpy()
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
