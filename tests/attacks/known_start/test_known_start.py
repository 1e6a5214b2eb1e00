"""Attacks on a known start: the equation against autograd, and images that come back from a tiny victim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, ORDINARY, Interrupted, Memory, attacked, context, drawn_network, sgd_network, victim_of

from attacks import context as contexts
from attacks.base import AttackContext, Knowledge
from attacks.kkt_delta import KKTDelta
from attacks.known_start.equation import Equation, back_propagated, checked_difference, interpolated
from attacks.known_start.params import KKTDeltaParams
from attacks.known_start.search import Search
from bench.run.disclosure import view_of
from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.equations.gates import smooth_gate
from victims.equations.network import Network
from victims.ordinary.seeds import guess_seed
from victims.recipes import Ordinary
from victims.spec import MLPSpec, VictimSpec

SHARP = 1e8
TINY = sgd_network("digits", 10, (200, 200), lr=0.02, batch_size=5, epochs=10)
PARAMS = KKTDeltaParams(
    candidates=5,
    points=(0.5,),
    steps=10,
    lr=0.1,
    coefficient_lr=0.1,
    alpha=(1.0, 5.0),
    pixel_size=1.0,
    coordinate_power=0.5,
    residual_power=0.3,
    neuron_power=1.0,
    second_layer=1.0,
    signal_span=0.15,
).resolved(images=10, moved=0.0)


def random_network(seed: int) -> Network:
    return drawn_network(torch.Generator().manual_seed(seed), 12, 9, 8, 3)


def test_the_signals_are_the_gradients_by_the_first_two_layers() -> None:
    network, generator = random_network(0), torch.Generator().manual_seed(1)
    inputs = torch.randn(4, 12, generator=generator, dtype=torch.float64)
    coefficients = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    weight = network.weights[0].clone().requires_grad_()
    assert network.biases[0] is not None
    bias = network.biases[0].clone().requires_grad_()
    second = network.weights[1].clone().requires_grad_()
    outputs = network.forward(
        inputs, smooth_gate(SHARP), (weight, second, *network.weights[2:]), (bias, *network.biases[1:])
    )
    by_weight, by_bias, by_second = torch.autograd.grad((coefficients * outputs).sum(), (weight, bias, second))
    signals, activations = back_propagated(network, inputs, coefficients, SHARP)
    assert torch.allclose(signals[0].T @ inputs, by_weight)
    assert torch.allclose(signals[0].sum(0), by_bias)
    assert torch.allclose(signals[1].T @ activations, by_second)


def test_the_truth_of_one_step_solves_the_equation() -> None:
    """One full batch of gradient descent: at the start, with the loss's own coefficients, nothing is left."""
    start, generator = random_network(0), torch.Generator().manual_seed(2)
    inputs = torch.randn(3, 12, generator=generator, dtype=torch.float64)
    coefficients = 0.01 * torch.randn(3, 3, generator=generator, dtype=torch.float64)
    (signals, later, _), activations = back_propagated(start, inputs, coefficients, SHARP)
    weights, biases = start.weights, start.biases
    assert biases[0] is not None
    end = replace(
        start,
        weights=(weights[0] + signals.T @ inputs, weights[1] + later.T @ activations, *weights[2:]),
        biases=(biases[0] + signals.sum(0), *biases[1:]),
    )
    found = checked_difference(start, end)
    assert found.rank == 3
    equation = Equation.of(start, end, found, found.rank, (0.0,))
    again, second = equation.terms(inputs @ equation.basis, coefficients[None], SHARP)
    assert torch.allclose(second, equation.second, atol=1e-10)
    assert torch.allclose(again.T @ (inputs @ equation.basis), equation.weight, atol=1e-10)
    inside = (again @ equation.error_basis).square().sum() / again.square().sum()
    assert float(inside) == pytest.approx(1)
    follows = equation.consistency(inputs @ equation.basis, again)
    assert follows.tolist() == pytest.approx([1] * 3, abs=1e-3)  # but for the ridge
    shared = torch.cat([again[:2], again[2:] / 2, again[2:] / 2])
    apart = torch.cat([inputs[:2], inputs[2:] + inputs[:1], inputs[2:] - inputs[:1]]) @ equation.basis
    assert (equation.consistency(apart, shared)[2:] < 0.99).all()  # two that fire alike come back as their mean


