"""Every recipe trains on the pretend device to the weights of the CPU, and its steps wait for it where they must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from accelerator import PretendTensor, Split
from attacking import KERNEL, RANDOM_FEATURES, Interrupted, victim_of
from torch import Tensor
from waits import growth

from bench.scoring.judges import training as judge_training
from bench.scoring.judges.networks import build as build_judge
from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec
from victims.informed.networks import initial
from victims.informed.private_descent import train_privately
from victims.informed.spec import AnySpec, DenseSpec, Descent, GLMSpec, SmallCNNSpec
from victims.informed.training import train_many
from victims.ordinary import descent
from victims.ordinary.descent import Examples
from victims.ordinary.training import train_ordinary
from victims.recipes import Augmentation, Ordinary, Pretraining, Privacy
from victims.spec import (
    CNNSpec,
    ConvSpec,
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    MLPSpec,
    NormalizedDescent,
    Regularised,
    SmoothMLPSpec,
    VictimSpec,
)
from victims.training import loop
from victims.unfinished import Unfinished

CPU = torch.device("cpu")
GENERATOR = torch.Generator().manual_seed(0)
INPUTS, IMAGES = torch.randn(6, 1, 4, 4, generator=GENERATOR), torch.rand(30, 1, 10, 10, generator=GENERATOR)
LABELS = torch.arange(6) % 3
STEPS = 3
Weights = dict[str, Tensor]
MLP = MLPSpec(hidden=(8, 6))
Report = Callable[[loop.TrainProgress], None]
ON_THE_CPU: dict[str, tuple[str, AnySpec]] = {
    "interpolation": ("its end in closed form, float64: one system of n unknowns", RANDOM_FEATURES),
    "kernel": ("scikit-learn fits it", KERNEL),
    "newton": (
        "NumPy and SciPy fit it in float64, as exactly as the closed-form attack needs",
        GLMSpec(name="cancer-logistic-tiny", dataset="cancer", n=60, targets=2),
    ),
    "deletion": (
        "SciPy and Newton's method fit a small model in float64, to a relative gradient of 1e-9",
        DeletionSpec(
            name="digits-unlearn-tiny-60",
            dataset="digits",
            n=60,
            targets=2,
            architecture=ShallowSpec(loss="cross-entropy"),
            training=Deletion(),
        ),
    ),
}
"""The recipes that compute on the CPU whatever the device, each with the reason and a victim."""
NOT_TRAINED = {"released"}
"""The recipes of weights that an owner has trained."""


def quiet(progress: loop.TrainProgress) -> None:
    """Nobody is told."""


REGULARISED = ("victims/training/lbfgs.py:as_arrays", "victims/training/regularised.py:evaluate")


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        recipe: the kind of its recipe.
        train: returns the weights after so many steps on a device; it may be given a checkpoint and a report.
        waits: the functions in which its steps wait for the device, and are meant to.
    """

    recipe: str
    train: Callable[..., Weights]
    waits: frozenset[str] = frozenset()


def stationary(recipe: Callable[[int], Any], *waits: str, **more: Any) -> Case:
    """A recipe that ends at a stationary point; a step is one of its own."""

    def train(device: torch.device, steps: int, checkpoint: Path | None = None, report: Report = quiet) -> Weights:
        described = {"name": "none-mlp-6", "dataset": "none", "n": 6, "architecture": MLP, "training": recipe(steps)}
        spec = VictimSpec(**described | more)
        labels = LABELS % max(spec.architecture.outputs, 2)  # type: ignore[union-attr]
        return loop.train(spec, INPUTS, labels, device, Unfinished(checkpoint), report).state_dict()

    return Case(recipe(STEPS).kind, train, frozenset(waits))


def ordinary(architecture: Any = None, **recipe: Any) -> Case:
    """A recipe of torch.optim; a step is an epoch of two batches."""

    def train(device: torch.device, steps: int, checkpoint: Path | None = None, report: Report = quiet) -> Weights:
        settings = {"epochs": steps, "batch_size": 4} | recipe
        spec = VictimSpec(
            name="none-mlp-6-c3",
            dataset="none",
            n=6,
            architecture=architecture or MLPSpec(hidden=(8, 6), outputs=3, biases="every", first_layer_scale=None),
            training=Ordinary(**settings),
        )
        members = Examples(INPUTS if architecture is None else IMAGES[:6], LABELS)
        trained = train_ordinary(spec, members, members, device, report, Unfinished(checkpoint))
        ends = [trained.start.state_dict(), trained.model.state_dict()]
        checkpoints = [state.packed() for state in trained.checkpoints.values()]
        states = [*ends, *trained.snapshots.values(), trained.momentum, *checkpoints]
        return {f"{index}.{name}": value for index, state in enumerate(states) for name, value in state.items()}

    stops = {"victims/ordinary/descent.py:run"} if "stop_loss" in recipe else set()
    return Case(Ordinary().kind, train, frozenset(stops))


