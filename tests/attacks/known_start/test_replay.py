"""A training run again: forwards against torch.optim, backwards against a difference quotient, and what it gains."""

from __future__ import annotations

import math
import weakref
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Interrupted, Memory, attacked, context, victim_of

import attacks.context
from attacks.base import Knowledge
from attacks.context import Budget
from attacks.kkt_delta import KKTDelta
from attacks.kkt_family.ranking.evidence import evidence
from attacks.known_start.equation import checked_difference
from attacks.known_start.params import KKTDeltaParams
from attacks.known_start.unrolled_training import UnrolledTraining
from attacks.replay import Replay as Attack
from attacks.replay import ReplayParams
from bench.run.disclosure import view_of
from victims.equations.network import Network
from victims.recipes import Ordinary, Schedule
from victims.spec import MLPSpec, VictimSpec

SHARP = 1e8
RECIPE = Ordinary(lr=0.1, batch_size=4, epochs=9, weight_decay=0.01)
VICTIM = VictimSpec(
    name="digits-mlp-10-c10-full",
    dataset="digits",
    n=10,
    architecture=MLPSpec(hidden=(60, 60), outputs=10, biases="every", first_layer_scale=None),
    training=Ordinary(lr=0.05, batch_size=10, epochs=40),
)


def small(seed: int, recipe: Ordinary = RECIPE, most: int = 100, alpha: float = SHARP) -> tuple[UnrolledTraining, Any]:
    """A replay in float64 on 4 images of 5 coordinates, and the images, their labels one-hot, and weights."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / math.sqrt(shape[-1])

    start = Network((draw(9, 5), draw(8, 9), draw(3, 8)), (draw(9), draw(8), draw(3)))
    targets = F.one_hot(torch.tensor([0, 1, 2, 1]), 3).double()
    weights = (torch.rand(4, generator=generator, dtype=torch.float64) + 0.5).softmax(0)
    return UnrolledTraining.of(start, recipe, 4, most, alpha), (2 * draw(4, 5), targets, weights)


@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_a_replay_is_what_torch_optim_does(schedule: Any) -> None:
    recipe = RECIPE.model_copy(update={"schedule": schedule})
    replay, (inputs, targets, weights) = small(0, recipe)
    theta = [one.clone().requires_grad_() for one in replay.begin()[0]]
    optimiser = torch.optim.SGD(theta, recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    for step in range(recipe.epochs):
        share = step / recipe.epochs
        drops = 0.1 ** ((share >= 0.5) + (share >= 0.75))
        rate = {"cosine": (1 + math.cos(math.pi * share)) / 2, "constant": 1.0, "step": drops}[schedule]
        optimiser.param_groups[0]["lr"] = recipe.lr * rate
        optimiser.zero_grad()
        outputs = Network(tuple(theta[:3]), tuple(theta[3:])).forward(inputs, torch.relu)
        (weights * F.cross_entropy(outputs, targets.argmax(1), reduction="none")).sum().backward()
        optimiser.step()
    for ended, expected in zip(replay.end(inputs, targets, weights), theta, strict=True):
        assert torch.allclose(ended, expected)


def test_after_the_last_step_it_decays_alone() -> None:
    """Without a learning signal the whole training is decay: a constant rate and no momentum give it in closed form."""
    recipe = RECIPE.model_copy(update={"schedule": "constant", "momentum": 0.0})
    replay, _ = small(0, recipe, most=3)
    assert len(replay.rates) == 3
    assert replay.left == pytest.approx((1 - recipe.lr * recipe.weight_decay) ** 6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gradient_is_a_difference_quotient(seed: int) -> None:
    replay, (inputs, targets, weights) = small(seed, most=7)
    generator = torch.Generator().manual_seed(10 + seed)
    aim = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in replay.begin()[0]]

    def value(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        ended = replay.end(inputs, targets, weights)
        return torch.stack([(one - to).square().sum() for one, to in zip(ended, aim, strict=True)]).sum()

    leaves = [inputs.clone().requires_grad_(), weights.clone().requires_grad_()]
    by_inputs, by_weights = torch.autograd.grad(value(*leaves), leaves)
    toward = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
    heavier = torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    small_step = 1e-6
    along = value(inputs + small_step * toward, weights) - value(inputs - small_step * toward, weights)
    weighed = value(inputs, weights + small_step * heavier) - value(inputs, weights - small_step * heavier)
    assert float(along) / (2 * small_step) == pytest.approx(float((by_inputs * toward).sum()), rel=1e-5)
    assert float(weighed) / (2 * small_step) == pytest.approx(float((by_weights * heavier).sum()), rel=1e-5)


def test_memory_holds_two_roots_of_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    replay, (inputs, targets, weights) = small(0, RECIPE.model_copy(update={"epochs": 100}))
    assert len(replay.rates) == 100
    states, most, plain = list[Any](), 0, UnrolledTraining.step

    def step(*arguments: Any) -> Any:
        nonlocal most
        state = plain(*arguments)
        states.append(weakref.ref(state[0][0]))
        most = max(most, sum(one() is not None for one in states))
        return state

    monkeypatch.setattr(UnrolledTraining, "step", step)
    ended = replay.end(inputs.requires_grad_(), targets, weights)
    torch.stack([one.square().sum() for one in ended]).sum().backward()
    assert len(states) == 190  # all of them forwards, and nine of every ten again
    assert most <= 2 * 10 + 2  # and the two that a step goes between


def test_training_in_full_batches_on_the_true_images_ends_at_the_released_weights() -> None:
    victim = victim_of(VICTIM)
    start, end = (Network.of(state) for state in (victim.start, victim.model.state_dict()))
    basis = checked_difference(start, end).basis(10).float()
    inputs = torch.from_numpy(victim.split.inputs).flatten(1) @ basis
    targets = F.one_hot(torch.from_numpy(victim.split.labels), 10).float()
    replay = UnrolledTraining.of(start.on_coordinates(basis), VICTIM.training, 10, 100, SHARP)
    ended = replay.end(inputs, targets, torch.full((10,), 0.1))
    assert float((ended[0] - end.weights[0] @ basis).norm() / (end.weights[0] - start.weights[0]).norm()) < 1e-3
    assert float((ended[1] - end.weights[1]).norm() / (end.weights[1] - start.weights[1]).norm()) < 1e-3


def test_the_attack_is_told_of_the_training_and_starts_from_kkt_delta() -> None:
    victim = victim_of(VICTIM)
    shared = {"steps": 20, "restarts": 1}
    attack = Attack(ReplayParams(replay_steps=3, **shared))
    assert attack.knowledge == KKTDelta(KKTDeltaParams()).knowledge | {Knowledge.TRAINING}
    found, begun = attacked(attack, victim), attacked(KKTDelta(KKTDeltaParams(**shared)), victim)
    assert found.candidates.shape == begun.candidates.shape
    assert found.grad_evals == begun.grad_evals + 3
    assert found.labels is not None
    assert found.confidence is not None
    assert float(found.confidence.mean()) == pytest.approx(1, rel=1e-4)
    ranked = attacked(Attack(ReplayParams(replay_steps=3, ranking="evidence", **shared)), victim)
    assert torch.equal(ranked.candidates, found.candidates)
    ones = torch.ones_like(found.confidence)
    torch.testing.assert_close(ranked.confidence, evidence(found.confidence, ones, found.candidates, found.labels))
    assert found.flags[-1].startswith("W1 - c W1(0) missed by")


def test_a_kill_in_the_training_that_is_run_again_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after five of its eight steps, and the 20 of `kkt-delta` are not taken again."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    attack, kept = Attack(ReplayParams(steps=20, replay_steps=8)), Memory(most=20 + 1 + 5)
    view, ctx = view_of(victim_of(VICTIM), attack.knowledge, CPU), context()
    expected = attack.reconstruct(view, ctx)
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=kept))
    kept.most = 10**9
    again = replace(context(), checkpoints=kept, trace=[])
    found = attack.reconstruct(view, again)
    assert torch.equal(found.candidates, expected.candidates)
    assert found.grad_evals == expected.grad_evals == 28
    assert [row["step"] for row in again.trace] == [row["step"] for row in ctx.trace]
    assert kept.kept == 26 + 3


@pytest.mark.parametrize(("steps", "searched"), [(12, 12), (23, 23), (28, 28), (99, 28)])
def test_it_counts_the_steps_that_it_took(steps: int, searched: int) -> None:
    """The budget ends it in `kkt-delta`'s 20 steps, in its own eight, at their end, or never."""
    attack, ctx = Attack(ReplayParams(steps=20, replay_steps=8)), replace(context(), budget=Budget(steps=steps))
    found = attack.reconstruct(view_of(victim_of(VICTIM), attack.knowledge, CPU), ctx)
    assert found.grad_evals == searched
    assert (found.labels is None) == math.isinf(found.loss) == (searched < 20)


def test_where_its_search_diverges_the_candidates_are_those_of_kkt_delta() -> None:
    victim = victim_of(VICTIM)
    found = attacked(Attack(ReplayParams(steps=20, replay_steps=3, replay_lr=1e30)), victim)
    assert torch.equal(found.candidates, attacked(KKTDelta(KKTDeltaParams(steps=20)), victim).candidates)
    assert found.flags[-1].startswith("the search through the training diverged")
    assert found.loss == math.inf


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"optimiser": "adamw"}, "for SGD without clipping"),
        ({"clip": 1.0}, "for SGD without clipping"),
        ({"stop_loss": 0.1}, "for SGD without clipping"),
        ({"last_layers": 1}, "for trainings of all layers"),
    ],
)
def test_other_trainings_are_declined(change: dict[str, Any], reason: str) -> None:
    spec = VICTIM.model_copy(update={"training": VICTIM.training.model_copy(update=change)})
    declined = Attack(ReplayParams()).supports(spec)
    assert declined is not None
    assert declined.startswith(reason)
    assert Attack(ReplayParams()).supports(VICTIM) is None
