"""Where an attack starts, and what it has to know for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attacks.base import ORACLE, Architecture, Knowledge, VictimView
from attacks.bilevel import Bilevel
from attacks.inversion import Inversion, InversionParams
from attacks.kkt import KKT
from attacks.optimisation.initialisation import InitialisedParams, balanced_labels, initial
from bench.plan import registry
from victims.spec import MLPSpec

SHAPE = (1, 2, 2)
LABELS = torch.tensor([0, 0, 0, 1])
CLASSES = torch.tensor([1, 0, 0])
TRUTH = torch.arange(3.0)[:, None, None, None].expand(3, *SHAPE)
POOL = TRUTH + 10


def view(params: InitialisedParams) -> VictimView:
    facts = {
        Knowledge.ARCHITECTURE: Architecture(MLPSpec(), SHAPE, torch.nn.Module),
        Knowledge.TRAINING_IMAGES: (TRUTH, CLASSES),
        Knowledge.SHADOW_POOL: (POOL, CLASSES),
    }
    return VictimView(facts, params.start_needs() | {Knowledge.ARCHITECTURE})


def start(seed: int = 0, **chosen: Any) -> torch.Tensor:
    params = InitialisedParams(**chosen)
    return initial(params, view(params), LABELS, torch.Generator().manual_seed(seed))


def test_images_are_of_the_candidates_classes_in_their_order_and_over_again() -> None:
    assert start(init="truth")[:, 0, 0, 0].tolist() == [1, 2, 1, 0]
    assert start(init="partition")[:, 0, 0, 0].tolist() == [11, 12, 11, 10]


def test_a_mixture_is_equation_10() -> None:
    truth, partition = start(init="truth"), start(init="partition")
    noise = start(init="uniform", init_scale=0.3)
    mixed = start(init="mixture", mixture=(0.25, 0.8), init_scale=0.3)
    torch.testing.assert_close(mixed, 0.8 * (0.25 * truth + 0.75 * partition) + 0.2 * noise)


def test_noise_has_the_scale_that_was_asked_for() -> None:
    params = InitialisedParams(init="normal", init_scale=0.1)
    labels = torch.zeros(5000, dtype=torch.long)
    drawn = initial(params, view(params), labels, torch.Generator().manual_seed(0))
    assert float(drawn.std()) == pytest.approx(0.1, rel=0.02)
    params = InitialisedParams(init="uniform", init_scale=0.5)
    drawn = initial(params, view(params), labels, torch.Generator().manual_seed(0))
    assert float(drawn.abs().max()) == pytest.approx(0.5, rel=0.01)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)


def test_a_start_asks_for_what_it_uses_and_no_more() -> None:
    assert InitialisedParams(init="uniform").start_needs() == frozenset()
    assert InitialisedParams(init="partition").start_needs() == {Knowledge.SHADOW_POOL}
    assert InitialisedParams(init="truth").start_needs() == {Knowledge.TRAINING_IMAGES}
    assert InitialisedParams(init="mixture", mixture=(1, 0.5)).start_needs() == {Knowledge.TRAINING_IMAGES}
    assert InitialisedParams(init="mixture").start_needs() == {Knowledge.TRAINING_IMAGES, Knowledge.SHADOW_POOL}


def test_the_training_images_are_an_oracles_and_nothing_else_is() -> None:
    assert [item for item in Knowledge if item.startswith(ORACLE)] == [Knowledge.TRAINING_IMAGES]
    for attack in registry.attacks().items.values():
        assert Knowledge.TRAINING_IMAGES not in attack.needs
        if issubclass(attack.Params, InitialisedParams):
            assert Knowledge.TRAINING_IMAGES in attack(attack.Params(init="truth")).knowledge
            assert Knowledge.SHADOW_POOL in attack(attack.Params(init="partition")).knowledge


def test_every_optimising_attack_takes_a_start() -> None:
    for attack in (KKT, Bilevel, Inversion):
        assert issubclass(attack.Params, InitialisedParams)


def test_the_black_box_does_not_see_weights() -> None:
    assert Knowledge.WEIGHTS not in Inversion(InversionParams(access="logits")).knowledge
    assert Knowledge.LOGITS in Inversion(InversionParams(access="logits")).knowledge


@pytest.mark.parametrize("m", [1, 2, 7, 100])
def test_labels_are_balanced(m: int) -> None:
    labels = balanced_labels(m, (0.3, 0.7))
    assert len(labels) == m
    assert abs(int((labels == 1).sum()) - 0.7 * m) <= 0.5 + 1e-9
    assert labels.tolist() == sorted(labels.tolist())


def test_a_class_without_images_is_an_error() -> None:
    params = InitialisedParams(init="truth")
    with pytest.raises(ValueError, match="class 2"):
        initial(params, view(params), torch.tensor([2]), torch.Generator())
