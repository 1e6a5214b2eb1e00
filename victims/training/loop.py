"""The loop around a training algorithm: span coordinates, progress, checkpoints, resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from victims.architectures import MLP, build
from victims.files import atomic
from victims.spec import GradientDescent, NormalizedDescent, Regularised, VictimSpec
from victims.training.gradient_descent import GradientDescentAlgorithm
from victims.training.normalized_descent import NormalizedDescentAlgorithm
from victims.training.regularised import minimum
from victims.training.span import Span
from victims.training.state import Algorithm, TrainState, logistic_loss

REPORT_SECONDS = 0.5
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True)
class TrainProgress:
    """Where a training is: step of steps, mean logistic loss, training accuracy in [0, 1], smallest margin."""

    step: int
    steps: int
    loss: float
    accuracy: float
    margin: float


def algorithm(spec: VictimSpec) -> Algorithm:
    """Return the step-by-step algorithm that a victim's spec asks for."""
    if isinstance(spec.training, GradientDescent):
        return GradientDescentAlgorithm(spec.training, spec.n, spec.seed)
    assert isinstance(spec.training, NormalizedDescent)
    return NormalizedDescentAlgorithm(spec.training)


def train(
    spec: VictimSpec,
    inputs: Tensor,
    labels: Tensor,
    device: torch.device,
    checkpoint: Path,
    report: Callable[[TrainProgress], None],
) -> MLP:
    """Train a victim, from its last checkpoint if there is one.

    Args:
        spec: what to train.
        inputs: (n, C, H, W), the training mean subtracted.
        labels: (n,) in {-1, +1}.
        device: where to train; the result is on the CPU.
        checkpoint: file that holds the state of an unfinished training; removed by the caller once the result is safe.
        report: called about twice a second.

    Returns:
        The trained network, on pixels, on the CPU, in the recipe's dtype.
    """
    dtype = getattr(torch, spec.training.dtype)
    initial = build(spec.architecture, inputs[0].numel(), torch.Generator().manual_seed(spec.seed), dtype)
    span = Span.of(inputs.flatten(1))
    reduced, outside = span.reduce(initial)
    coordinates = span.coordinates(inputs.flatten(1)).to(device, dtype)
    signs = labels.to(device, dtype)
    if isinstance(spec.training, Regularised):
        last = spec.training.steps

        def found(step: int, margins: Tensor) -> None:
            report(_progress(step, last, margins))

        minimiser = minimum(reduced.to(device), coordinates, signs, spec.training, found)
        return span.restore(minimiser.cpu(), torch.zeros_like(outside))  # the minimum has no part outside the span
    state = TrainState(
        reduced.to(device), float(outside.norm()), outside_scale=torch.ones((), dtype=dtype, device=device)
    )
    method = algorithm(spec)
    method.start(state)
    _resume(state, checkpoint)
    reported = saved = time.monotonic()
    while state.step < method.steps:
        margins = method.step(state, coordinates, signs)
        state.step += 1
        now = time.monotonic()
        if now - reported > REPORT_SECONDS or state.step == method.steps:
            reported = now
            report(_progress(state.step, method.steps, margins))
        if now - saved > CHECKPOINT_SECONDS:
            saved = now
            with atomic(checkpoint) as path:
                save_file({name: value.detach().cpu().contiguous() for name, value in state.tensors().items()}, path)
    return span.restore(state.model.cpu(), outside * float(state.outside_scale))


def _progress(step: int, steps: int, margins: Tensor) -> TrainProgress:
    accuracy = (margins > 0).to(margins.dtype).mean()
    return TrainProgress(step, steps, float(logistic_loss(margins)), float(accuracy), float(margins.min()))


def _resume(state: TrainState, checkpoint: Path) -> None:
    if not checkpoint.exists():
        return
    try:
        state.load(load_file(checkpoint))
    except (SafetensorError, KeyError, RuntimeError):
        checkpoint.unlink()  # torn or of another shape: train from the start
