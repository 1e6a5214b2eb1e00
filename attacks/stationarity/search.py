"""The fast solver: Adam on the stationarity residual, in coordinates of W1's row space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.stationarity.autodiff import AutodiffResidual
from attacks.stationarity.coefficients import Coefficients
from attacks.stationarity.network import Network
from attacks.stationarity.residual import StationarityResidual, Weighting
from attacks.stationarity.row_space import RowSpace

REPORT_STEPS = 20
WARM_UP = 0.2
SHORTEST_CYCLE = 10
"""Fewer steps are the beginning of a cycle of so many: shorter ones have no warm-up to divide by."""
SMALLEST_NEURON = 0.02
"""Norm, relative to the root mean square, under which a neuron of layer 1 counts as small as this."""


@dataclass(frozen=True)
class SearchSettings:
    """Hyperparameters of `search`; see the fields of the same names in `SearchParams`."""

    steps: int
    lr: float
    lambda_lr: float
    init_scale: float
    alpha: float
    layer_weights: tuple[float, ...]
    coordinate_power: float
    residual_power: float
    neuron_power: float


@dataclass(frozen=True)
class Found:
    """The end of one search: candidates (m, d) and their weights (m,)."""

    candidates: Tensor
    sizes: Tensor


def search(
    network: Network,
    space: RowSpace,
    coefficients: Coefficients,
    m: int,
    settings: SearchSettings,
    generator: torch.Generator,
    report: Callable[[int, Tensor], None],
    start: Tensor | None = None,
    expired: Callable[[int], bool] = lambda step: False,
) -> Found:
    """Minimise the stationarity residual over candidates and coefficients from one random start.

    Candidate i is x_i = sum_k (S_k / rms S)^p c_ik v_k with S_k, v_k the singular values and directions of W1: with
    p > 0 all coordinates c start and move alike although images have most of their energy in few directions. The
    residual's columns are weighted by S_k^-q, so that the fine directions, where one image differs from another, are
    not drowned by the coarse ones, and its rows by ||w_j||^-s, so that every neuron's relative error counts: what no
    candidate can explain, the fractional gates of pre-activations on the ReLU's kink, grows with both sizes. Where all
    candidates at once do not fit into the device's memory, they are taken in parts from then on.

    Args:
        network: the victim, on pixels.
        space: where to search.
        coefficients: what the coefficients are and how they move.
        m: the number of candidates.
        settings: hyperparameters.
        generator: CPU generator of the start.
        report: called every few steps, and after the last one, with the step and the candidates (m, d).
        start: (m, d) candidates to start from, of which the part in W1's row space counts; None to draw them.
        expired: asked before every step, with the steps done, whether to end there.

    Raises:
        torch.OutOfMemoryError: the parts do not fit either.
    """
    relative = space.singular / space.singular.square().mean().sqrt()
    scaling = relative**settings.coordinate_power
    residual = _residual(network, space, relative, settings)

    def gradient() -> Tensor:
        nonlocal residual
        try:
            return residual(coordinates * scaling, coefficients.rows, settings.alpha)[1]
        except torch.OutOfMemoryError:
            residual = residual.in_parts()
            optimizer.zero_grad()
            return residual(coordinates * scaling, coefficients.rows, settings.alpha)[1]

    if start is None:
        draw = torch.randn(m, space.rank, generator=generator) * settings.init_scale
    else:
        draw = start.to(scaling) @ space.basis / scaling
    coordinates = draw.to(scaling).requires_grad_()
    groups = [
        {"params": [coordinates], "lr": settings.lr},
        {"params": coefficients.variables, "lr": settings.lambda_lr},
    ]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [settings.lr, settings.lambda_lr], total_steps=max(settings.steps, SHORTEST_CYCLE), pct_start=WARM_UP
    )

    def pixels() -> Tensor:
        return (coordinates.detach() * scaling) @ space.basis.T

    for step in range(1, settings.steps + 1):
        if expired(step - 1):
            break
        optimizer.zero_grad()
        with torch.no_grad():
            coordinates.grad = gradient() * scaling
        optimizer.step()
        schedule.step()
        if step % REPORT_STEPS == 0 or step == settings.steps:
            report(step, pixels())
    return Found(pixels(), coefficients.sizes())


def _residual(
    network: Network, space: RowSpace, relative: Tensor, settings: SearchSettings
) -> StationarityResidual | AutodiffResidual:
    """Return the residual on the coordinates of the search; a convolution is searched in pixels, unweighted."""
    if network.convolutional:
        return AutodiffResidual(network, settings.layer_weights)
    reduced = network.on_coordinates(space.basis)
    return StationarityResidual(reduced, _weighting(reduced, relative, space, settings))


def _weighting(network: Network, relative: Tensor, space: RowSpace, settings: SearchSettings) -> Weighting:
    """Return the weights of the residual's entries: neurons by their norm, coordinates and bias by their size."""
    weight, bias = network.weights[0], network.biases[0]
    squares = weight.square().sum(1) + (0 if bias is None else bias.square())
    norms = (squares / squares.mean()).sqrt().clamp_min(SMALLEST_NEURON)
    bias_size = 1.0
    if bias is not None and space.gap:
        bias_size = float(bias.norm() / space.singular.square().mean().sqrt())
    power = settings.residual_power
    rows, columns = norms**-settings.neuron_power, relative**-power
    return Weighting(settings.layer_weights, rows, columns, bias_size**-power)
