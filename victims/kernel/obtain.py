"""Kernel machines are fitted once and kept; they learn images in [0, 1], of which no mean is subtracted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from victims import datasets
from victims.base import Victim
from victims.cache import WEIGHTS, locked_folder, origin, training_sha, victim_card
from victims.card import VictimCard, describe
from victims.datasets import Split
from victims.files import write_tensors
from victims.kernel.fitting import fitted
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import KernelFit, KernelSpec
from victims.spec import VictimSpec


def obtain(spec: VictimSpec, split: Split, data_dir: Path | None, notice: Callable[[str], None]) -> Victim:
    """Return a kernel machine: from the cache if it is there and whole, else fitted and cached.

    Args:
        spec: the victim.
        split: what it learns, less its mean.
        data_dir: the data folder, None for the default.
        notice: told in one line what the user should know, such as a cached file that was found altered.

    Raises:
        UserError: the cache cannot be written.
    """
    assert isinstance(spec.architecture, KernelSpec)
    assert isinstance(spec.training, KernelFit)
    own, dataset_sha256 = in_pixels(split), datasets.fingerprint(spec.dataset, data_dir)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        card = victim_card(VictimCard, spec, folder, notice)
        if card is not None:
            model = KernelMachine.of(spec.architecture.model, spec.architecture.kernel, load_file(folder / WEIGHTS))
            return Victim(card, model, own)
        begun = time.monotonic()
        model = fitted(spec.architecture, spec.training, own.inputs, own.labels)
        seconds = time.monotonic() - begun
        stored, source = write_tensors(folder / WEIGHTS, model.state_dict()), training_sha(spec.setting)
        card = describe(spec, model, own, origin(stored, dataset_sha256, torch.device("cpu"), seconds, source))
        card.store(folder)
        return Victim(card, model, own)


def in_pixels(split: Split) -> Split:
    """Return a selection whose inputs are the images themselves, and whose mean is zero."""
    return Split(
        inputs=split.images.astype(np.float32),
        labels=split.labels,
        indices=split.indices,
        mean=np.zeros_like(split.mean),
        test_inputs=(split.test_inputs + split.mean).clip(0, 1).astype(np.float32),
        test_labels=split.test_labels,
        spare=split.spare,
    )
