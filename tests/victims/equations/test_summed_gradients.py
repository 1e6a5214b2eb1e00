"""Two states of a training: what torch's optimisers did between them, undone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from victims.equations.checkpoint import Checkpoint, summed_gradients

SHAPE = (4, 6)
RATE, SHARE = 1e-3, 0.9


def state(optimiser: torch.optim.Optimizer, parameter: Tensor, steps: int, decay: float) -> Checkpoint:
    """What torch keeps of one parameter, `w`."""
    (group,), kept = optimiser.param_groups, optimiser.state[parameter]
    adam = "exp_avg" in kept
    first = {"w": kept["exp_avg" if adam else "momentum_buffer"].clone()}
    second = {"w": kept["exp_avg_sq"].clone()} if adam else {}
    betas = group["betas"] if adam else (group["momentum"], 0.0)
    weights = {"w": parameter.detach().clone()}
    return Checkpoint(weights, first, second, steps, group["lr"], decay, betas, group["eps"] if adam else 0.0)


def trained(kind: str, gradients: Tensor, decay: float, epoch: int) -> tuple[list[Checkpoint], Tensor]:
    """States after every `epoch` of the steps along gradients (T, ...); and these, with a decay that torch adds."""
    generator = torch.Generator().manual_seed(1)
    parameter = torch.randn(SHAPE, generator=generator, dtype=torch.float64, requires_grad=True)
    optimisers = {
        "sgd": lambda: torch.optim.SGD([parameter], RATE, momentum=SHARE, weight_decay=decay),
        "adam": lambda: torch.optim.Adam([parameter], RATE, weight_decay=decay),
        "adamw": lambda: torch.optim.AdamW([parameter], RATE, weight_decay=decay),
    }
    optimiser, states, taken = optimisers[kind](), list[Checkpoint](), list[Tensor]()
    for gradient in gradients:
        taken.append(gradient if kind == "adamw" else gradient + decay * parameter.detach())
        parameter.grad = gradient.clone()
        optimiser.step()
        if len(taken) % epoch == 0:
            states.append(state(optimiser, parameter, len(taken), decay if kind == "adamw" else 0.0))
    return states, torch.stack(taken)


def noise(steps: int) -> Tensor:
    return torch.randn(steps, *SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_the_momentum_of_sgd_is_undone_exactly(decay: float) -> None:
    """Polyak 1964: of all gradients those between the states are left, each counting once."""
    (before, after), taken = trained("sgd", noise(20), decay, 10)
    found = summed_gradients(before, after)
    torch.testing.assert_close(found["w"], taken[10:].sum(0))


def test_it_takes_the_mean_rate_of_both_states() -> None:
    """Of a rate that falls in equal steps and gradients that stay, their mean is the rate that counts."""
    rates = torch.linspace(1, 0.5, 40, dtype=torch.float64) * RATE
    parameter, momentum = torch.zeros(SHAPE, dtype=torch.float64), torch.full(SHAPE, 10.0, dtype=torch.float64)
    states = []
    for step, rate in enumerate(rates.tolist(), start=1):
        parameter = parameter - rate * momentum  # at the size that gradients of one leave the momentum at
        if step in (20, 40):
            states.append(Checkpoint({"w": parameter}, {"w": momentum}, {}, step, rate, 0.0, (SHARE, 0.0), 0.0))
    found = summed_gradients(*states)["w"]
    torch.testing.assert_close(found, torch.full(SHAPE, 20.0, dtype=torch.float64), rtol=0.02, atol=0.0)


def test_decoupled_decay_is_taken_off_at_the_mean_of_both_weights() -> None:
    """Loshchilov and Hutter 2019, with gradients that sum to zero: nothing but decay moves the weights."""
    parameter = torch.linspace(1, 2, 24, dtype=torch.float64).view(SHAPE)
    zero, still = torch.zeros(SHAPE, dtype=torch.float64), torch.ones(SHAPE, dtype=torch.float64)
    decayed = parameter * (1 - RATE * 5.0) ** 40
    before, after = (
        Checkpoint({"w": at}, {"w": zero}, {"w": still}, steps, RATE, 5.0, (0.9, 0.999), 1e-8)
        for at, steps in ((parameter, 1000), (decayed, 1040))
    )
    found, alone = summed_gradients(before, after)["w"], replace(after, decay=0.0)
    assert float(found.norm() / summed_gradients(before, alone)["w"].norm()) < 0.01


def test_adam_takes_the_mean_scale_of_both_states_with_their_bias_corrected() -> None:
    """Kingma and Ba 2015, Algorithm 1, from the first steps on: 1 - beta^t is far from 1 there."""
    size = torch.full(SHAPE, 3.0, dtype=torch.float64)
    zero = torch.zeros(SHAPE, dtype=torch.float64)
    first, second = ({"w": (1 - beta**4) * size**power} for beta, power in ((0.9, 1), (0.999, 2)))
    after = Checkpoint({"w": zero}, first, second, 4, RATE, 0.0, (0.9, 0.999), 1e-8)
    torch.testing.assert_close(after.scale("w"), (size + 1e-8) * (1 - 0.9**4))
    before = replace(after, steps=2, weights={"w": zero + 1.0}, second={"w": 9 * second["w"]})
    expected = 0.1 / RATE * (before.scale("w") + after.scale("w")) / 2
    torch.testing.assert_close(summed_gradients(before, after)["w"], expected)


def test_of_gradients_of_one_size_adams_scaling_is_undone_exactly() -> None:
    """Kingma and Ba 2015, Algorithm 1: v_t / (1 - beta_2^t) is the square of that size at every step."""
    sizes = torch.linspace(0.1, 3, 24, dtype=torch.float64).view(SHAPE)
    (before, after), taken = trained("adam", noise(400).sign() * sizes, 0.0, 200)
    found = summed_gradients(before, after)
    torch.testing.assert_close(found["w"], (1 - SHARE) * taken[200:].sum(0))


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_adams_scaling_is_undone_as_far_as_it_hardly_changes_in_an_epoch(kind: str) -> None:
    """Entry by entry gradients differ by a factor of 100, and so do the steps' scales; decay is decoupled in AdamW."""
    sizes = torch.logspace(-1, 1, 24, dtype=torch.float64).view(SHAPE)
    states, taken = trained(kind, noise(1010) * sizes, 0.1, 10)
    expected = (1 - SHARE) * taken[-10:].sum(0)
    found = summed_gradients(*states[-2:])["w"]
    assert float((found - expected).norm() / expected.norm()) < 0.02
    as_if_coupled = summed_gradients(*(replace(one, decay=0.0) for one in states[-2:]))["w"]
    assert (float((as_if_coupled - expected).norm() / expected.norm()) < 0.02) == (kind == "adam")
    mean = states[-1].first["w"]
    assert float(torch.cosine_similarity(mean.flatten(), expected.flatten(), dim=0)) < 0.95


