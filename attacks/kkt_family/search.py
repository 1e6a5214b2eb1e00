"""The fast solver: Adam on the residual of `victims.equations.adjoint`, on coordinates of the data subspace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.kkt_family.coefficients import Coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from victims.equations.adjoint import StationarityResidual, Weighting, neuron_norms
from victims.equations.convolution import FeatureResidual
from victims.equations.row_space import CosineSpace, RowSpace
from victims.equations.spans import SpanPenalty
from victims.training.hardware import Repeated

OFFSET_LR = 0.3
"""Learning rate of the gates' offsets."""


@dataclass(frozen=True)
class Start:
    """Where one search begins.

    Attributes:
        coordinates: (m, r) of its candidates in the subspace that is searched.
        coefficients: the candidates' coefficients, with the variables that the search moves.
        lr: (m,) > 0, by which the learning rates of the candidates' coordinates are multiplied; None for ones.
    """

    coordinates: Tensor
    coefficients: Coefficients
    lr: Tensor | None = None


@dataclass(frozen=True)
class StationaryPoint:
    """Where one search ended, near a stationary point: candidates (m, d) and their weights (m,)."""

    candidates: Tensor
    sizes: Tensor


def coordinates_of(images: Tensor, space: RowSpace | CosineSpace, power: float) -> Tensor:
    """Return the coordinates (m, r) of images (m, d), of their part in the subspace that is searched."""
    return space.coordinates(images.to(space.singular)) / _scaling(space, power)


def search(
    problem: Problem,
    starts: Sequence[Start],
    params: SearchParams,
    report: Callable[[int, Tensor], None],
    expired: Callable[[int], bool] = lambda step: False,
    checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
    state: dict[str, Tensor] | None = None,
) -> list[StationaryPoint]:
    """Return the candidates at which the stationarity residual is smallest, found from every start at once.

    Candidate i is x_i = sum_k (S_k / rms S)^p u_ik v_k, with S_k and v_k the singular values and directions of W1 and p
    `coordinate_power`. With p > 0 all coordinates u start and move alike, although images have most of their energy in
    few directions. The residual of direction k is weighted by S_k^-q (q is `residual_power`), so that the coarse
    directions do not drown the fine ones, in which images differ. The residual of neuron j is weighted by ||w_j||^-s
    (s is `neuron_power`), so that its relative error counts. Both weights reduce what no candidate can explain: the
    fractional gates of pre-activations on the ReLU's kink, which grow with S_k and ||w_j||. For a convolution S_k and
    w_j are those of layer 2.

    With sharp gates nearly every start ends in a poor minimum; with soft ones the network is nearly linear, and
    candidates part easily. So the gates may sharpen as the search goes on (`first_alpha`; graduated optimisation, Blake
    and Zisserman 1987). Neurons count alike whatever their norms, so their gates may be alike too (`gate_power`).

    Training leaves pre-activations on the ReLU's kink. There the gate of the stationary point is any number in [0, 1]
    (Lyu & Li 2020, Appendix A), and no function of x gives it. With `offset_price` p > 0 the gates of layer 1 are
    sigmoid(alpha Z + O). The search moves the offsets O from 0, and an offset o costs p o^2. At random candidates
    offsets would explain what images must, so they are for searches that go on from what another has found.

    W1 is a sum of terms D_i' x_i, one for each candidate, and more candidates than images can make it up in many ways.
    `sparsity` is the cost of an atomic norm, the sum of the sizes of these terms, as in the deconvolution of spikes by
    particles (Chizat 2022, Sparse optimization on measures with over-parameterized gradient descent). It is for fully
    connected victims only: the W2 of a convolution is a sum of features, whose sizes the lengths of images do not
    bound. There the smoothness of natural images decides what the kernels do not see of an image: `smoothness` is the
    cost of a candidate whose coordinates on cosines, in units of the amplitudes of natural images, have a mean square
    of 1. `signal_span` and `activation_span`, both divided by sqrt(r), are the costs of a candidate that is orthogonal
    to the spans of `victims.equations.spans`.

    The searches are independent: each ends as it would alone. They are one batch because one of them cannot fill a
    device. If all candidates at once do not fit into the device's memory, they are taken in parts from then on.

    Args:
        problem: the victim, and the subspace to search.
        starts: one for each of R searches, each with m candidates; all have an `lr`, or none.
        params: hyperparameters; those that describe a start are not read.
        report: called every few steps, and after the last one, with the step and the candidates (R, m, d).
        expired: called before every step with the number of steps done; returns whether to end there.
        checkpoint: called after every step with a function that returns the state of the search.
        state: such a state of the same search, to go on from; empty or None to begin.

    Returns:
        For each start the candidates (m, d) and their weights (m,).

    Raises:
        torch.OutOfMemoryError: the parts do not fit into memory either.
    """
    space, residual = problem.space, _residual(problem, params)
    scaling = _scaling(space, params.coordinate_power)
    every = [start.coefficients for start in starts]
    price = params.sparsity * _term_bound(problem) if params.sparsity else 0.0
    amplitudes = scaling / _scaling(space, 1.0)

    def coefficients(outputs: Tensor) -> Tensor:
        return torch.stack([one.at(own) for one, own in zip(every, outputs, strict=True)])

    def gradient(alpha: float) -> Tensor:
        nonlocal residual
        try:
            return residual(coordinates * scaling, coefficients, alpha, offsets)[1]
        except torch.OutOfMemoryError:
            residual = residual.in_parts()
        # outside of the handler, because the error's traceback keeps the failed pass's tensors alive
        cycle.zero_grad()
        return residual(coordinates * scaling, coefficients, alpha, offsets)[1]

    coordinates = torch.stack([start.coordinates for start in starts]).to(scaling)
    rates = [start.lr[:, None] for start in starts if start.lr is not None]
    if rates:  # coordinates move in units of their rates, which Adam's steps do not depend on
        rate = torch.stack(rates).to(scaling)
        coordinates, scaling, amplitudes = coordinates / rate, scaling * rate, amplitudes * rate
    coordinates.requires_grad_()
    variables = [variable for one in every for variable in one.variables]
    groups, offsets = [([coordinates], params.lr), (variables, params.lambda_lr)], None
    if params.offset_price:
        neurons = len(problem.connected.weights[0])
        offsets = coordinates.new_zeros(*coordinates.shape[:-1], neurons).requires_grad_()
        groups.append(([offsets], OFFSET_LR))
    cycle = OneCycle(groups, params.steps)
    done = cycle.restore(state) if state else 0
    if state and int(state["parts"]) > 1:
        residual = residual.in_parts()

    def pixels() -> Tensor:
        return space.inputs(coordinates.detach() * scaling)

    def now() -> dict[str, Tensor]:
        return cycle.state() | {"parts": torch.tensor(residual.parts)}

    def descend(alpha: float) -> None:
        cycle.zero_grad()
        with torch.no_grad():
            coordinates.grad = gradient(alpha) * scaling
        if offsets is not None:
            (params.offset_price * offsets.square().sum()).backward()
        if params.smoothness:
            (params.smoothness * (coordinates * amplitudes).square().mean(-1).sum()).backward()
        if price:
            lengths = (coordinates * rate if rates else coordinates).norm(dim=-1)
            (price * _sum_of_terms(every, lengths)).backward()

    differentiated = Repeated(descend, coordinates.device)
    for step in range(done + 1, params.steps + 1):
        if expired(step - 1):
            break
        differentiated(params.sharpness(step))
        cycle.step()
        if step % REPORT_STEPS == 0 or step == params.steps:
            report(step, pixels())
        checkpoint(now)
    return [StationaryPoint(candidates, one.sizes().detach()) for candidates, one in zip(pixels(), every, strict=True)]


