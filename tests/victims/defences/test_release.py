"""What is done on release: noise of the norm it says, values of the format it says, answers of the size it says."""

from __future__ import annotations

import math

import pytest
import torch
from attacking import BATCH_NORM, BIASES, CPU, ORDINARY, digits_network, victim_of

from attacks.base import Knowledge
from bench.run.disclosure import view_of
from victims.cache import origin
from victims.card import describe
from victims.defences.release import answered, degraded, require_released
from victims.defences.spec import AnyDefence, parse
from victims.defences.stacking import defended
from victims.errors import UserError
from victims.informed.spec import AnySpec
from victims.ordinary import obtain as ordinary
from victims.training import loop


def stack(*texts: str) -> list[AnyDefence]:
    return [parse(text) for text in texts]


def under(spec: AnySpec, *texts: str) -> AnySpec:
    return defended(spec, stack(*texts))


def released(tensor: torch.Tensor, *texts: str, seed: int = 0) -> torch.Tensor:
    return degraded(tensor, stack(*texts), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_the_norm_that_it_says(seed: int) -> None:
    tensor = 7 * torch.rand(100, 100, generator=torch.Generator().manual_seed(9)) + 1
    noise = released(tensor, "noise=0.02", seed=seed) - tensor
    spread = 1 / math.sqrt(2 * tensor.numel())  # of the norm of that many normal numbers, relative to its mean
    assert float(noise.norm() / tensor.norm()) == pytest.approx(0.02, rel=5 * spread)
    assert abs(float(noise.mean())) < 5 * float(noise.std()) / math.sqrt(tensor.numel())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_torchs(dtype: str) -> None:
    tensor = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(released(tensor, f"round={dtype}"), tensor.to(getattr(torch, dtype)).float())


def test_int8_has_one_scale_a_row_and_is_off_by_half_of_it_at_most() -> None:
    tensor = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[1.0], [100], [1e-3], [0]]
    )
    rounded, scale = released(tensor, "round=int8"), tensor.abs().amax(1, keepdim=True) / 127
    assert ((rounded - tensor).abs() <= scale * (0.5 + 1e-4)).all()
    steps = rounded[:3] / scale[:3]
    assert (steps - steps.round()).abs().max() < 1e-3
    assert steps.abs().amax(1).tolist() == pytest.approx([127] * 3)
    assert torch.equal(rounded[3], tensor[3])
    bias = released(tensor[0], "round=int8")
    assert torch.equal(bias, rounded[0])


def test_the_order_is_kept() -> None:
    tensor = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
    first, last = released(tensor, "round=bfloat16", "noise=0.1"), released(tensor, "noise=0.1", "round=bfloat16")
    assert torch.equal(last, last.bfloat16().float())
    assert not torch.equal(first, first.bfloat16().float())
    assert torch.equal(last, released(tensor, "noise=0.1").bfloat16().float())


def test_a_weight_beyond_the_format_is_a_mistake_of_the_user() -> None:
    rounded = released(torch.tensor([1.0, 1e5]), "round=float16")
    with pytest.raises(UserError, match="take bfloat16"):
        require_released("own", {"weight": rounded})
    require_released("own", {"weight": rounded[:1]})


def test_clipped_answers_keep_the_class_and_hide_how_sure_it_is() -> None:
    outputs = torch.tensor([[3.0, -8.0, 1.0], [0.1, 0.3, 0.2], [0.0, 0.0, 0.0]])
    shown = answered(outputs, stack("clip-outputs=2"), torch.Generator())
    assert torch.equal(shown.argmax(1), outputs.argmax(1))
    assert shown.abs().amax(1).tolist() == pytest.approx([2, 0.3, 0])
    assert torch.equal(shown[1:], outputs[1:])
    assert answered(torch.tensor([5.0, -5, 0.5]), stack("clip-outputs=2"), torch.Generator()).tolist() == pytest.approx(
        [2, -2, 0.5]
    )
    assert answered(outputs, stack("noise=1"), torch.Generator()) is outputs


def test_one_logit_is_one_class_whatever_stands_before_it() -> None:
    """The informed adversary's models answer (T, m, 1)."""
    logits = torch.tensor([2.0, -1.0, 0.5])
    for text in ("answers=probabilities", "answers=labels"):
        flat = answered(logits, stack(text), torch.Generator())
        assert flat.unique().numel() > 1
        assert torch.equal(answered(logits.view(1, 3, 1), stack(text), torch.Generator()), flat.view(1, 3, 1))


def test_a_released_victim_is_made_of_the_trained_one_and_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = victim_of(BIASES)
    monkeypatch.setattr(loop, "train", lambda *arguments: pytest.fail("it is trained already"))
    spec = under(BIASES, "noise=0.5", "round=int8")
    made, kept = victim_of(spec), victim_of(spec)
    measured = describe(spec, made.model, made.split, origin("", "", CPU, 0.0))
    assert made.card.test_loss == kept.card.test_loss == measured.test_loss != plain.card.test_loss
    assert made.card.test_accuracy == measured.test_accuracy
    assert (made.card.name, made.card.train_s) == (spec.name, plain.card.train_s)
    for name, value in plain.model.state_dict().items():
        assert torch.equal(made.model.state_dict()[name], kept.model.state_dict()[name])
        assert 0.2 < float((made.model.state_dict()[name] - value).norm() / value.norm()) < 1
    assert made.card.weights_sha256 == kept.card.weights_sha256 != plain.card.weights_sha256


