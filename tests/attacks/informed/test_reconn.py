"""RecoNN and its baseline on 8 x 8 digits: they learn, from shadows alone, in the paper's directions."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attacking import CPU, attacked, context, digits_network, victim_of
from torch import Tensor

from attacks.base import Knowledge, Reconstruction
from attacks.context import Budget
from attacks.informed.discriminator import PatchDiscriminator
from attacks.informed.reconstructor import (
    Pairs,
    Schedule,
    apply,
    convolutional_reconstructor,
    dense_reconstructor,
    fit,
    pixel_loss,
)
from attacks.informed.ridge import STRENGTHS, fit_ridge
from attacks.informed.shadows import ShadowParams, Shadows
from attacks.informed.standardisation import Standardisation, parameter_features
from attacks.reconn import Reconn, ReconnParams
from attacks.reconn_linear import ReconnLinear
from bench.plan.options import attack_params
from bench.run.disclosure import view_of
from victims.errors import UserError
from victims.informed.spec import InformedSpec

PLAIN = digits_network(n=60, targets=30, epochs=40, hidden=8)
SMALL: dict[str, Any] = {"shadows": 500, "hidden": (200,), "lr": 1e-3, "epochs": 50, "batch_size": 64}


def attack(spec: InformedSpec, *, linear: bool = False, **params: Any) -> tuple[Reconstruction, float]:
    """What the attack returns, and its mean squared error over the targets."""
    chosen = ReconnLinear(ShadowParams(shadows=500)) if linear else Reconn(ReconnParams(**SMALL | params))
    victim = victim_of(spec)
    found = attacked(chosen, victim)
    return found, float((found.candidates - torch.from_numpy(victim.split.targets.images)).square().mean())


def mean_image_error(spec: InformedSpec) -> float:
    split = victim_of(spec).split
    return float(((split.targets.images - split.pool.images.mean(0)) ** 2).mean())


def test_it_beats_the_ridge_decoder_which_beats_the_mean_image() -> None:
    (found, error), (_, linear) = attack(PLAIN), attack(PLAIN, linear=True)
    assert error < linear
    assert linear < 0.8 * mean_image_error(PLAIN)
    assert found.loss == pytest.approx(error, rel=0.5)  # the validation error foretells it
    assert found.flags == ("500 shadows",)


def test_from_logits_it_learns_less_and_from_a_random_start_nothing() -> None:
    mean = mean_image_error(PLAIN)
    assert attack(PLAIN, released="logits", queries=40)[1] < 0.7 * mean
    assert attack(PLAIN, layers=(2,))[1] < 0.7 * mean
    assert attack(PLAIN.model_copy(update={"initialisation": "random"}))[1] > 0.85 * mean


def test_a_rehearsal_on_another_fixed_set_helps_where_shadows_are_few() -> None:
    alone, rehearsed = attack(PLAIN, shadows=60)[1], attack(PLAIN, shadows=60, rehearsal=500)[1]
    assert rehearsed < alone


def test_no_image_of_a_rehearsal_is_one_of_a_shadow_or_of_its_fixed_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the images that choose the epoch would be images that the decoder was taught."""
    train, seen = Reconn.shadows, []

    def noted(self: Reconn, view: Any, fixed: Any, extra: Any, ctx: Any) -> Shadows:
        seen.append((fixed[0], extra[0]))
        return train(self, view, fixed, extra, ctx)

    monkeypatch.setattr(Reconn, "shadows", noted)
    attack(PLAIN, shadows=30, rehearsal=40, epochs=1)
    (_, shadows), (fixed, rehearsed) = seen
    pool = torch.from_numpy(victim_of(PLAIN).split.pool.images)
    assert torch.equal(shadows, pool[:30])
    assert torch.equal(rehearsed, pool[30:70])
    assert torch.equal(fixed, pool[-60:])


def test_a_budget_counts_the_steps_of_the_rehearsal() -> None:
    """Nine shadows in ten are learnt from, a batch an epoch: five epochs of rehearsal leave two of seven steps."""
    reconn = Reconn(ReconnParams(**SMALL | {"shadows": 20, "rehearsal": 20, "epochs": 5}))
    ctx = replace(context(), budget=Budget(steps=7))
    found = reconn.reconstruct(view_of(victim_of(PLAIN), reconn.knowledge, CPU), ctx)
    assert ctx.stopped
    assert found.grad_evals == 7


