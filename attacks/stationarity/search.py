"""The fast solver: Adam on the stationarity residual, in coordinates of W1's row space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.stationarity.coefficients import Coefficients
from attacks.stationarity.features import FeatureResidual
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
    span_weight: float = 0.0


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
    features: RowSpace | None = None,
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
        features: for a convolution, what W2 shows of their space; S_k^-q and ||w_j||^-s are then those of layer 2.

    Raises:
        torch.OutOfMemoryError: the parts do not fit either.
    """
    relative = space.singular / space.singular.square().mean().sqrt()
    scaling = relative**settings.coordinate_power
    residual = _residual(network, space, features, settings)

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
    network: Network, space: RowSpace, features: RowSpace | None, settings: SearchSettings
) -> StationarityResidual | FeatureResidual:
    """Return the residual on the coordinates of the search."""
    if features is None:
        return _connected(network, space, settings)
    after = _connected(network.after_first(), features, settings)
    return FeatureResidual(network, space, features, after, settings.span_weight)


def _connected(network: Network, space: RowSpace, settings: SearchSettings) -> StationarityResidual:
    """Return the residual of a fully connected network on coordinates of its inputs.

    Its entries are weighted: neurons by their norm, coordinates and bias by their size.
    """
    reduced = network.on_coordinates(space.basis)
    weight, bias = reduced.weights[0], reduced.biases[0]
    squares = weight.square().sum(1) + (0 if bias is None else bias.square())
    norms = (squares / squares.mean()).sqrt().clamp_min(SMALLEST_NEURON)
    mean_square = space.singular.square().mean().sqrt()
    bias_size = float(bias.norm() / mean_square) if bias is not None and space.gap else 1.0
    power = settings.residual_power
    rows, columns = norms**-settings.neuron_power, (space.singular / mean_square) ** -power
    return StationarityResidual(reduced, Weighting(settings.layer_weights, rows, columns, bias_size**-power))
