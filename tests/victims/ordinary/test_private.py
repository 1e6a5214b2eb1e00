"""Private training of an ordinary network: its gradients are clipped and noised, at every step that is paid for."""

from __future__ import annotations

import math

import pytest
import torch
from attacking import CPU, ORDINARY
from pydantic import ValidationError

from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.equations.architectures import MLP, build
from victims.informed.privacy import noise_multiplier
from victims.ordinary.private import PrivateGradients
from victims.ordinary.training import Examples, train_ordinary
from victims.recipes import Ordinary, Privacy
from victims.spec import MLPSpec, VictimSpec

SPEC = MLPSpec(hidden=(30, 20), outputs=4, biases="every", first_layer_scale=None)
NO_NOISE = 1e14
"""An epsilon at which noise is lost in rounding."""


def network() -> MLP:
    model = build(SPEC, (1, 5, 5), torch.Generator().manual_seed(0), torch.float64)
    assert isinstance(model, MLP)
    return model


def records(n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 1, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.arange(n) % 4


@pytest.mark.parametrize("clip", [0.5, 1e3])
def test_gradients_are_the_mean_of_the_records_clipped_ones(clip: float) -> None:
    model, (inputs, labels) = network(), records()
    expected = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for image, label in zip(inputs, labels, strict=True):
        loss = torch.nn.functional.cross_entropy(model(image[None]), label[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        size = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        for total, gradient in zip(expected, gradients, strict=True):
            total.add_(gradient, alpha=min(1, clip / size) / len(labels))
    PrivateGradients(model, Privacy(clip=clip, epsilon=NO_NOISE), 10, seed=0).fill(inputs, labels)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-4 * clip)


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_is_that_of_all_steps_together(seed: int) -> None:
    model, (inputs, labels) = network(), records()
    privacy, steps = Privacy(clip=2.0, epsilon=5.0), 50
    gradients = []
    for epsilon in (5.0, NO_NOISE):
        PrivateGradients(model, privacy.model_copy(update={"epsilon": epsilon}), steps, seed).fill(inputs, labels)
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))  # type: ignore[union-attr]
    noise = gradients[0] - gradients[1]
    spread = 1 / math.sqrt(2 * noise.numel())
    assert float(noise.std()) == pytest.approx(2 * noise_multiplier(privacy, steps) / len(labels), rel=5 * spread)


def test_sampling_that_no_step_does_buys_no_smaller_noise() -> None:
    with pytest.raises(ValidationError, match="all records in every batch: leave out the sampling_rate"):
        Ordinary(privacy=Privacy(sampling_rate=0.1))


def test_as_many_noised_steps_are_taken_as_were_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = defended(ORDINARY, [parse("dp=10")])
    assert isinstance(spec, VictimSpec) and isinstance(spec.training, Ordinary)
    paid, taken = [], []
    monkeypatch.setattr(
        "victims.ordinary.private.noise_multiplier", lambda privacy, steps: paid.append((privacy.epsilon, steps)) or 1.0
    )
    fill = PrivateGradients.fill
    monkeypatch.setattr(PrivateGradients, "fill", lambda self, x, y: taken.append(len(y)) or fill(self, x, y))
    members = Examples(torch.randn(10, 1, 8, 8), torch.arange(10))
    train_ordinary(spec, members, members, CPU, lambda progress: None)
    steps = ORDINARY.training.epochs * 2  # type: ignore[union-attr]
    assert paid == [(10, steps)]
    assert taken == [10] * steps


def test_without_noise_and_clipping_it_is_plain_training_on_all_records() -> None:
    plain = ORDINARY.model_copy(update={"training": Ordinary(epochs=6, batch_size=10, dtype="float64")})
    loose = Ordinary(epochs=6, batch_size=10, dtype="float64", privacy=Privacy(clip=1e3, epsilon=NO_NOISE))
    generator = torch.Generator().manual_seed(3)
    members = Examples(torch.randn(10, 1, 8, 8, generator=generator, dtype=torch.float64), torch.arange(10))
    ends = [
        train_ordinary(spec, members, members, CPU, lambda progress: None).model.state_dict()
        for spec in (plain, plain.model_copy(update={"training": loose}))
    ]
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, rtol=1e-3, atol=1e-4)
