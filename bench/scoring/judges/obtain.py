"""Judges are trained once and kept, by their version and the hash of the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

from bench.scoring.judges.examples import examples
from bench.scoring.judges.judge import Judge, JudgeCard
from bench.scoring.judges.networks import build, network_for
from bench.scoring.judges.training import RECIPES, SEED, Report, evaluate, train
from victims import datasets
from victims.cache import WEIGHTS, cache_dir, locked, origin, whole_card
from victims.datasets import RawDataset
from victims.files import sha256_json, write_tensors
from victims.source import Sources

JUDGE_VERSION = 1
"""Raised when the same data lead to another judge than before. That changes KL, so the metric suite is raised, too."""

SOURCES = ("bench.scoring.judges",)
"""The packages whose files train a judge; what they import of others has versions of its own."""


def judge_folder(dataset_sha256: str) -> Path:
    """Return the folder that holds the judge of a dataset, trained or not."""
    return cache_dir() / "judges" / sha256_json([JUDGE_VERSION, dataset_sha256])[:16]


def training_sha() -> str:
    """Return the 16 hex digits of the syntax trees of all that trains a judge."""
    return Sources(packages=SOURCES).sha256(Path(__file__))[:16]


def obtain_judge(
    dataset: str,
    data_dir: Path | None,
    device: torch.device,
    report: Report,
    notice: Callable[[str], None],
) -> Judge:
    """Return the judge of a dataset, from the cache if it is there and undamaged, else trained and cached.

    Args:
        dataset: as in `victims.datasets.load`.
        data_dir: the data folder, None for the default.
        device: where to train, and where the judge then is.
        report: told step, steps and the figures of the training.
        notice: told in one line what the user should know, such as a cached file that was found altered.

    Raises:
        JudgeUnavailableError: no judge can be trained on the dataset: it has too few images or classes.
        UserError: the data are missing or malformed, or the cache cannot be written.
    """
    if datasets.fingerprint(dataset, data_dir) == "absent":
        datasets.load(dataset, data_dir)  # downloads it, which gives it a fingerprint
    dataset_sha256 = datasets.fingerprint(dataset, data_dir)
    folder = judge_folder(dataset_sha256)
    with locked(folder, f"judge of {dataset}", notice):
        found = _load(dataset, folder, device, notice)
        return found or _train(datasets.load(dataset, data_dir), folder, dataset_sha256, device, report)


def _load(dataset: str, folder: Path, device: torch.device, notice: Callable[[str], None]) -> Judge | None:
    card = whole_card(JudgeCard, folder, f"judge of {dataset}", notice)
    if card is None:
        return None
    if card.training_sha not in ("", training_sha()):
        changed = f"the source of its training changed since version {JUDGE_VERSION} was made"
        notice(f"judge of {dataset}: {changed}; a raised version trains again")
    model = build(card.network, card.shape[0], card.n_classes, torch.Generator())
    model.load_state_dict(load_file(folder / WEIGHTS))
    return Judge(card.model_copy(update={"dataset": dataset}), model.to(device).eval())


def _train(raw: RawDataset, folder: Path, dataset_sha256: str, device: torch.device, report: Report) -> Judge:
    start = time.monotonic()
    known = examples(raw)
    channels, height, width = known.images.shape[1:]
    network = network_for(channels)
    generator = torch.Generator().manual_seed(SEED)
    model = build(network, channels, known.n_classes, generator).to(device)
    steps = train(model, known.images, known.labels, RECIPES[network], generator, report)
    accuracy, loss = evaluate(model, known.test_images, known.test_labels)
    seconds = time.monotonic() - start
    stored = write_tensors(folder / WEIGHTS, {name: value.cpu() for name, value in model.state_dict().items()})
    card = JudgeCard(
        dataset=raw.name,
        network=network,
        shape=(channels, height, width),
        n_classes=known.n_classes,
        n_train=len(known.images),
        n_test=len(known.test_images),
        held_out=known.held_out,
        accuracy=accuracy,
        loss=loss,
        steps=steps,
        seed=SEED,
        **origin(stored, dataset_sha256, device, seconds, training_sha()),
    )
    card.store(folder)
    return Judge(card, model)
