"""Victims whose start is kept beside their weights: trained once, and cached like the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from victims import datasets
from victims.base import Victim
from victims.cache import WEIGHTS, locked_folder, origin, unfinished, victim_card
from victims.card import VictimCard, describe, require_finite
from victims.datasets import RawDataset, Split
from victims.equations.architectures import blank
from victims.equations.checkpoint import Checkpoint
from victims.errors import UserError
from victims.files import under, write_tensors
from victims.ordinary.descent import Examples
from victims.ordinary.displacement import with_start
from victims.ordinary.interpolation import interpolate
from victims.ordinary.training import train_ordinary
from victims.recipes import Interpolation, Ordinary
from victims.spec import BuiltSpec, VictimSpec
from victims.training.loop import TrainProgress

START, SNAPSHOTS, MOMENTUM = "start.safetensors", "snapshots.safetensors", "momentum.safetensors"
CHECKPOINTS = "checkpoints.safetensors"
"""The files, beside every victim's two, of the weights that its training started from, of weights on the way, of the
optimiser's running mean of the gradients, and of what the training goes on from."""
TEST_IMAGES = 500
FLAT = 1e-6
"""A channel of smaller deviation is left as it is."""


@dataclass(frozen=True)
class Data:
    """What a victim learns.

    Attributes:
        split: its training and test data.
        scale: (C, 1, 1) what pixels of [0, 1] less the split's mean are divided by.
        others: images for a start that is pre-trained: neither members, nor its twin's members, nor test images.
    """

    split: Split
    scale: np.ndarray
    others: Examples

    @property
    def members(self) -> Examples:
        """The training data."""
        black, white = (torch.from_numpy((end - self.split.mean[:, :1, :1]) / self.scale) for end in (0, 1))
        return Examples(torch.from_numpy(self.split.inputs), torch.from_numpy(self.split.labels), black, white)


def obtain(
    spec: VictimSpec,
    data_dir: Path | None,
    device: torch.device,
    report: Callable[[TrainProgress], None],
    notice: Callable[[str], None],
) -> Victim:
    """Return a victim with its start: from the cache if it is there and whole, else trained and cached.

    Args:
        spec: the victim, trained by `Ordinary` or `Interpolation`.
        data_dir: the data folder, None for the default.
        device: where to train; random features are fitted on the CPU, as the card says.
        report: told the training's progress.
        notice: told in one line what the user should know, such as a cached file that was found altered.

    Raises:
        UserError: the data are missing or too few, the training diverged, or the cache cannot be written.
    """
    data = data_of(spec, datasets.load(spec.dataset, data_dir).in_order_of(spec.retraining))
    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        victim = _load(spec, folder, data, notice)
        return victim or _train(spec, folder, data, dataset_sha256, device, report)


def data_of(spec: VictimSpec, raw: RawDataset) -> Data:
    """Return what a victim learns, and what a pre-trained start has learnt.

    Raises:
        UserError: there are too few images.
    """
    own = datasets.select(raw, spec.n, spec.groups, TEST_IMAGES)
    split = own
    if spec.twin == "disjoint":
        split = datasets.select(raw, spec.n, spec.groups, TEST_IMAGES, skip_first=True)
    mean, scale = _mean_and_scale(spec, raw.train_images)
    others = _others(spec, raw, own, mean, scale)
    standardised = Split(
        inputs=((split.inputs + split.mean - mean) / scale).astype(np.float32),
        labels=split.labels,
        indices=split.indices,
        mean=np.broadcast_to(mean, split.mean.shape).copy(),
        test_inputs=((split.test_inputs + split.mean - mean) / scale).astype(np.float32),
        test_labels=split.test_labels,
        spare=split.spare,
    )
    return Data(standardised, scale, others)


