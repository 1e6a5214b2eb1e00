"""Separation in rounds: the joint likelihood is as written, and tells images that filters alone do not."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import (
    CPU,
    Interrupted,
    Left,
    Memory,
    Recorded,
    context,
    drawn_network,
    images_and_errors,
    sgd_network,
    victim_of,
)
from torch import Tensor

from attacks import context as contexts
from attacks.base import AttackContext, Reconstruction
from attacks.cocktail_party import CocktailParty
from attacks.independent_components import likelihood as likelihoods
from attacks.independent_components import rounds
from attacks.independent_components.errors import chance, explained
from attacks.independent_components.likelihood import SHARPNESS, JointLikelihood
from attacks.independent_components.params import CocktailPartyParams
from attacks.independent_components.pictures import Images
from attacks.independent_components.span import UpdateSpan
from attacks.optimisation.parts import Parts
from attacks.source_separation.density import ALPHA
from attacks.source_separation.responses import responses
from bench.run.disclosure import view_of

SHAPE = (1, 6, 6)
N = 5
DIGITS = sgd_network("digits", 20, (100, 40), lr=0.01, batch_size=4, epochs=15)


@cache
def one_step() -> tuple[UpdateSpan, Tensor, Tensor]:
    """Return the span of a gradient of a loss of five images at one network, these images (n, d), and their errors."""
    generator = torch.Generator().manual_seed(3)
    network = drawn_network(generator, 36, 60, 40, 3)
    images, errors = images_and_errors(network, N, generator, SHARPNESS)
    basis = torch.linalg.qr(images.T).Q.T
    return UpdateSpan(basis, errors.T @ images, errors.sum(0), network, (network,), ""), images, errors


def likelihood() -> JointLikelihood:
    return JointLikelihood(one_step()[0], Images(SHAPE), 1.0)


def test_a_mixture_makes_images_and_images_their_mixture() -> None:
    _, images, _ = one_step()
    joint = likelihood()
    mixture = joint.mixture(images)
    assert torch.allclose(joint.images(mixture), images)
    assert torch.allclose((mixture @ joint.white).square().mean(1), torch.ones(N, dtype=torch.float64))


def test_the_cost_is_the_negative_logarithm_that_the_head_of_the_file_writes() -> None:
    span, images, errors = one_step()
    joint = likelihood()
    moved = images + 0.3 * torch.randn(N, N, generator=torch.Generator().manual_seed(4)).double() @ images
    moved = F.normalize(moved) * 6
    for candidates, held in ((images, errors), (moved, (span.added @ torch.linalg.pinv(moved)).T)):
        mixture = joint.mixture(candidates)
        answers = mixture @ joint.white
        pixels, noise = -float(torch.linalg.slogdet(mixture).logabsdet), 0.0
        for row in answers.tolist():
            pixels += sum(math.log(2 * math.cosh(ALPHA * one)) / ALPHA for one in row) / len(row)
        for row, share in zip(held, explained(candidates, held, (span.network,), 20.0), strict=True):
            noise += math.log(float(row.norm())) + math.log(1 - min(float(share), 0.9999)) / 2
        noise += float(torch.linalg.slogdet(candidates @ span.basis.T).logabsdet)
        assert float(joint.cost(mixture, 20.0)) == pytest.approx((pixels + noise * 60 / 36) / N)


def test_an_image_is_found_only_above_chance() -> None:
    joint = likelihood()
    assert joint.chance == chance(N, 3, 60)
    two = JointLikelihood(replace(one_step()[0], way=one_step()[0].way * 2), Images(SHAPE), 1.0)
    assert two.chance == chance(N, 6, 60)


def test_the_cost_does_not_depend_on_the_sizes_of_rows_and_is_least_near_the_images() -> None:
    _, images, _ = one_step()
    joint = likelihood()
    mixture = joint.mixture(images)
    sizes = torch.tensor([0.2, 3, 0.5, 1, 7], dtype=torch.float64)[:, None]
    cost = joint.cost(mixture, SHARPNESS)
    assert float(joint.cost(sizes * mixture, SHARPNESS)) == pytest.approx(float(cost))
    generator = torch.Generator().manual_seed(5)
    for _ in range(5):
        other = joint.mixture(images + torch.randn(N, N, generator=generator).double() @ images)
        assert float(joint.cost(other, SHARPNESS)) > float(cost) + 0.5


def test_a_descent_comes_back_to_the_images_and_the_network_explains_their_errors() -> None:
    """Drawn normally these images have no edges: it is their errors that tell them."""
    _, images, _ = one_step()
    joint = likelihood()
    away = images + 0.25 * torch.randn(N, N, generator=torch.Generator().manual_seed(6)).double() @ images
    found = joint.descend(F.normalize(away) * 6, 300, 0.02, Parts(context(), 300))

    def nearness(one: Tensor) -> Tensor:
        return (F.normalize(one) * F.normalize(images)).sum(1)

    assert float(nearness(away).min()) < 0.95
    assert float(nearness(found).mean()) > float(nearness(away).mean()) + 0.02
    assert float(joint.explained(found).min()) > 0.95
    assert float(joint.explained(away).median()) < 0.9
    assert torch.allclose(found.norm(dim=1), images.norm(dim=1))


def test_where_there_are_many_responses_some_are_taken() -> None:
    span, _, _ = one_step()
    basis = torch.linalg.qr(torch.randn(3 * 32 * 32, N, generator=torch.Generator().manual_seed(0))).Q.T
    wide = replace(span, basis=basis, added=torch.zeros(60, 3072), way=())
    taken = JointLikelihood(wide, Images((3, 32, 32)), 1.0).white.shape[1]
    assert 5000 <= taken < responses(basis.reshape(-1, 3, 32, 32)).shape[1] / 2


def found_by(count: int, ctx: AttackContext | None = None, **params: Any) -> Reconstruction:
    attack, victim = CocktailParty(CocktailPartyParams(rounds=count, **params)), victim_of(DIGITS)
    return attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx or context())


@cache
def separated() -> Reconstruction:
    """Return what filters alone separate."""
    return found_by(0)


def near(found: Reconstruction) -> int:
    """Return how many digits have a candidate at a cosine above .8."""
    images = torch.from_numpy(victim_of(DIGITS).split.inputs).flatten(1)
    return int(((F.normalize(images) @ F.normalize(found.candidates.flatten(1)).T).amax(1) > 0.8).sum())


def test_digits_come_back_in_rounds_that_filters_do_not_tell_apart() -> None:
    alone, joint = separated(), found_by(8)
    assert near(alone) <= 7
    assert near(joint) >= near(alone) + 6
    assert "the network explains" in joint.flags[-1]
    assert joint.confidence is not None
    assert 0 <= float(joint.confidence.min()) <= float(joint.confidence.max()) <= 1


def test_images_are_told_from_mixtures_between_the_two_groups_of_what_is_missed() -> None:
    mixed, right = torch.linspace(0.75, 0.85, 80), torch.linspace(0.96, 0.99, 40)
    assert 0.85 <= rounds.between(torch.cat([mixed, right])) < 0.965
    assert 0.1 < rounds.between(torch.cat([0.1 * mixed, right])) < 0.965
    assert rounds.between(torch.ones(3)) < 1


def test_where_the_network_explains_nothing_filters_have_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihoods, "chance", lambda *sizes: 1.0)
    alone, joint = separated(), found_by(3, round_steps=5)
    assert torch.equal(joint.candidates, alone.candidates)
    assert "the network explains 0 of 20" in joint.flags


def test_a_descent_that_diverges_leaves_what_was_there_before() -> None:
    alone, joint = separated(), found_by(2, lr=1e30)
    assert torch.equal(joint.candidates, alone.candidates)
    assert "a descent diverged and was left out" in joint.flags


def test_two_rounds_that_are_no_likelier_are_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they are interrupted."""
    costs, ended = [-1.0, -0.9, -1.2, -1.1, -1.15, -2.0], list[int]()

    def descended(
        self: rounds.SourceSeparation, now: rounds.Separated, likelihood: JointLikelihood
    ) -> rounds.Separated:
        ended.append(int(self.parts.held["index"]) // 2)
        cost, first = costs[ended[-1]], torch.arange(len(now.images)) == 0
        return replace(now, sure=torch.full((len(now.images),), cost), found=first, cost=cost)

    monkeypatch.setattr(rounds.SourceSeparation, "_descend", descended)
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    memory, params = Memory(), {"steps": 5, "free_steps": 0}
    found_by(6, replace(context(), checkpoints=memory), **params)
    assert ended == [0, 1, 2, 3, 4]
    for saves in range(1, memory.kept):
        halted = Memory(saves)
        with pytest.raises(Interrupted):
            found_by(6, replace(context(), checkpoints=halted), **params)
        halted.most = 10**9
        found = found_by(6, replace(context(), checkpoints=halted), **params)
        assert ended[-1] == 4
        assert found.confidence is not None
        assert found.confidence.tolist() == pytest.approx([-1.2] * len(found.confidence))


def test_rounds_that_are_interrupted_go_on_as_if_they_had_not_been(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    params = {"steps": 60, "free_steps": 20, "round_steps": 15}
    whole = found_by(2, **params)
    recorded = Recorded(range(1000))
    found_by(2, replace(context(), checkpoints=recorded), **params)
    for saves in (2, 8, recorded.number - 3):  # in a separation, in a descent, in the last one
        again = found_by(2, replace(context(seed=7), checkpoints=Left(recorded.kept[saves])), **params)
        assert torch.equal(again.candidates, whole.candidates)
        assert again.grad_evals == whole.grad_evals


def test_a_budget_ends_rounds_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = separated()
    ctx = replace(context(), budget=contexts.Budget(steps=whole.grad_evals + 10))
    with monkeypatch.context() as patched:
        patched.setattr(rounds, "between", lambda shares: 1.0)  # nothing is explained yet
        early = found_by(3, ctx)
    assert early.grad_evals == whole.grad_evals + 10
    assert torch.equal(early.candidates, whole.candidates)
    later = found_by(3, replace(context(), budget=contexts.Budget(steps=whole.grad_evals + 180)))
    assert later.grad_evals == whole.grad_evals + 180  # in the second separation
    assert not torch.equal(later.candidates, whole.candidates)
