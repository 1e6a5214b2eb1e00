"""Loads a model of somebody's own and measures it on the data given."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from victims.base import Victim
from victims.cache import origin
from victims.card import describe
from victims.datasets import Split
from victims.datasets.tables import Units
from victims.errors import UserError
from victims.files import sha256_file
from victims.released.data import Given, given
from victims.released.module import Shape, loaded, started
from victims.released.optimiser import momentum_of
from victims.released.progress import progress_of
from victims.spec import Released, VictimSpec


def load(spec: VictimSpec, dataset_sha256: str, notice: Callable[[str], None]) -> Victim:
    """Load a released victim and measure it on the images or rows given, if there are any.

    Args:
        spec: the victim.
        dataset_sha256: the fingerprint of what is given.
        notice: told in one line which weights of the start are taken from the released ones.

    Raises:
        UserError: a file cannot be read, changed since the plug-in was loaded, or holds none of the network's weights.
    """
    training = spec.training
    assert isinstance(training, Released)
    assert training.network is not None
    if training.held_out is not None and sha256_file(training.held_out) != training.held_out_sha256:
        raise UserError(f"victim {spec.name}: {training.held_out} changed while this ran; start again")
    data = given(spec.dataset, training.shape, training.columns, training.label_column, training.held_out)
    split, scale, units = _as_inputs(data, training)
    shape = data.shape
    model = loaded(spec.name, training.network, training.weights, training.weights_sha256, shape)
    start = None
    if training.initial is not None:
        initial = training.initial, training.initial_sha256
        start, taken = started(spec.name, training.network, *initial, shape, end=training.weights)
        if taken:
            what = f"{training.initial} has no {', '.join(taken)} of this shape"
            notice(f"victim {spec.name}: {what}; this part of the last layer is taken to start as it was released")
    momentum = None
    if training.state is not None:
        state = training.state, training.state_sha256
        momentum = momentum_of(spec.name, training.network, training.weights, *state, shape)
    checkpoints = () if training.earlier is None else progress_of(spec.name, training, shape)
    earlier = tuple(_earlier(spec.name, training, *file, shape) for file in training.on_the_way)
    made = origin(training.weights_sha256, dataset_sha256, torch.device("cpu"), train_s=0.0)
    card = describe(spec, model, split, made)
    if not (math.isfinite(card.train_loss) if spec.n else _finite_at_zero(model, shape)):
        raise UserError(f"victim {spec.name}: its outputs are not finite; do weights and normalisation fit?")
    return Victim(card, model, split, scale, start, earlier, momentum, checkpoints, units)


def _earlier(name: str, training: Released, weights: Path, sha256: str, shape: Shape) -> dict[str, Tensor]:
    """Return weights on the way as attacks see them, normalised as the release is, so that they differ by steps alone.

    Raises:
        UserError: as for `loaded`.
    """
    assert training.network is not None
    state, taken = started(name, training.network, weights, sha256, shape, end=training.weights)
    if taken:
        lacks = f"it has no {', '.join(taken)} of this shape"
        raise UserError(f"victim {name}: {weights} does not fit the network: {lacks}")
    return state


def _as_inputs(data: Given, training: Released) -> tuple[Split, np.ndarray, Units | None]:
    """Return all data given as inputs of the network, what one unit of input is in [0, 1], and a table's units."""
    raw, units = data.raw, data.units
    per_channel = units is None
    scale = np.array(training.std, np.float64).reshape((-1, 1, 1) if per_channel else (1, 1, -1))
    if training.mean == "training":
        mean = raw.train_images.mean(axis=0, dtype=np.float64)
    else:
        mean = np.array(training.mean, np.float64).reshape((-1, 1, 1) if per_channel else (1, 1, -1))
    if units is not None:  # mean and std are told in the table's units
        if not len(raw.train_labels):
            assert training.mean != "training"
            units = Units.of_scale(units.columns, training.mean, training.std)
        scale = scale / units.span
        mean = mean if training.mean == "training" else (mean - units.low) / units.span
    scale = scale.astype(np.float32)
    mean = np.broadcast_to(mean.astype(np.float32), data.shape).copy()
    split = Split(
        inputs=(raw.train_images - mean) / scale,
        labels=raw.train_labels,
        indices=np.arange(len(raw.train_labels)),
        mean=mean,
        test_inputs=(raw.test_images - mean) / scale,
        test_labels=raw.test_labels,
    )
    return split, scale, units


@torch.no_grad()
def _finite_at_zero(model: nn.Module, shape: Shape) -> bool:
    return bool(model(torch.zeros(2, *shape)).isfinite().all())
