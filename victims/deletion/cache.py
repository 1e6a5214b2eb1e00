"""Victims that release two models are trained once and kept, in the same cache as all others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from victims.cache import WEIGHTS, locked_folder, origin, training_sha, victim_card
from victims.datasets import fingerprint
from victims.defences.release import degraded, noise_seed, require_released
from victims.defences.stacking import undefended
from victims.deletion.data import DeletionSplit, split_of
from victims.deletion.forget import forget, without
from victims.deletion.newton import minimum
from victims.deletion.objective import Objective, Parameters, answers, flat, losses, named, sizes
from victims.deletion.spec import DeletionSpec
from victims.deletion.victim import DeletionCard, DeletionVictim, predictions
from victims.errors import UserError
from victims.files import below, under, write_tensors

BEFORE = "before."
"""Prefix of the names of the parameters before the deletion, in the file of the weights."""


def obtain(
    spec: DeletionSpec,
    data_dir: Path | None,
    device: torch.device,
    report: Callable[[int, int], None],
    notice: Callable[[str], None],
) -> DeletionVictim:
    """Return a victim: from the cache if it is there and whole, else trained and cached.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.
        device: not used; the models are small, and are trained on the CPU in float64, as the card says.
        report: called with the number of deletions that are done, and the number of all.
        notice: called with one line for the user, such as that a cached file was altered.

    Raises:
        UserError: the data are missing or too few, a training does not converge, or the cache cannot be written.
    """
    split, trained = split_of(spec, data_dir), None
    dataset_sha256 = fingerprint(spec.dataset, data_dir)
    if undefended(spec) != spec:
        trained = obtain(undefended(spec), data_dir, device, report, notice)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        if (kept := _load(spec, folder, split, notice)) is not None:
            return kept
        if trained is not None:
            return _released(spec, folder, trained)
        return _train(spec, folder, split, dataset_sha256, report)


def training_records(split: DeletionSplit) -> tuple[Tensor, Tensor]:
    """Return the training images (n, C, H, W) and labels (n,) before the deletion; the targets come last."""
    images, labels = (
        torch.cat([torch.from_numpy(getattr(part, name)) for part in (split.retained, split.targets)])
        for name in ("images", "labels")
    )
    return images, labels


def _train(
    spec: DeletionSpec,
    folder: Path,
    split: DeletionSplit,
    dataset_sha256: str,
    report: Callable[[int, int], None],
) -> DeletionVictim:
    began = time.monotonic()
    objective = Objective.of(spec.architecture, spec.training.penalty, *training_records(split))
    try:
        theta, precondition = minimum(objective, _start(spec, objective.inputs))
        optimality, after = objective.optimality(theta), []
        batches = torch.arange(spec.n - spec.targets, spec.n).split(spec.training.records)
        for place, deleted in enumerate(batches):
            after.append(forget(spec.training, objective, theta, deleted, precondition))
            if spec.training.method == "refit":
                optimality = max(optimality, without(objective, deleted).optimality(after[-1]))
            report(place + 1, len(batches))
    except UserError as error:
        raise UserError(f"{spec.name}: {error}") from None
    models = [named(spec.architecture, objective.inputs, one) for one in after]
    weights = {name: torch.stack([one[name] for one in models]) for name in models[0]}
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise UserError(f"{spec.name}: the ascent diverged; lower its lr or its steps")
    before = named(spec.architecture, objective.inputs, theta)
    stored, seconds = _stored(folder, before, weights), time.monotonic() - began
    card = DeletionCard(
        name=spec.name,
        spec=spec,
        version=spec.training.version,
        optimality=optimality,
        **_measured(spec, before, weights, split),
        **origin(stored, dataset_sha256, torch.device("cpu"), seconds, training_sha(spec.setting)),
    )
    card.store(folder)
    return DeletionVictim(card, before, weights, split)


def _start(spec: DeletionSpec, inputs: int) -> Tensor:
    """Return where training starts (p,): zero, or weights of a hidden layer with variance 1 / fan-in."""
    generator = torch.Generator().manual_seed(spec.seed)
    start: Parameters = {}
    for name, shape in sizes(spec.architecture, inputs).items():
        start[name] = torch.zeros(shape, dtype=torch.float64)
        if spec.architecture.front == "hidden" and len(shape) == 2:
            start[name] = torch.randn(shape, generator=generator, dtype=torch.float64) / shape[1] ** 0.5
    return flat(start)


def _released(spec: DeletionSpec, folder: Path, trained: DeletionVictim) -> DeletionVictim:
    """Return the models of a trained victim under its defences on release, each release with noise of its own."""
    generator = torch.Generator().manual_seed(noise_seed(trained.card.weights_sha256))
    before = {name: degraded(value, spec.defences, generator) for name, value in trained.before.items()}
    weights = {
        name: torch.stack([degraded(one, spec.defences, generator) for one in value])
        for name, value in trained.weights.items()
    }
    require_released(spec.name, before | weights)
    changed = {"name": spec.name, "spec": spec, "weights_sha256": _stored(folder, before, weights)}
    card = trained.card.model_copy(update=changed | _measured(spec, before, weights, trained.split))
    card.store(folder)
    return DeletionVictim(card, before, weights, trained.split)


def _load(
    spec: DeletionSpec, folder: Path, split: DeletionSplit, notice: Callable[[str], None]
) -> DeletionVictim | None:
    card = victim_card(DeletionCard, spec, folder, notice)
    if card is None:
        return None
    stored = load_file(folder / WEIGHTS)
    order = list(sizes(spec.architecture, split.targets.images[0].size))
    before, weights = ({name: part[name] for name in order} for part in (below(BEFORE, stored), stored))
    return DeletionVictim(card, before, weights, split)


def _stored(folder: Path, before: Parameters, weights: Parameters) -> str:
    """Store both releases in a folder of the cache and return the file's hex SHA-256."""
    tensors = under(BEFORE, before) | weights
    return write_tensors(folder / WEIGHTS, {name: value.clone() for name, value in tensors.items()})


def _measured(
    spec: DeletionSpec, before: Parameters, weights: Parameters, split: DeletionSplit
) -> dict[str, float | None]:
    """Return the figures of a card that follow from what is released."""
    train_loss, train_accuracy = _scores(spec, before, *training_records(split))
    tested = torch.from_numpy(split.test.images), torch.from_numpy(split.test.labels)
    test_loss, test_accuracy = _scores(spec, before, *tested)
    after = [{name: value[place] for name, value in weights.items()} for place in range(len(weights["layers.0.bias"]))]
    accuracies = [accuracy for one in after if (accuracy := _scores(spec, one, *tested)[1]) is not None]
    theta = flat(before)
    distances = torch.stack([(flat(one) - theta).norm() for one in after]) / theta.norm()
    return {
        "train_loss": train_loss,
        "train_accuracy": train_accuracy,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
        "accuracy_after": sum(accuracies) / len(accuracies) if accuracies else None,
        "moved": float(distances.median()),
    }


def _scores(spec: DeletionSpec, parameters: Parameters, images: Tensor, labels: Tensor) -> tuple[float, float | None]:
    """Return the mean loss and the accuracy of a model on records; of a regression the mean squared error, and None."""
    predicted = predictions(spec, parameters, images)
    if spec.n_classes == 1:
        return float((predicted[:, 0] - labels).square().mean()), None
    loss = losses(spec.architecture, predicted, answers(spec.architecture, labels)).mean()
    return float(loss), float((predicted.argmax(1) == labels).double().mean())
