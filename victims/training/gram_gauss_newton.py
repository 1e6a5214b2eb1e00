"""Gauss-Newton steps for weight decay and one output, solved in as many unknowns as there are samples.

Let J (n, p) be the gradients of the outputs f at theta, and K = J J'. A positively homogeneous network of L layers has
J theta = L f, so that the part of theta in the rows of J is J' K^-1 L f. Each sample's loss is replaced by the square
(w / 2) (f - y)^2 of the same slope, w = l'(f - y) / (f - y) (iteratively reweighted least squares), and the minimum of
the whole objective over the rows of J is J' a with

    (diag(w) K + n wd I) a = w (L f - (f - y))

(Cai et al. 2019, Gram-Gauss-Newton method, here with weight decay and other losses than the square). The rest of theta
changes no output to the first order, and a step keeps 1 - e of it:

    theta <- (1 - e)(theta - J' K^-1 L f) + J' a.

Plain descent forgets that rest at the rate lr wd. At a stationary point there is none, and theta = J' a. Stationary
points lie on kinks of the ReLU, where J jumps: e has to fall, as the step of a subgradient method has to.
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.equations.losses import margins, residual_weights, sample_losses, signs
from victims.equations.network import Network
from victims.recipes.geometric import geometric
from victims.spec import DecayedDescent, GramGaussNewton, Loss
from victims.training.decayed_descent import DecayedDescentAlgorithm
from victims.training.state import Figures, TrainState

RIDGE = 1e-10
"""Added to the diagonal of K, in units of its mean, for samples whose gradients coincide."""


class GramGaussNewtonAlgorithm:
    """A short normalised descent on mean loss + (wd / 2) ||theta||^2, then Gauss-Newton steps."""

    def __init__(self, spec: GramGaussNewton, loss: Loss) -> None:
        self.spec, self.loss, self.steps = spec, loss, spec.descent + spec.steps
        before = DecayedDescent(weight_decay=spec.weight_decay, steps=spec.descent, dtype=spec.dtype)
        self.descent = DecayedDescentAlgorithm(before, loss)

    def start(self, state: TrainState) -> None:
        """Start as the descent does."""
        self.descent.start(state)

    @torch.no_grad()
    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Take a step of the descent, or after it one of Gauss and Newton; return the figures before it."""
        if state.step < self.spec.descent:
            with torch.enable_grad():
                return self.descent.step(state, inputs, labels)
        parameters = dict(state.model.named_parameters())
        outputs, depth, gradients = _linearised(Network.of(parameters), inputs.flatten(1))
        gram = torch.stack([error @ error.T * (seen @ seen.T) for error, seen in gradients]).sum(0)
        residuals = outputs - signs(labels).to(outputs)
        weights = residual_weights(self.loss, residuals)
        identity = torch.eye(len(outputs), dtype=gram.dtype, device=gram.device)
        decay = len(outputs) * self.spec.weight_decay * identity
        best = _solve(weights[:, None] * gram + decay, weights * depth * outputs - weights * residuals)
        ridge = RIDGE * gram.diagonal().mean() * identity
        present = _solve(gram + ridge, depth * outputs)
        forgotten = geometric(self.spec.forgotten, state.step - self.spec.descent, self.spec.steps)
        coefficients = best - (1 - forgotten) * present
        for layer, (error, seen) in enumerate(gradients):
            weight, bias = parameters[f"layers.{layer}.weight"], parameters.get(f"layers.{layer}.bias")
            change = (error * coefficients[:, None]).T @ seen
            weight.mul_(1 - forgotten).add_(change[:, : weight.shape[1]])
            if bias is not None:
                bias.mul_(1 - forgotten).add_(change[:, -1])
        return Figures(sample_losses(self.loss, outputs, labels).mean(), margins(outputs, labels))


def _solve(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the solution of a linear system, not checked: a check would make a GPU wait for the host."""
    solution: Tensor = torch.linalg.solve_ex(matrix, vector).result
    return solution


def _linearised(network: Network, inputs: Tensor) -> tuple[Tensor, int, list[tuple[Tensor, Tensor]]]:
    """Return the outputs (n,) for inputs (n, r), the number of layers, and their gradients: error by activation.

    The gradient of output i by layer l is errors_l[i] (h_l,) times activations_l[i] (h_{l-1},), which has a 1 as its
    last entry where the layer has a bias.
    """
    outputs, seen, errors = network.passes(inputs, torch.ones_like)
    extended = [
        one if bias is None else torch.cat([one, torch.ones_like(one[:, :1])], dim=1)
        for one, bias in zip(seen, network.biases, strict=True)
    ]
    return outputs[:, 0], network.depth, list(zip(errors, extended, strict=True))