def test_the_sum_over_two_epochs_is_that_of_both() -> None:
    states, _ = trained("sgd", noise(30), 0.0, 10)
    parts = [summed_gradients(*pair)["w"] for pair in pairwise(states)]
    torch.testing.assert_close(summed_gradients(states[0], states[2])["w"], sum(parts))


def test_states_in_the_wrong_order_or_of_different_trainings_are_refused() -> None:
    (before, after), _ = trained("sgd", noise(20), 0.0, 10)
    for pair in ((after, before), (after, after), (replace(before, betas=(0.5, 0.0)), after), (before, renamed(after))):
        with pytest.raises(ValueError, match="not a later one of the same training"):
            summed_gradients(*pair)


def renamed(state: Checkpoint) -> Checkpoint:
    return replace(state, first={"v": state.first["w"]}, weights={"v": state.weights["w"]})


def test_a_state_is_what_it_was_after_packing_and_a_copy_shares_nothing() -> None:
    (state,), _ = trained("adamw", noise(10), 0.1, 10)
    again = Checkpoint.unpacked(state.packed())
    assert (again.steps, again.lr, again.decay, again.betas, again.epsilon) == (10, RATE, 0.1, (0.9, 0.999), 1e-8)
    copied = state.copy()
    for part in ("weights", "first", "second"):
        assert torch.equal(getattr(again, part)["w"], getattr(state, part)["w"])
        getattr(copied, part)["w"].zero_()
        assert bool(getattr(state, part)["w"].any())
