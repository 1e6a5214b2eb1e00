"""Victims that learn all their images are trained once and kept; released weights are loaded and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from victims import datasets, released
from victims.base import Victim
from victims.cache import WEIGHTS, cache_dir, locked_folder, origin, unfinished, victim_card, victim_folder
from victims.card import VictimCard, describe, require_finite
from victims.datasets import Split
from victims.defences import victim as defences
from victims.defences.stacking import undefended
from victims.equations.architectures import blank
from victims.errors import UserError
from victims.files import write_tensors
from victims.kernel import obtain as kernel
from victims.ordinary import obtain as ordinary
from victims.ordinary.displacement import with_start
from victims.recipes import Interpolation, Ordinary, Released
from victims.spec import BuiltSpec, VictimSpec
from victims.training import loop


def obtain(
    spec: VictimSpec,
    data_dir: Path | None,
    device: torch.device,
    report: Callable[[loop.TrainProgress], None],
    notice: Callable[[str], None],
) -> Victim:
    """Return a victim: from the cache if it is there and whole, else trained and cached.

    A victim with defences on release is made from the one without them, which is trained once for all such defences.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.
        device: where to train.
        report: told the training's progress.
        notice: told in one line what the user should know, such as a cached file that was found altered.

    Raises:
        UserError: the data are missing or malformed, the training diverged, or the cache cannot be written.
    """
    trained = undefended(spec)
    if trained != spec:
        return defences.released(spec, obtain(trained, data_dir, device, report, notice), device, notice)
    if spec.training.kind == "released":
        return _released(spec, data_dir, notice)
    if isinstance(spec.training, Ordinary | Interpolation):
        return ordinary.obtain(spec, data_dir, device, report, notice)
    split = split_of(spec, data_dir)
    if spec.training.kind == "kernel":
        return kernel.obtain(spec, split, data_dir, notice)
    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        victim = _load(spec, folder, split, notice) or _train(spec, folder, split, dataset_sha256, device, report)
        require_finite(spec, victim.model)
        return victim


def split_of(spec: VictimSpec, data_dir: Path | None) -> Split:
    """Return what a victim that is trained here learns.

    Raises:
        UserError: the data are missing or malformed, or the images that it learns are all the same.
    """
    raw = datasets.load(spec.dataset, data_dir).in_order_of(spec.retraining)
    split = datasets.select(raw, spec.n, spec.groups, skip_first=spec.twin == "disjoint")
    if len(split.inputs) > 1 and (split.inputs == split.inputs[0]).all():
        raise UserError(f"victim {spec.name}: the {spec.n} images of {spec.dataset} that it learns are all the same")
    return split


def spare_inputs(victim: Victim, data_dir: Path | None, most: int) -> np.ndarray:
    """Return images of a victim's dataset that it neither learns nor is tested on, as its inputs.

    Returns:
        (k, C, H, W) float32 with k <= most, none for a victim that is not trained here.

    Raises:
        UserError: the data are missing or malformed.
    """
    spare = victim.split.spare[:most]
    if not len(spare):
        return victim.split.test_inputs[:0]
    raw = datasets.load(victim.spec.dataset, data_dir).in_order_of(victim.spec.retraining)
    inputs: np.ndarray = (raw.train_images[spare] - victim.split.mean) / victim.scale
    return inputs.astype(np.float32)


def _released(spec: VictimSpec, data_dir: Path | None, notice: Callable[[str], None]) -> Victim:
    """Load a victim that is not trained here, and keep its card for `trained_card`."""
    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    victim = released.load(spec, dataset_sha256, notice)
    if victim.start is not None:
        assert isinstance(spec.training, Released)
        card = with_start(victim.card, spec.training.initial_sha256, victim.start, victim.model.state_dict())
        victim = replace(victim, card=card)
    try:
        victim.card.store(victim_folder(spec, dataset_sha256))
    except OSError as error:
        hint = "name another cache with BENCH_CACHE_DIR"
        raise UserError(f"cannot write to the folder of victims {cache_dir()} ({error.strerror}); {hint}") from None
    return victim


def _load(spec: VictimSpec, folder: Path, split: Split, notice: Callable[[str], None]) -> Victim | None:
    card = victim_card(VictimCard, spec, folder, notice)
    if card is None:
        return None
    assert isinstance(spec.architecture, BuiltSpec)
    model = blank(spec.architecture, split.inputs.shape[1:])
    model.load_state_dict(load_file(folder / WEIGHTS))
    return Victim(card, model, split)


def _train(
    spec: VictimSpec,
    folder: Path,
    split: Split,
    dataset_sha256: str,
    device: torch.device,
    report: Callable[[loop.TrainProgress], None],
) -> Victim:
    inputs, labels = torch.from_numpy(split.inputs), torch.from_numpy(split.labels)
    with unfinished(spec, folder) as training:
        model = loop.train(spec, inputs, labels, device, training, report).float()
        seconds = training.seconds
        require_finite(spec, model)
        stored = write_tensors(folder / WEIGHTS, model.state_dict())
        card = describe(spec, model, split, origin(stored, dataset_sha256, device, seconds, training.source))
        card.store(folder)
    return Victim(card, model, split)