def informed(architecture: Any, **recipe: Any) -> Case:
    """Three networks of the informed adversary, each with a record of its own; a step is an epoch."""
    traced = "privacy" in recipe

    def train(device: torch.device, steps: int) -> Weights:
        training = Descent(epochs=steps, **recipe)
        labels = torch.arange(30) % 10
        fixed, extra = (IMAGES[:27], labels[:27]), (IMAGES[27:], labels[27:])
        start = initial(architecture, IMAGES.shape[1:], torch.Generator().manual_seed(0))
        arguments = (architecture, training, fixed, extra, start, range(3), device)
        if not traced:
            return train_many(*arguments)
        trained = train_privately(*arguments, lambda done, total: None, traced=True)
        return trained.parameters | {f"trace.{name}": value for name, value in trained.trace.items()}

    waits = {"victims/informed/private_descent.py:_descend"} if traced else set()
    return Case(Descent().kind, train, frozenset(waits))


def judged(device: torch.device, steps: int) -> Weights:
    """The judge of KL."""
    generator = torch.Generator().manual_seed(0)
    model = build_judge("lenet", 1, 3, generator).to(device)
    images = torch.rand(6, 1, 28, 28, generator=generator)
    recipe = judge_training.Recipe(1, (steps, steps), 4, 0.03, rotation=10, scale=0.1, shift=0.07, flip=True)
    judge_training.train(model, images, LABELS, recipe, generator, lambda step, steps, figures: None)
    return model.state_dict()


def decayed(steps: int, **more: Any) -> DecayedDescent:
    return DecayedDescent(steps=steps, **more)


JUDGE = "judge"
SEARCHED = "victims/training/decayed_descent.py:_step"
CASES: dict[str, Case] = {
    "normalised": stationary(lambda steps: NormalizedDescent(steps=steps)),
    "untrained twin": stationary(lambda steps: NormalizedDescent(steps=steps), twin="untrained"),
    "normalised, three classes": stationary(
        lambda steps: NormalizedDescent(steps=steps), architecture=MLPSpec(hidden=(8,), outputs=3, biases="all")
    ),
    "normalised, to a residual": stationary(
        lambda steps: NormalizedDescent(steps=steps, stop_residual=1e-9), "victims/training/state.py:residual"
    ),
    "gradient descent": stationary(lambda steps: GradientDescent(epochs=steps)),
    "gradient descent in batches": stationary(lambda steps: GradientDescent(epochs=steps, batch_size=4)),
    "gradient descent to a loss": stationary(
        lambda steps: GradientDescent(epochs=steps, stop_loss=1e-9), "victims/training/loop.py:train"
    ),
    "decayed": stationary(decayed, SEARCHED),
    "decayed, Huber": stationary(decayed, SEARCHED, loss="huber"),
    "decayed convolution": stationary(decayed, SEARCHED, architecture=ConvSpec(channels=2, hidden=(6,))),
    "decayed convolutions": stationary(decayed, SEARCHED, architecture=ConvSpec(kernel=2, channels=(2, 3), hidden=())),
    "Gauss-Newton": stationary(lambda steps: GramGaussNewton(descent=1, steps=steps - 1), loss="l2"),
    "regularised": stationary(
        lambda steps: Regularised(steps=steps),
        *REGULARISED,
    ),
    "affine": stationary(
        lambda steps: Regularised(steps=steps), *REGULARISED, architecture=MLPSpec(hidden=(), outputs=1, biases="all")
    ),
    "sgd": ordinary(),
    "adam, clipped, by steps": ordinary(optimiser="adam", clip=0.1, schedule="step", lr=1e-2),
    "adamw from a checkpoint, to a loss": ordinary(
        optimiser="adamw", lr=1e-2, pretraining=Pretraining(epochs=1), stop_loss=1e-9
    ),
    "last layers": ordinary(last_layers=1, snapshots=(1,)),
    "low rank": ordinary(lora_rank=2, dtype="float64"),
    "momentum released": ordinary(optimiser="adamw", lr=1e-2, momentum_released=True),
    "checkpoints released": ordinary(optimiser="adamw", lr=1e-2, checkpoints=(1,)),
    "another activation": ordinary(SmoothMLPSpec(hidden=(6,), layer_norm=True, outputs=3)),
    "batch normalisation": ordinary(CNNSpec(channels=(4,), hidden=(6,), outputs=3)),
    "augmented": ordinary(
        CNNSpec(channels=(4,), hidden=(6,), outputs=3),
        augmentation=Augmentation(flip=True, crop=1, mixup=True),
        dropout=0.5,
    ),
    "averaged": ordinary(
        CNNSpec(channels=(4,), hidden=(6,), outputs=3),
        augmentation=Augmentation(jitter=0.4, erase=0.5, cutmix=True),
        label_smoothing=0.1,
        average=0.9,
    ),
    "private": ordinary(privacy=Privacy(), batch_size=6),
    "informed": informed(DenseSpec(hidden=(4,))),
    "informed, convolution with Adam": informed(SmallCNNSpec(), optimizer="adam"),
    "informed, batches in a known order": informed(DenseSpec(hidden=(4,)), batch_size=16, order_seed=0),
    "informed, batches in secret order": informed(DenseSpec(hidden=(4,)), batch_size=16),
    "informed, private": informed(DenseSpec(hidden=(4,)), privacy=Privacy()),
    "informed, sampled": informed(DenseSpec(hidden=(4,)), privacy=Privacy(sampling_rate=0.3), order_seed=0),
    "judge": Case(JUDGE, judged),
}