def _mean_and_scale(spec: VictimSpec, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what is subtracted from images (n, C, H, W) and what they are then divided by, each (C, 1, 1)."""
    mean = images.mean((0, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)[0]
    if isinstance(spec.training, Ordinary) and spec.training.inputs == "raw":
        return np.zeros_like(mean), np.ones_like(mean)
    scale = images.std((0, 2, 3), keepdims=True, dtype=np.float64).astype(np.float32)[0]
    return mean, np.where(scale > FLAT, scale, np.float32(1))


def _others(spec: VictimSpec, raw: RawDataset, own: Split, mean: np.ndarray, scale: np.ndarray) -> Examples:
    """Return the images of the pre-training, none if there is none."""
    pool = raw.train_images
    if not isinstance(spec.training, Ordinary) or spec.training.pretraining is None:
        return Examples(torch.from_numpy(pool[:0]), torch.zeros(0, dtype=torch.int64))
    if spec.groups is None:
        raise UserError(f"victim {spec.name}: a checkpoint is pre-trained on all labels: give it as many outputs")
    twin = datasets.select(raw, spec.n, spec.groups, TEST_IMAGES, skip_first=True)
    taken = {image.tobytes() for image in (own.test_inputs + own.mean).round(4)}
    chosen = np.ones(len(pool), bool)
    chosen[own.indices] = chosen[twin.indices] = False
    chosen &= np.array([image.tobytes() not in taken for image in pool.round(4)])
    chosen &= raw.train_labels < spec.n_classes
    if not chosen.any():
        raise UserError(f"victim {spec.name}: {spec.dataset} has no images left to pre-train its start on")
    inputs = ((pool[chosen] - mean) / scale).astype(np.float32)
    return Examples(torch.from_numpy(inputs), torch.from_numpy(raw.train_labels[chosen]))


def _load(spec: VictimSpec, folder: Path, data: Data, notice: Callable[[str], None]) -> Victim | None:
    card = victim_card(VictimCard, spec, folder, notice, (WEIGHTS, START, SNAPSHOTS, MOMENTUM, CHECKPOINTS))
    if card is None:
        return None
    assert isinstance(spec.architecture, BuiltSpec)
    model = blank(spec.architecture, data.split.inputs.shape[1:])
    model.load_state_dict(load_file(folder / WEIGHTS))
    earlier = tuple(_unpacked(load_file(folder / SNAPSHOTS))) if card.snapshots_sha256 else ()
    momentum = load_file(folder / MOMENTUM) if card.momentum_sha256 else None
    states = _unpacked(load_file(folder / CHECKPOINTS)) if card.checkpoints_sha256 else []
    checkpoints = tuple(map(Checkpoint.unpacked, states))
    return Victim(card, model, data.split, data.scale, load_file(folder / START), earlier, momentum, checkpoints)


def _train(
    spec: VictimSpec,
    folder: Path,
    data: Data,
    dataset_sha256: str,
    device: torch.device,
    report: Callable[[TrainProgress], None],
) -> Victim:
    with unfinished(spec, folder) as training:
        if isinstance(spec.training, Interpolation):
            trained, device = interpolate(spec, data.members, report), torch.device("cpu")
        else:
            trained = train_ordinary(spec, data.members, data.others, device, report, training)
        start, model = trained.start.float(), trained.model.float()
        seconds = training.seconds
        require_finite(spec, model)
        begun = write_tensors(folder / START, start.state_dict())
        kept = {
            SNAPSHOTS: _packed({epoch: _single(state) for epoch, state in trained.snapshots.items()}),
            MOMENTUM: _single(trained.momentum),
            CHECKPOINTS: _packed({epoch: state.packed() for epoch, state in trained.checkpoints.items()}),
        }
        hashes = {name: write_tensors(folder / name, tensors) for name, tensors in kept.items() if tensors}
        stored = write_tensors(folder / WEIGHTS, model.state_dict())
        card = describe(spec, model, data.split, origin(stored, dataset_sha256, device, seconds, training.source))
        card = with_start(card, begun, start.state_dict(), model.state_dict())
        card = card.model_copy(update={f"{Path(name).stem}_sha256": sha for name, sha in hashes.items()})
        card.store(folder)
    earlier, momentum = tuple(_unpacked(kept[SNAPSHOTS])), kept[MOMENTUM] or None
    checkpoints = tuple(state for _, state in sorted(trained.checkpoints.items()))
    return Victim(card, model, data.split, data.scale, start.state_dict(), earlier, momentum, checkpoints)


def _packed(states: dict[int, dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors after some epochs as one state, with the epoch before each name."""
    return {name: value for epoch, state in states.items() for name, value in under(f"{epoch}.", state).items()}


def _single(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state in float32; whole numbers stay."""
    return {name: value.float() if value.is_floating_point() else value for name, value in state.items()}


def _unpacked(packed: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the tensors after each epoch, the first epoch first."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in packed.items():
        epoch, _, name = key.partition(".")
        states.setdefault(int(epoch), {})[name] = value
    return [states[epoch] for epoch in sorted(states)]
