"""Victims of the informed adversary are trained once and kept, in the same cache as all others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from victims.cache import WEIGHTS, locked_folder, origin, training_sha, victim_card
from victims.datasets import fingerprint
from victims.defences.release import degraded, noise_seed, require_released
from victims.defences.stacking import undefended
from victims.errors import UserError
from victims.files import write_tensors
from victims.informed.data import InformedSplit, Records, split_of
from victims.informed.glm import GLM, fit, inverse_link, targets_of
from victims.informed.networks import Parameters, initial
from victims.informed.privacy import gaussian_privacy, output_deviation
from victims.informed.private_descent import train_privately
from victims.informed.spec import GLMSpec, InformedSpec
from victims.informed.training import finite, train_many
from victims.informed.victim import InformedCard, InformedVictim, logits

Report = Callable[[int, int], None]
TRACE = "trace.safetensors"
"""The third file of the folder of a victim whose trace is released."""


def obtain(
    spec: InformedSpec | GLMSpec,
    data_dir: Path | None,
    device: torch.device,
    report: Report,
    notice: Callable[[str], None],
) -> InformedVictim:
    """Return a victim: from the cache if it is there and whole, else trained and cached.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.
        device: the device to train on; generalised linear models are fitted on the CPU, as the card says.
        report: called with the number of models that are trained, and the number of all.
        notice: called with one line for the user, such as that a cached file was altered.

    Raises:
        UserError: the data are missing, too few or overlap, a model diverged or has no optimum, or the cache cannot be
            written.
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
        return _train(spec, folder, split, dataset_sha256, device, report)


def start_of(spec: InformedSpec | GLMSpec, split: InformedSplit) -> Parameters | None:
    """Return the initial network of all models, on the CPU; None where each has its own, or it does not matter."""
    if isinstance(spec, GLMSpec) or spec.initialisation == "random":
        return None
    start = initial(spec.architecture, split.targets.images.shape[1:], torch.Generator().manual_seed(spec.seed))
    if spec.initialisation == "known":
        return start
    images, labels = _tensors(split.pool)
    if len(images) < spec.n:
        raise UserError(f"{spec.name}: pretraining takes {spec.n} images of the shadow pool, which has {len(images)}")
    public, last = (images[-spec.n : -1], labels[-spec.n : -1]), (images[-1:], labels[-1:])
    trained = train_many(spec.architecture, spec.training, public, last, start, [spec.seed], torch.device("cpu"))
    return {name: value[0] for name, value in trained.items()}


def seeds_of(spec: InformedSpec | GLMSpec) -> list[int]:
    """Return the secret seed of each of the T models."""
    drawn = np.random.SeedSequence([spec.seed, 1]).generate_state(spec.targets, np.uint32)
    return [int(seed) for seed in drawn]


def _load(
    spec: InformedSpec | GLMSpec, folder: Path, split: InformedSplit, notice: Callable[[str], None]
) -> InformedVictim | None:
    card = victim_card(InformedCard, spec, folder, notice, (WEIGHTS, TRACE))
    if card is None:
        return None
    trace = load_file(folder / TRACE) if card.trace_sha256 else None
    return InformedVictim(card, start_of(spec, split), load_file(folder / WEIGHTS), split, trace)


def _train(
    spec: InformedSpec | GLMSpec,
    folder: Path,
    split: InformedSplit,
    dataset_sha256: str,
    device: torch.device,
    report: Report,
) -> InformedVictim:
    began = time.monotonic()
    start = start_of(spec, split)
    optimality, trace = None, None
    if isinstance(spec, GLMSpec):
        (weights, optimality), device = _fit_many(spec, split, report), torch.device("cpu")
    else:
        fixed, targets = (_tensors(part) for part in (split.fixed, split.targets))
        arguments = (spec.architecture, spec.training, fixed, targets, start, seeds_of(spec), device, report)
        if spec.prior is None:
            weights = train_many(*arguments)
        else:
            trained = train_privately(*arguments, traced=True)
            weights, trace = trained.parameters, trained.trace
        weights = {name: value.cpu() for name, value in weights.items()}
        diverged = ~finite(weights)
        if bool(diverged.any()):
            raise UserError(f"{spec.name}: {int(diverged.sum())} of {spec.targets} models diverged; lower its lr")
    seconds, stored = time.monotonic() - began, write_tensors(folder / WEIGHTS, weights)
    card = InformedCard(
        name=spec.name,
        spec=spec,
        version=spec.training.version,
        trace_sha256="" if trace is None else write_tensors(folder / TRACE, trace),
        **_measured(spec, weights, split),
        optimality=optimality,
        gaussian_privacy=gaussian_privacy(spec),
        **origin(stored, dataset_sha256, device, seconds, training_sha(spec.setting)),
    )
    card.store(folder)
    return InformedVictim(card, start, weights, split, trace)