def _scaling(space: RowSpace | CosineSpace, power: float) -> Tensor:
    """Return (S_k / rms S)^p, (r,)."""
    relative: Tensor = space.singular / space.singular.square().mean().sqrt()
    return relative**power


def _sum_of_terms(every: Sequence[Coefficients], lengths: Tensor) -> Tensor:
    """Return the sum of |c_i| ||x_i|| over all candidates of all searches, whose lengths ||x_i|| are (R, m)."""
    return torch.stack([one.sizes() @ own for one, own in zip(every, lengths, strict=True)]).sum()


def _term_bound(problem: Problem) -> float:
    """Return the factor b such that b |c_i| ||x_i|| bounds ||D_i' x_i|| / ||W1||, divided by sqrt(r).

    D_i' x_i is candidate i's term of W1, and ||D_i|| is at most |c_i| times the spectral norms of the layers above.
    Divided by sqrt(r), the bounds of r orthogonal terms of equal length sum to about 1, as each has 1 / sqrt(r) of
    ||W1||. The search takes ||x_i|| on its own coordinates, where fine directions weigh as much as coarse ones.
    """
    first, *rest = problem.connected.weights
    gain = math.prod(float(torch.linalg.matrix_norm(weight, ord=2)) for weight in rest)
    return gain / float(first.norm()) / math.sqrt(problem.space.rank)


def _residual(problem: Problem, params: SearchParams) -> StationarityResidual | FeatureResidual:
    """Return the residual on the coordinates of the search, its entries weighted as `search` says."""
    network, subspace = problem.connected, problem.data_subspace
    weight, bias = network.weights[0], network.biases[0]
    norms = neuron_norms(weight, bias)
    rms = subspace.singular.square().mean().sqrt()
    bias_size = float(bias.norm() / rms) if bias is not None and subspace.gap else 1.0
    power = params.residual_power
    neurons, coordinates = norms**-params.neuron_power, (subspace.singular / rms) ** -power
    sharpness = norms**-params.gate_power if params.gate_power else None
    bias_weight = bias_size**-power if bias_size > 0 else 1.0
    weighting = Weighting(params.by_layer(network.depth), neurons, coordinates, bias_weight)
    size = math.sqrt(subspace.rank)
    error_cost, activation_cost = params.signal_span / size, params.activation_span / size
    if problem.features is None:
        spans = problem.spans(error_cost, activation_cost)
        return StationarityResidual(network, weighting, spans=spans, sharpness=sharpness)
    assert isinstance(problem.space, CosineSpace)  # images before convolutions are on cosines
    residual = StationarityResidual(network, weighting, spans=problem.spans(error_cost, 0), sharpness=sharpness)
    return FeatureResidual(
        problem.network, problem.space, SpanPenalty(problem.features.basis, activation_cost), residual
    )
