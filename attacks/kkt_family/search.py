"""The fast solver: Adam on the stationarity residual, in coordinates of W1's row space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.kkt_family.coefficients import Coefficients
from attacks.kkt_family.one_cycle import OneCycle
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.convolution import FeatureResidual
from victims.equations.row_space import RowSpace
from victims.equations.spans import Span

REPORT_STEPS = 20
SMALLEST_NEURON = 0.02
"""Norm, relative to the root mean square, under which a neuron of layer 1 counts as small as this."""


@dataclass(frozen=True)
class Start:
    """Where one search begins.

    Attributes:
        coordinates: (m, r) of its candidates in the space that is searched.
        coefficients: what they are and how they move.
    """

    coordinates: Tensor
    coefficients: Coefficients


@dataclass(frozen=True)
class Found:
    """The end of one search: candidates (m, d) and their weights (m,)."""

    candidates: Tensor
    sizes: Tensor


def coordinates_of(images: Tensor, space: RowSpace, power: float) -> Tensor:
    """Return the coordinates (m, r) from which images (m, d) are searched: of their part in the row space."""
    return images.to(space.basis) @ space.basis / _scaling(space, power)


def search(
    problem: Problem,
    starts: Sequence[Start],
    params: SearchParams,
    report: Callable[[int, Tensor], None],
    expired: Callable[[int], bool] = lambda step: False,
    checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
    state: dict[str, Tensor] | None = None,
) -> list[Found]:
    """Minimise the stationarity residual over candidates and coefficients, from every start at once.

    Candidate i is x_i = sum_k (S_k / rms S)^p c_ik v_k with S_k, v_k the singular values and directions of W1: with
    p > 0 all coordinates c start and move alike although images have most of their energy in few directions. The
    residual's columns are weighted by S_k^-q, so that the fine directions, where one image differs from another, are
    not drowned by the coarse ones, and its rows by ||w_j||^-s, so that every neuron's relative error counts: what no
    candidate can explain, the fractional gates of pre-activations on the ReLU's kink, grows with both sizes. For a
    convolution S_k^-q and ||w_j||^-s are those of layer 2. Where all candidates at once do not fit into the device's
    memory, they are taken in parts from then on.

    W1 is a sum of terms D_i x_i, one a candidate. More candidates than images can make it up in many ways; `sparsity`
    asks for one whose terms are small in sum, an atomic norm, as in the deconvolution of spikes by particles (Chizat
    2022, Sparse optimization on measures with over-parameterized gradient descent). That is for fully connected
    victims: a convolution's W2 is a sum of features, of which the lengths of images say nothing. `signal_span` and
    `activation_span`, over sqrt(r) too, are the costs of a candidate all outside the spans that the weights show
    (`Spans`).

    The searches do not know of each other: each ends as it would alone, and all are one batch, for a device that one
    of them cannot fill.

    Args:
        problem: the victim, and where to search.
        starts: one a search, each with m candidates.
        params: hyperparameters; those of the starts are not looked at.
        report: called every few steps, and after the last one, with the step and the candidates (R, m, d).
        expired: asked before every step, with the steps done, whether to end there.
        checkpoint: offered, after every step, the state from which the search can go on.
        state: such a state of the same search; empty or None to begin.

    Raises:
        torch.OutOfMemoryError: the parts do not fit either.
    """
    space, residual = problem.space, _residual(problem, params)
    scaling = _scaling(space, params.coordinate_power)
    every = [start.coefficients for start in starts]
    price = params.sparsity * _share(problem) if params.sparsity else 0.0

    def rows(outputs: Tensor) -> Tensor:
        return torch.stack([one.rows(own) for one, own in zip(every, outputs, strict=True)])

    def gradient() -> Tensor:
        nonlocal residual
        try:
            return residual(coordinates * scaling, rows, params.alpha)[1]
        except torch.OutOfMemoryError:
            residual = residual.in_parts()
        # outside of the handler: the error's traceback would keep alive what did not fit
        cycle.zero_grad()
        return residual(coordinates * scaling, rows, params.alpha)[1]

    coordinates = torch.stack([start.coordinates for start in starts]).to(scaling).requires_grad_()
    variables = [variable for one in every for variable in one.variables]
    cycle = OneCycle([([coordinates], params.lr), (variables, params.lambda_lr)], params.steps)
    done = 0
    if state:
        done = cycle.restore(state)
        residual = residual.in_parts() if int(state["parts"]) > 1 else residual

    def pixels() -> Tensor:
        return (coordinates.detach() * scaling) @ space.basis.T

    def now() -> dict[str, Tensor]:
        return cycle.state() | {"parts": torch.tensor(residual.parts)}

    for step in range(done + 1, params.steps + 1):
        if expired(step - 1):
            break
        cycle.zero_grad()
        with torch.no_grad():
            coordinates.grad = gradient() * scaling
        if price:
            terms = [one.sizes() @ own.norm(dim=1) for one, own in zip(every, coordinates, strict=True)]
            (price * torch.stack(terms).sum()).backward()
        cycle.step()
        if step % REPORT_STEPS == 0 or step == params.steps:
            report(step, pixels())
        checkpoint(now)
    return [Found(candidates, one.sizes().detach()) for candidates, one in zip(pixels(), every, strict=True)]


def _scaling(space: RowSpace, power: float) -> Tensor:
    """Return (S_k / rms S)^p, (r,)."""
    relative: Tensor = space.singular / space.singular.square().mean().sqrt()
    return relative**power


def _share(problem: Problem) -> float:
    """Return what makes of |c_i| ||x_i|| a bound on the share that the term D_i x_i has of ||W1||, over sqrt(r).

    ||D_i|| is at most |c_i| times the spectral norms of the layers above. r terms at right angles to each other, of one
    length, have shares of 1 / sqrt(r) each: over sqrt(r) their sum is 1. The search takes the length of x_i in its own
    coordinates, where fine directions count as coarse ones do.
    """
    first, *rest = problem.connected.weights
    gain = math.prod(float(torch.linalg.matrix_norm(weight, ord=2)) for weight in rest)
    return gain / float(first.norm()) / math.sqrt(problem.space.rank)


def _residual(problem: Problem, params: SearchParams) -> StationarityResidual | FeatureResidual:
    """Return the residual on the coordinates of the search.

    Its entries are weighted: neurons by their norm, coordinates and bias by their size.
    """
    network, shown = problem.connected, problem.shown
    weight, bias = network.weights[0], network.biases[0]
    squares = weight.square().sum(1) + (0 if bias is None else bias.square())
    norms = (squares / squares.mean()).sqrt().clamp_min(SMALLEST_NEURON)
    mean_square = shown.singular.square().mean().sqrt()
    bias_size = float(bias.norm() / mean_square) if bias is not None and shown.gap else 1.0
    power = params.residual_power
    rows, columns = norms**-params.neuron_power, (shown.singular / mean_square) ** -power
    weighting = Weighting(params.by_layer(network.depth), rows, columns, bias_size**-power)
    size = math.sqrt(problem.shown.rank)
    signals, activations = params.signal_span / size, params.activation_span / size
    if problem.features is None:
        return StationarityResidual(network, weighting, spans=problem.spans(signals, activations))
    residual = StationarityResidual(network, weighting, spans=problem.spans(signals, 0))
    return FeatureResidual(problem.network, problem.space, Span(problem.features.basis, activations), residual)