def test_every_recipe_has_a_case_or_computes_on_the_cpu() -> None:
    recipes = set[str]()
    for spec in get_args(AnySpec):
        training = spec.model_fields["training"].annotation
        recipes |= {recipe.model_fields["kind"].default for recipe in get_args(training) or (training,)}
    trained = {case.recipe for case in CASES.values()} - {JUDGE}
    assert sorted([*trained, *ON_THE_CPU, *NOT_TRAINED]) == sorted(recipes)


@pytest.mark.parametrize("recipe", ON_THE_CPU)
def test_what_computes_on_the_cpu_leaves_the_device_alone(
    recipe: str, pretend: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its card names the CPU."""

    def made(*arguments: object) -> PretendTensor:
        raise AssertionError(f"{recipe} computes on the device: it needs a case")

    _, spec = ON_THE_CPU[recipe]
    assert spec.training.kind == recipe
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))  # where no victim is trained yet
    monkeypatch.setattr(PretendTensor, "__new__", made)
    assert victim_of(spec, pretend).card.device == CPU.type


SLOW = ("informed, sampled",)
"""Whose accountant takes longer than the training."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, case in CASES.items()]
)
def test_a_recipe_trains_there_as_on_the_cpu(case: Case, pretend: torch.device) -> None:
    with Split():
        here = case.train(CPU, STEPS)
    there, waiting = growth(partial(case.train, pretend), STEPS)
    assert waiting == case.waits
    assert here.keys() == there.keys()
    assert all(torch.equal(wanted, there[name].cpu()) for name, wanted in here.items())


def test_corners_are_rounded_there_as_on_the_cpu(pretend: torch.device) -> None:
    cornered = partial(decayed, corners=(0.1,), iterations=3)
    case = stationary(cornered)
    with Split():
        here = case.train(CPU, STEPS)
    there = case.train(pretend, STEPS)
    assert all(torch.equal(wanted, there[name].cpu()) for name, wanted in here.items())


@pytest.mark.parametrize("name", ["normalised", "decayed", "adamw from a checkpoint, to a loss", "low rank", "private"])
def test_a_killed_training_goes_on_there(
    name: str, pretend: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, told = CASES[name], list[loop.TrainProgress]()

    def killing(progress: loop.TrainProgress) -> None:
        told.append(progress)
        if len(told) == 6:
            raise Interrupted

    whole = case.train(pretend, 6)
    monkeypatch.setattr("victims.unfinished.CHECKPOINT_SECONDS", -1.0)
    for module in (loop, descent):
        monkeypatch.setattr(module, "REPORT_SECONDS", -1.0)
    with pytest.raises(Interrupted):
        case.train(pretend, 6, tmp_path / "checkpoint", killing)
    resumed = case.train(pretend, 6, tmp_path / "checkpoint")
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