def test_a_budget_of_time_leaves_half_of_it_for_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from victims.informed import shadows

    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shadows, "PART", 10)
    linear = ReconnLinear(ShadowParams(shadows=40))
    view = view_of(victim_of(PLAIN), linear.knowledge, CPU)

    def found(spent: float) -> Reconstruction:
        """What comes out of a budget of an hour, of which a share is spent."""
        ctx = replace(context(), budget=Budget(seconds=3600.0), started=time.monotonic() - 3600.0 * spent)
        return linear.reconstruct(view, ctx)

    few, all_of_them, again = found(0.51), found(0.3), found(0.51)
    assert few.flags == ("10 shadows, 30 more left out for the budget",)
    assert all_of_them.flags == again.flags == ("40 shadows",)
    assert few.candidates.isfinite().all()
    assert torch.equal(all_of_them.candidates, again.candidates)


def test_logits_are_asked_for_and_weights_are_not_told() -> None:
    assert Knowledge.WEIGHTS not in Reconn(ReconnParams(released="logits")).knowledge
    assert Knowledge.LOGITS not in Reconn(ReconnParams()).knowledge


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"shadows": 5000}, "5000 shadows, but the shadow pool has 1707 images"),
        ({"shadows": 5}, "expected at least 10"),
        ({"layers": (3,)}, "layers 1 to 2; it has no layer 3"),
        ({"released": "logits", "queries": 61}, "61 queries, but the fixed set has 60"),
        ({"rehearsal": 1628}, "20 shadows, a rehearsal of 1628 and 60 other fixed images; the pool has 1707"),
        ({"adversarial": 0.1}, "at least 24 pixels"),
    ],
)
def test_what_cannot_be_is_one_clear_line(params: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        attack(PLAIN, **{"shadows": 20, **params})


@pytest.mark.parametrize(
    ("variant", "setting", "message"),
    [
        ("black-box", {"layers": [2]}, "--set layers=[2]: released=logits does not use it"),
        ("", {"queries": 40}, "--set queries=40: released=parameters does not use it"),
    ],
)
def test_what_the_released_part_has_not_is_refused(variant: str, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        attack_params(Reconn, variant, setting)
    assert str(refused.value) == message


def test_a_shadow_that_diverged_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from victims.informed import shadows

    train = shadows.train_shadows

    def diverged(*arguments: Any) -> dict[str, Tensor]:
        trained = train(*arguments)
        trained["layers.1.bias"][7] = torch.nan
        return trained

    monkeypatch.setattr(shadows, "train_shadows", diverged)
    found, _ = attack(PLAIN, shadows=40, epochs=1)
    assert found.flags == ("39 shadows, 1 more diverged and were dropped",)
    assert found.candidates.isfinite().all()
    reconn = Reconn(ReconnParams())
    view = view_of(victim_of(PLAIN), reconn.knowledge, CPU)
    images, labels = (part[:12] for part in view.shadow_pool)
    kept = reconn.shadows(view, view.known_points, (images, labels), context())
    assert torch.equal(kept.images, torch.cat([images[:7], images[8:]]))  # each is that of its own model


@pytest.mark.parametrize(("validation", "apart"), [(0.01, 1), (0.3, 3), (0.95, 9)])
def test_some_shadows_are_left_to_learn_from_and_some_to_validate_on(validation: float, apart: int) -> None:
    shadows = Shadows(torch.arange(10.0)[:, None], torch.arange(10.0).view(10, 1, 1, 1), 0, 0)
    first, last = shadows.split(validation)
    assert first.features.flatten().tolist() == list(range(10 - apart))
    assert last.images.flatten().tolist() == list(range(10 - apart, 10))


def test_constant_features_stay_and_others_are_standardised() -> None:
    features = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 1e-5 + 0.3
    features[:, 2] = 0.1
    scaled = Standardisation.of(features)(features)
    assert scaled.isfinite().all()
    assert scaled[:, 2].abs().max() < 1e-6
    for column in (0, 1, 3):
        assert scaled[:, column].mean().abs() < 1e-2  # float32 at this offset
        assert scaled[:, column].std() == pytest.approx(1, abs=1e-3)


def test_features_are_those_of_the_chosen_layers() -> None:
    parameters = {
        "layers.0.weight": torch.zeros(2, 3, 4),
        "layers.0.bias": torch.ones(2, 3),
        "layers.1.weight": torch.full((2, 2, 3), 2.0),
        "layers.1.bias": torch.full((2, 2), 3.0),
    }
    assert parameter_features(parameters, ()).shape == (2, 12 + 3 + 6 + 2)
    assert parameter_features(parameters, (2,))[0].tolist() == [2.0] * 6 + [3.0] * 2


@pytest.mark.parametrize("count", [20, 200], ids=["k < p", "k > p"])
def test_ridge_solves_its_normal_equations(count: int) -> None:
    """The products are sums of up to 200 float32 terms, rounded by some sqrt(200) eps, times the condition."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(count, 50, generator=generator)
    features -= features.mean(0)
    truth = torch.randn(50, 3, generator=generator)
    images = features @ truth * 0.01 + 0.5
    ridge = fit_ridge(features, images, (features, images))
    strength = ridge.strength * features.square().sum() / count
    exact = features.double()
    matrix = exact.T @ exact + strength * torch.eye(50)
    expected = torch.linalg.solve(matrix, exact.T @ (images.double() - 0.5))
    rounding = 200**0.5 * torch.finfo(torch.float32).eps * float(torch.linalg.cond(matrix))
    assert float((ridge.weight - expected).norm() / expected.norm()) < rounding < 0.01


def test_ridge_is_as_strong_as_fits_what_is_kept_apart() -> None:
    """Noise that is fitted foretells nothing; what is linear foretells itself."""
    generator = torch.Generator().manual_seed(0)
    features, others = (torch.randn(40, 50, generator=generator) for _ in range(2))
    truth = torch.randn(50, 3, generator=generator)
    features -= features.mean(0)
    noise, apart = (0.5 + 0.1 * torch.randn(40, 3, generator=generator) for _ in range(2))
    assert fit_ridge(features, noise, (others, apart)).strength == max(STRENGTHS)
    linear, same = (0.5 + 0.01 * given @ truth for given in (features, features[:20]))
    found = fit_ridge(features, linear, (features[:20], same))
    assert found.strength == min(STRENGTHS)
    assert found.error == pytest.approx(float((found(features[:20]) - same).square().mean()))


def test_the_loss_of_pixels_is_the_absolute_and_the_squared_error() -> None:
    images, truth = torch.tensor([[0.2, 0.9], [0.5, 0.5]]), torch.tensor([[0.0, 0.5], [0.5, 0.5]])
    assert float(pixel_loss(images, truth)) == pytest.approx((0.2 + 0.4) / 4 + (0.04 + 0.16) / 4)


def test_training_ends_early_and_keeps_the_best_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    features, images = torch.randn(40, 6, generator=generator), torch.rand(40, 1, 2, 2, generator=generator)
    torch.manual_seed(0)
    network = dense_reconstructor(6, (64,), (1, 2, 2))
    optimizer = torch.optim.RMSprop(network.parameters(), 1e-2)
    apart, seen = Pairs(features[30:], images[30:]), []
    best, steps = fit(
        *(network, optimizer, pixel_loss, Pairs(features[:30], images[:30]), apart, Schedule(500, 8, 5), generator),
        lambda epoch, loss, error: seen.append(error),
    )
    assert len(seen) < 500
    assert best == min(seen)
    assert steps == 4 * len(seen)  # batches of 8 of 30 pairs
    assert len(seen) - 1 - seen.index(best) == 5
    assert torch.nn.functional.mse_loss(apply(network, apart.features), apart.images).item() == pytest.approx(best)


def test_colour_images_come_from_transposed_convolutions_and_a_discriminator_that_learns() -> None:
    torch.manual_seed(0)
    network = convolutional_reconstructor(20, (3, 32, 32))
    images = network(torch.randn(4, 20))
    assert images.shape == (4, 3, 32, 32)
    assert 0 <= images.min() <= images.max() <= 1
    assert (
        sum(p.numel() for p in convolutional_reconstructor(55098, (3, 32, 32)).parameters()) > 225e6
    )  # the paper's 226M
    discriminator = PatchDiscriminator(3, CPU)
    before = [value.clone() for value in discriminator.network.parameters()]
    loss = discriminator(images, torch.rand(4, 3, 32, 32))
    loss.backward()
    assert next(network.parameters()).grad is not None
    assert any(not torch.equal(a, b) for a, b in zip(before, discriminator.network.parameters(), strict=True))


def test_a_discriminator_learns_to_give_true_images_1_and_others_0() -> None:
    """By a step down the slope of the least squares, after which the others are judged."""
    torch.manual_seed(0)
    discriminator = PatchDiscriminator(1, CPU)
    truth, images = torch.rand(2, 1, 24, 24), torch.rand(2, 1, 24, 24).square()
    parameters = list(discriminator.network.parameters())
    squares = (discriminator.network(truth) - 1).square().mean() + discriminator.network(images).square().mean()
    expected = torch.autograd.grad(squares, parameters)
    loss = discriminator(images, truth)
    for parameter, slope in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, slope)
    torch.testing.assert_close(loss, (discriminator.network(images) - 1).square().mean())
