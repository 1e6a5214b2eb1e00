"""The loop around a training algorithm: span coordinates, progress, checkpoints, resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.architectures import MLP, ReLUNetwork, build
from victims.equations.losses import signs
from victims.spec import (
    ConvSpec,
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    MLPSpec,
    NormalizedDescent,
    Regularised,
    VictimSpec,
)
from victims.training.decayed_descent import DecayedDescentAlgorithm
from victims.training.gradient_descent import GradientDescentAlgorithm
from victims.training.gram_gauss_newton import GramGaussNewtonAlgorithm
from victims.training.normalized_descent import NormalizedDescentAlgorithm
from victims.training.regularised import minimum
from victims.training.rounded import settle
from victims.training.span import InputSpan
from victims.training.state import Algorithm, Figures, TrainState
from victims.unfinished import Unfinished

REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class TrainProgress:
    """The progress of a training: step of steps, mean loss, training accuracy in [0, 1], smallest margin."""

    step: int
    steps: int
    loss: float
    accuracy: float
    margin: float


def algorithm(spec: VictimSpec) -> Algorithm:
    """Return the step-by-step algorithm that a victim's spec asks for."""
    if isinstance(spec.training, GradientDescent):
        return GradientDescentAlgorithm(spec.training, spec.loss, spec.n, spec.seed)
    if isinstance(spec.training, DecayedDescent):
        return DecayedDescentAlgorithm(spec.training, spec.loss)
    if isinstance(spec.training, GramGaussNewton):
        return GramGaussNewtonAlgorithm(spec.training, spec.loss)
    assert isinstance(spec.training, NormalizedDescent)
    return NormalizedDescentAlgorithm(spec.training)


def train(
    spec: VictimSpec,
    inputs: Tensor,
    labels: Tensor,
    device: torch.device,
    checkpoint: Unfinished,
    report: Callable[[TrainProgress], None],
) -> ReLUNetwork:
    """Return a victim's trained network, from its last checkpoint if there is one; an untrained twin's initial one.

    Args:
        spec: the victim.
        inputs: (n, C, H, W), the training mean subtracted.
        labels: (n,) int64 class indices.
        device: the device to train on; the result is on the CPU.
        checkpoint: the state of an unfinished training, which the caller removes once the result is stored.
        report: called about twice a second.

    Returns:
        The trained network, on pixels, on the CPU, in the recipe's dtype.
    """
    assert isinstance(spec.architecture, MLPSpec | ConvSpec)  # the spec's validator sees to it
    dtype = getattr(torch, spec.training.dtype)
    initial = build(spec.architecture, inputs.shape[1:], torch.Generator().manual_seed(spec.seed), dtype)
    if spec.twin == "untrained":
        return initial
    span = InputSpan.of(inputs.flatten(1)) if isinstance(initial, MLP) else None
    reduced, outside, data = _in_span(span, initial, inputs)
    if isinstance(spec.training, Regularised):
        last = spec.training.steps

        def found(step: int, margins: Tensor) -> None:
            report(_progress(step, last, Figures(F.softplus(-margins).mean(), margins)))

        assert span is not None
        assert isinstance(reduced, MLP)
        targets = signs(labels).to(device, dtype)
        minimiser = minimum(reduced.to(device), data.to(device, dtype), targets, spec.training, found)
        return span.restore(minimiser.cpu(), torch.zeros_like(outside))  # the minimum has no part outside the span
    state = TrainState(
        reduced.to(device), float(outside.norm()), outside_scale=torch.ones((), dtype=dtype, device=device)
    )
    method = algorithm(spec)
    method.start(state)
    _resume(state, checkpoint)

    data, labels = data.to(device, dtype), labels.to(device)
    reported = time.monotonic()
    stopped, stop_loss = False, getattr(spec.training, "stop_loss", None)
    stop_residual = getattr(spec.training, "stop_residual", None)
    while state.step < method.steps and not stopped:
        figures = method.step(state, data, labels)
        state.step += 1
        stopped = stop_loss is not None and float(figures.loss) < stop_loss
        stopped |= stop_residual is not None and state.residual() < stop_residual
        now = time.monotonic()
        if now - reported > REPORT_SECONDS or state.step == method.steps or stopped:
            reported = now
            report(_progress(state.step, method.steps, figures))
        if checkpoint.due and not stopped:
            checkpoint.save(state.tensors())
    if isinstance(spec.training, DecayedDescent) and spec.training.corners and isinstance(state.model, MLP):
        last = len(spec.training.corners) * spec.training.iterations
        settle(
            state.model,
            data,
            labels,
            spec.loss,
            spec.training,
            lambda step, figures: report(_progress(step, last, figures)),
        )
    trained = state.model.cpu()
    if span is None or not isinstance(trained, MLP):
        return trained
    return span.restore(trained, outside * float(state.outside_scale))


def _in_span(span: InputSpan | None, model: ReLUNetwork, inputs: Tensor) -> tuple[ReLUNetwork, Tensor, Tensor]:
    """Return the network that is trained, the part (h, d) of W1 outside the span, and the inputs that it takes."""
    if span is None or not isinstance(model, MLP):
        return model, torch.zeros(()), inputs
    reduced, outside = span.reduce(model)
    return reduced, outside, span.coordinates(inputs.flatten(1))


def _progress(step: int, steps: int, figures: Figures) -> TrainProgress:
    """Return the progress after `step` of `steps` steps, with the figures of the last one."""
    accuracy = (figures.margins > 0).to(figures.margins.dtype).mean()
    return TrainProgress(step, steps, float(figures.loss), float(accuracy), float(figures.margins.min()))


def _resume(state: TrainState, checkpoint: Unfinished) -> None:
    """Load the state of a checkpoint, if there is one; remove a checkpoint that is torn or of another shape."""
    tensors = checkpoint.load()
    if not tensors:
        return
    try:
        state.load(tensors)
    except ValueError:
        checkpoint.discard()