@pytest.mark.parametrize("twin", ["untrained", "disjoint"])
def test_a_twin_is_defended_as_its_victim_is(twin: str) -> None:
    plain, noised = (victim_of(spec.as_twin(twin)) for spec in (BIASES, under(BIASES, "noise=0.05")))  # type: ignore[union-attr]
    first, second = (next(victim.model.parameters()).detach() for victim in (plain, noised))
    assert float((second - first).norm() / first.norm()) == pytest.approx(0.05, rel=0.2)


def test_the_start_stays_and_the_card_tells_of_the_way_to_what_is_released() -> None:
    plain = victim_of(ORDINARY)
    noised, again = (victim_of(under(ORDINARY, "noise=0.3")) for _ in range(2))
    assert all(torch.equal(plain.start[name], noised.start[name]) for name in plain.start)
    pairs = [(value, plain.start[name]) for name, value in noised.model.state_dict().items()]
    moved = math.sqrt(sum(float((end - start).square().sum()) for end, start in pairs))
    length = math.sqrt(sum(float(start.square().sum()) for _, start in pairs))
    assert noised.card.movement == again.card.movement == pytest.approx(moved / length, rel=1e-5)
    assert noised.card.start_sha256 == plain.card.start_sha256


def test_the_card_of_a_defended_cnn_tells_of_the_way() -> None:
    plain, made = victim_of(BATCH_NORM), victim_of(under(BATCH_NORM, "clip-outputs=1"))
    figures = ("movement", "start_decay", "directions", "start_sha256")
    assert plain.card.movement > 0
    assert [getattr(made.card, name) for name in figures] == [getattr(plain.card, name) for name in figures]


def test_weights_released_on_the_way_are_defended_and_their_statistics_stay() -> None:
    training = BATCH_NORM.training.model_copy(update={"snapshots": (1, 3)})
    spec = BATCH_NORM.model_copy(update={"name": "digits-cnn-10-c10-snapshots", "training": training})
    plain, made, kept = (victim_of(one) for one in (spec, *[under(spec, "noise=0.1")] * 2))
    assert len(plain.earlier) == 2
    noises = list[torch.Tensor]()
    for before, after, again in zip(plain.earlier, made.earlier, kept.earlier, strict=True):
        assert all(torch.equal(after[name], value) for name, value in again.items())
        assert torch.equal(before["front.1.running_mean"], after["front.1.running_mean"])
        noise = after["layers.0.weight"] - before["layers.0.weight"]
        assert float(noise.norm() / before["layers.0.weight"].norm()) == pytest.approx(0.1, rel=0.1)
        noises.append(noise.flatten())
    noises.append((made.model.layers[0].weight - plain.model.layers[0].weight).detach().flatten())
    angles = torch.corrcoef(torch.stack(noises)) - torch.eye(3)
    assert float(angles.abs().max()) < 5 / math.sqrt(len(noises[0]))


def test_an_undisclosed_start_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = frozenset({Knowledge.INITIAL_WEIGHTS})
    assert view_of(victim_of(ORDINARY), asked, CPU).initial_weights is not None
    assert view_of(victim_of(under(ORDINARY, "random-seed")), asked, CPU).initial_weights is None
    assert ordinary.START  # it is kept beside the victim all the same


def test_every_released_model_has_noise_of_its_own() -> None:
    spec = digits_network(n=20, targets=3, epochs=2)
    plain, noised = victim_of(spec), victim_of(under(spec, "noise=0.1"))
    for name, value in plain.weights.items():
        noise = noised.weights[name] - value
        norms = noise.flatten(1).norm(dim=1) / value.flatten(1).norm(dim=1).clamp_min(1e-12)
        if value[0].numel() > 100:
            assert norms.tolist() == pytest.approx([0.1] * 3, rel=0.3)
            assert not torch.equal(noise[0], noise[1])
    assert noised.card.test_loss != plain.card.test_loss
    kept = victim_of(under(spec, "noise=0.1"))
    assert all(torch.equal(kept.weights[name], value) for name, value in noised.weights.items())


@pytest.mark.parametrize("spec", [BIASES, ORDINARY, digits_network(n=20, targets=3, epochs=40)], ids=["1", "10", "T"])
def test_queries_are_answered_within_the_clip(spec: AnySpec) -> None:
    needs = frozenset({Knowledge.LOGITS})
    plain, clipped = victim_of(spec), victim_of(under(spec, "clip-outputs=0.01"))
    inputs = torch.rand(5, *plain.input_shape, generator=torch.Generator().manual_seed(0))
    free, shown = (view_of(victim, needs, CPU).logits(inputs) for victim in (plain, clipped))
    assert float(free.abs().max()) > 0.02
    assert float(shown.abs().max()) == pytest.approx(0.01)
    torch.testing.assert_close(shown, answered(free, stack("clip-outputs=0.01"), torch.Generator()))