def _released(spec: InformedSpec | GLMSpec, folder: Path, trained: InformedVictim) -> InformedVictim:
    """Return the models of a trained victim under the victim's defences on release, each with noise of its own."""
    generator = torch.Generator().manual_seed(noise_seed(trained.card.weights_sha256))
    weights = {
        name: torch.stack([degraded(tensor, spec.defences, generator) for tensor in value])
        for name, value in trained.weights.items()
    }
    require_released(spec.name, weights)
    changed = {"name": spec.name, "spec": spec, "weights_sha256": write_tensors(folder / WEIGHTS, weights)}
    card = trained.card.model_copy(update=changed | _measured(spec, weights, trained.split))
    card.store(folder)
    return InformedVictim(card, trained.start, weights, trained.split)


def _measured(spec: InformedSpec | GLMSpec, weights: Parameters, split: InformedSplit) -> dict[str, float | None]:
    """Return the losses and accuracies of a card."""
    train_loss, train_accuracy = _scores(spec, weights, split.fixed)
    test_loss, test_accuracy = _scores(spec, weights, split.test)
    return {
        "train_loss": train_loss,
        "train_accuracy": train_accuracy,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
    }


def _fit_many(spec: GLMSpec, split: InformedSplit, report: Report) -> tuple[Parameters, float]:
    """Fit T models, the later ones from the optimum of the first; return their parameters and the worst optimality."""
    architecture, penalty = spec.architecture, spec.training.penalty(spec.n + 1)

    def design(records: Records) -> tuple[np.ndarray, np.ndarray]:
        features = records.images.reshape(len(records), -1).astype(np.float64)
        return features, targets_of(architecture.family, records.labels, architecture.outputs)

    (fixed, known), (secret, answers) = design(split.fixed), design(split.targets)
    start: GLM | None = None
    coefs, intercepts, worst = [], [], 0.0
    deviation = output_deviation(architecture, spec.training, spec.n + 1, fixed.shape[1])
    privacy, linear = spec.training.privacy, architecture.family == "linear"
    if privacy is not None and linear and max(np.abs(known).max(), np.abs(answers).max()) > privacy.label_bound:
        raise UserError(f"{spec.name}: a label exceeds its label_bound of {privacy.label_bound:g}")
    for place, seed in enumerate(seeds_of(spec)):
        records, targets = np.vstack([fixed, secret[place]]), np.vstack([known, answers[place]])
        model = fit(architecture, penalty, records, targets, start)
        start = start or model
        worst = max(worst, model.optimality(records, targets))
        noise = np.random.default_rng(seed)
        coefs.append(model.coef + deviation * noise.standard_normal(model.coef.shape))
        shift = deviation * noise.standard_normal(model.intercept.shape)
        intercepts.append(model.intercept + shift * (architecture.intercept != "none"))
        report(place + 1, spec.targets)
    return {"coef": torch.from_numpy(np.stack(coefs)), "intercept": torch.from_numpy(np.stack(intercepts))}, worst


def _scores(spec: InformedSpec | GLMSpec, weights: Parameters, records: Records) -> tuple[float | None, float | None]:
    """Return the mean loss and the mean accuracy of the models on some records; None for what there is not."""
    if len(records) == 0:
        return None, None
    images, labels = _tensors(records)
    answers = logits(spec, weights, images)
    expected = labels.expand(answers.shape[:2])
    if isinstance(spec, GLMSpec) and spec.n_classes == 1:
        means = torch.from_numpy(inverse_link(spec.architecture.family, answers[..., 0].numpy()))
        return float((means - expected).square().mean()), None
    if answers.shape[2] == 1:  # one logit, of class 1
        answers = torch.cat([torch.zeros_like(answers), answers], dim=2)
    loss = F.cross_entropy(answers.flatten(0, 1), expected.flatten())
    return float(loss), float((answers.argmax(2) == expected).double().mean())


def _tensors(records: Records) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(records.images), torch.from_numpy(records.labels)
