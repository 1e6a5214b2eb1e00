"""Kernel machines are fitted once and kept; they learn images in [0, 1], of which no mean is subtracted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from victims import datasets
from victims.base import Victim
from victims.cache import CARD, DAMAGED, WEIGHTS, cache_dir, locked_folder, training_sha, whole_card
from victims.card import VictimCard, describe
from victims.datasets import Split
from victims.files import atomic, sha256_file, write_text
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
    own, kept = in_pixels(split), f"victim {spec.name}"
    dataset_sha256 = datasets.fingerprint(spec.dataset, data_dir)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        card = whole_card(VictimCard, folder, kept, cache_dir() / DAMAGED, notice)
        if card is not None:
            model = KernelMachine.of(spec.architecture.model, spec.architecture.kernel, load_file(folder / WEIGHTS))
            return Victim(card.model_copy(update={"name": spec.name, "spec": spec}), model, own)
        begun = time.monotonic()
        model = fitted(spec.architecture, spec.training, own.inputs, own.labels)
        seconds = time.monotonic() - begun
        with atomic(folder / WEIGHTS) as path:
            save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)
        card = describe(
            spec,
            model,
            own,
            weights_sha256=sha256_file(folder / WEIGHTS),
            dataset_sha256=dataset_sha256,
            device=torch.device("cpu"),
            train_s=seconds,
            training_sha=training_sha(spec.setting),
        )
        write_text(folder / CARD, card.model_dump_json(indent=1))
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