def test_the_objectives_gradient_is_a_difference_quotient() -> None:
    start, end = random_network(0), random_network(3)
    equation = Equation.of(start, end, known_anyway(start, end), 4, (0.2, 0.7))
    search = Search(equation, PARAMS, torch.Generator().manual_seed(0))

    def value() -> float:
        # the forward pass has the ReLU's kink, its gradient the smooth gate: sharp gates make them one
        return float(search.objective(SHARP).detach())

    search.objective(SHARP).backward()
    slope, step = search.coefficients.grad, 1e-6
    assert slope is not None
    for place in ((0, 1, 2), (1, 4, 0)):
        middle = search.coefficients.data[place].item()
        ends = []
        for sign in (1, -1):
            search.coefficients.data[place] = middle + sign * step
            ends.append(value())
        search.coefficients.data[place] = middle
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(slope[place]), rel=1e-4, abs=1e-9)


def known_anyway(start: Network, end: Network) -> Any:
    from victims.ordinary.difference import difference

    return difference(end.weights[0], start.weights[0])


def test_a_second_layer_that_stayed_is_left_out() -> None:
    start, end = random_network(0), random_network(3)
    end = replace(end, weights=(end.weights[0], start.weights[1], end.weights[2]))
    equation = Equation.of(start, end, known_anyway(start, end), 4, (0.2, 0.7))
    values = []
    for price in (1.0, 2.0):
        params = PARAMS.model_copy(update={"second_layer": price})
        values.append(Search(equation, params, torch.Generator().manual_seed(0)).objective(SHARP).detach())
    assert values[0].isfinite()
    assert values[0] == values[1]


def test_points_lie_on_the_way() -> None:
    start, end = random_network(0), random_network(3)
    middle = interpolated(start, end, 0.5)
    assert torch.allclose(middle.weights[1], (start.weights[1] + end.weights[1]) / 2)
    assert torch.equal(interpolated(start, end, 0.0).weights[0], start.weights[0])


def test_what_is_not_given_is_read_off_the_weights() -> None:
    near, far = (KKTDeltaParams().resolved(images=500, moved=moved) for moved in (0.11, 0.13))
    assert (near.candidates, near.steps, near.points, near.alpha) == (1000, 3000, (0.5,), (1, 35))
    assert (far.candidates, far.steps, far.points, far.alpha) == (1000, 3000, (0.1, 0.5, 0.9), (1, 10))
    assert near.residual_power < far.residual_power
    assert KKTDeltaParams().resolved(images=10, moved=0).steps == 600
    given = KKTDeltaParams(candidates=7, steps=8, points=(0.2,), alpha=(3, 4), residual_power=0)
    assert given.resolved(images=500, moved=1).differing(given) == {}
    kept = given.resolved(images=500, moved=1)
    assert kept.model_dump(include={"candidates", "steps", "points", "alpha", "residual_power"}) == {
        "candidates": 7,
        "steps": 8,
        "points": (0.2,),
        "alpha": (3, 4),
        "residual_power": 0,
    }


def test_images_of_an_ordinary_network_come_back() -> None:
    victim = victim_of(TINY)
    found = attacked(KKTDelta(KKTDeltaParams(restarts=1, steps=200)), victim)
    truth = F.normalize(torch.from_numpy(victim.split.inputs).flatten(1), dim=1)
    cosines = F.normalize(found.candidates.flatten(1), dim=1) @ truth.T
    assert (cosines.amax(0) > 0.9).sum() >= 8
    assert found.confidence is not None
    surest = found.confidence.argsort(descending=True)[:5]
    assert (cosines.amax(1)[surest] > 0.9).all()
    assert found.resolved == {"candidates": 20, "points": (0.5,), "alpha": (1.0, 35.0), "residual_power": 0.3}


def test_a_guessed_start_is_the_known_one() -> None:
    victim = victim_of(TINY)
    known_start = attacked(KKTDelta(KKTDeltaParams(restarts=1, steps=12)), victim)
    guess = KKTDelta(KKTDeltaParams(restarts=1, steps=12, start="guess", seeds=300))
    guessed = attacked(guess, victim)
    assert "initial weights" not in guess.knowledge
    assert guessed.flags[0].startswith(f"seed {TINY.seed} drew the start: correlation 0.9")
    assert torch.equal(guessed.candidates, known_start.candidates)


def test_a_guessed_start_from_which_nothing_moved_shows_nothing() -> None:
    still = attacked(KKTDelta(KKTDeltaParams(start="guess")), victim_of(ORDINARY.as_twin("untrained")))
    assert not still.candidates.any()
    assert "none was trained" in still.flags[-1]


