"""The search for candidates whose training, from the known start, ends at the released weights."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.known_start.descent import Decomposition, Descent
from attacks.known_start.equation import Equation
from attacks.known_start.params import ResolvedParams
from attacks.known_start.unrolled_training import UnrolledTraining
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.network import Network


class Polish(Descent):
    """One search from given candidates, each of which has a weight in every batch.

    The candidates begin with equal weights and with the labels that the released network gives them; the labels stay.
    They begin at one length, because the equation of `kkt-delta` does not separate length and coefficients.

    Args:
        equation: what was added to the start; its networks are not used.
        end: the released network.
        replay: the training, on the coordinates of the equation's basis.
        candidates: (m, d).
        params: the search's, with the steps, learning rates and gates of this one.

    Attributes:
        weight_logits: the logits (m,) of the candidates' weights.
    """

    params: ResolvedParams

    def __init__(
        self, equation: Equation, end: Network, replay: UnrolledTraining, candidates: Tensor, params: ResolvedParams
    ) -> None:
        self.equation, self.params, self.replay = equation, params, replay
        self.end = end.on_coordinates(equation.basis)
        length = params.pixel_size * math.sqrt(candidates.shape[1])
        inputs = length * F.normalize(candidates @ equation.basis, dim=1)
        outputs = self.end.forward(inputs, torch.relu)
        self.targets = F.one_hot(outputs.argmax(1), outputs.shape[1]).to(inputs)
        self.scaling = self.relative**params.coordinate_power
        self.coordinates = (inputs / self.scaling).requires_grad_()
        self.weight_logits = inputs.new_zeros(len(inputs)).requires_grad_()
        # relative to the root mean square of a coordinate
        lr = params.lr * length / math.sqrt(equation.rank)
        groups = [([self.coordinates], lr), ([self.weight_logits], params.coefficient_lr)]
        self.cycle = OneCycle(groups, params.steps)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted distance of the training's end from the released weights, relative to the difference."""
        equation = self.equation
        weight, second, bias = self._missed()
        distance = self._square(weight, bias if equation.bias is not None else None) / self.whole
        if not equation.second_moved:
            return distance
        return distance + self.params.second_layer * second.square().sum() / equation.second.square().sum()

    @torch.no_grad()
    def found(self) -> Decomposition:
        """Return where the search is; the candidates' weights in the batches are relative to their mean."""
        weight, _, _ = self._missed()
        inputs = self.coordinates * self.scaling
        weights = self.weight_logits.softmax(0) * len(inputs)
        residual = float(weight.norm() / self.equation.weight.norm())
        return Decomposition(inputs @ self.equation.basis.T, weights, residual)

    def consistency(self) -> Tensor:
        """Return 1 for each candidate, (m,): a training has no equation from which one could follow."""
        return torch.ones_like(self.weight_logits)

    def _missed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W1 (h, r), W2 (h_2, h) and b1 (h,) at the training's end, less the released ones."""
        ended = self.replay.end(self.coordinates * self.scaling, self.targets, self.weight_logits.softmax(0))
        assert self.end.biases[0] is not None
        bias = ended[len(self.end.weights)] - self.end.biases[0]
        return ended[0] - self.end.weights[0], ended[1] - self.end.weights[1], bias