def test_no_seed_in_the_range_is_a_clear_negative() -> None:
    victim = victim_of(TINY.model_copy(update={"name": "digits-mlp-10-c10-seed7", "seed": 7}))
    found = attacked(KKTDelta(KKTDeltaParams(start="guess", seeds=7)), victim)
    assert found.flags[0].startswith("no seed below 7 drew the start")
    assert found.candidates.abs().sum() == 0


def test_a_random_seed_is_none_that_is_tried_and_is_there_for_who_tries_all() -> None:
    hidden = defended(TINY, [parse("random-seed")])
    assert isinstance(hidden, VictimSpec)
    found = attacked(KKTDelta(KKTDeltaParams(start="guess", seeds=2000)), victim_of(hidden))
    assert found.flags[0].startswith("no seed below 2000 drew the start")
    first = next(victim_of(hidden).model.parameters()).detach().numpy()
    assert guess_seed(first, range(hidden.seed - 50, hidden.seed + 50)).seed == hidden.seed < 2**32
    assert "set start=guess" in str(KKTDelta(KKTDeltaParams()).supports(hidden))


def test_a_killed_search_ends_where_an_undisturbed_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim = victim_of(TINY)
    attack = KKTDelta(KKTDeltaParams(restarts=2, steps=12))
    whole = attacked(attack, victim)
    memory = Memory(most=17)

    def run() -> Any:
        ctx = context()
        kept = AttackContext(CPU, ctx.generator, ctx.progress, checkpoints=memory)
        return attack.reconstruct(view_of(victim, attack.knowledge, CPU), kept)

    with pytest.raises(Interrupted):
        run()
    memory.most = 10**9
    assert torch.equal(run().candidates, whole.candidates)


@pytest.mark.parametrize("ranking", ["evidence", "distinct"])
def test_a_ranking_is_of_the_same_candidates_and_a_kill_costs_none_of_it(
    ranking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second of two restarts: what is known of the first is kept."""
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim = victim_of(TINY)
    plain, ranked = (KKTDelta(KKTDeltaParams(restarts=2, steps=12, ranking=one)) for one in ("span", ranking))
    before, whole = attacked(plain, victim), attacked(ranked, victim)
    assert torch.equal(before.candidates, whole.candidates)
    assert before.confidence is not None
    assert whole.confidence is not None
    assert before.confidence.argsort().tolist() != whole.confidence.argsort().tolist()
    memory, view = Memory(most=17), view_of(victim, ranked.knowledge, CPU)
    with pytest.raises(Interrupted):
        ranked.reconstruct(view, replace(context(), checkpoints=memory))
    memory.most = 10**9
    assert torch.equal(ranked.reconstruct(view, replace(context(), checkpoints=memory)).confidence, whole.confidence)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda victim: victim.model.state_dict(), "no fully connected layer differs from its start"),
        (
            lambda victim: {name: torch.randn(value.shape) / 8 for name, value in victim.start.items()},
            r"the start is wrong: .* full rank 64 \(singular values .*cosine",
        ),
        (
            lambda victim: {name: value[..., :5] for name, value in victim.start.items()},
            r"the start has weights .* the released network",
        ),
    ],
)
def test_a_start_that_is_none_is_refused(change: Any, reason: str) -> None:
    victim = victim_of(TINY)
    with pytest.raises(ValueError, match=reason):
        attacked(KKTDelta(KKTDeltaParams(steps=2)), replace(victim, start=change(victim)))


def test_where_the_weights_show_no_number_it_is_assumed_and_said() -> None:
    adam = VictimSpec(
        name="faces-mlp-8-adamw",
        dataset="faces",
        n=8,
        architecture=MLPSpec(hidden=(100, 50), biases="every", first_layer_scale=None),
        training=Ordinary(optimiser="adamw", lr=1e-3, epochs=5, weight_decay=0),
    )
    found = attacked(KKTDelta(KKTDeltaParams(steps=2, restarts=1)), victim_of(adam))
    assert any("n is not shown: assumed" in flag for flag in found.flags)


def test_a_number_that_is_told_is_taken() -> None:
    attack = KKTDelta(KKTDeltaParams(steps=2, images="told"))
    assert Knowledge.N in attack.knowledge and Knowledge.N not in KKTDelta(KKTDeltaParams()).knowledge
    found = attacked(attack, victim_of(TINY))
    assert len(found.candidates) == 2 * TINY.n
    assert not any("n is not shown" in flag for flag in found.flags)
