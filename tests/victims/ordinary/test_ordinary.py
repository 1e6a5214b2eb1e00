"""Ordinary training: what it adds to its start is what the mathematics says, and the start is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attacking import victim_of

from victims.cache import training_sha, victim_folder
from victims.datasets import fingerprint, load
from victims.equations.network import Network
from victims.ordinary.descent import Examples
from victims.ordinary.difference import difference
from victims.ordinary.displacement import training_displacement
from victims.ordinary.obtain import START, obtain
from victims.ordinary.training import train_ordinary
from victims.ordinary.update import low_rank
from victims.recipes import Ordinary, Pretraining
from victims.spec import MLPSpec, VictimSpec

NETWORK = MLPSpec(hidden=(40, 30), outputs=10, biases="every", first_layer_scale=None)
CPU = torch.device("cpu")
MEMBERS = 7


def spec(**training: object) -> VictimSpec:
    few = {"epochs": 12, "batch_size": 3} | training
    return VictimSpec(
        name="digits-mlp-10-c10-tiny",
        dataset="digits",
        n=10,
        architecture=NETWORK,
        training=Ordinary.model_validate(few),
    )


def ends(victim: VictimSpec) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W1 at the start and at the end of a training on random images, and these (n, d)."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(MEMBERS, 1, 6, 6, generator=generator, dtype=torch.float64)
    members = Examples(inputs, torch.arange(MEMBERS))
    trained = train_ordinary(victim, members, members, CPU, lambda progress: None)
    first, last = (next(network.parameters()).detach() for network in (trained.start, trained.model))
    return first, last, inputs.flatten(1)


@pytest.mark.parametrize(
    "training",
    [{"weight_decay": 0.0}, {"weight_decay": 0.0, "schedule": "step"}, {"weight_decay": 1e-2}, {"clip": 0.1}],
)
def test_what_sgd_adds_to_its_start_has_rank_n_and_lies_in_the_span_of_the_images(training: dict[str, object]) -> None:
    first, last, images = ends(spec(dtype="float64", **training))
    found = difference(last, first)
    assert found.rank == MEMBERS
    basis = found.basis(MEMBERS)
    outside = images - images @ basis @ basis.T
    assert float(outside.norm() / images.norm()) < 1e-6


def test_the_decay_of_the_start_is_the_product_of_the_steps_shrinkage() -> None:
    first, last, _ = ends(spec(dtype="float64", momentum=0.0, weight_decay=0.05, lr=0.1, schedule="constant"))
    steps = 12 * 3
    assert difference(last, first).decay == pytest.approx((1 - 0.1 * 0.05) ** steps, rel=1e-9)


def test_rounding_is_that_of_the_released_weights_whatever_they_are_held_in() -> None:
    """Pixels that are black in every image leave exact zeros in the difference, behind the rounding of the others."""
    generator = torch.Generator().manual_seed(0)
    start, end = [], []
    for shape in ((60, 50), (40, 60)):
        weight, rows = torch.randn(shape, generator=generator), torch.rand(4, shape[1], generator=generator)
        rows[:, 30:] = 0
        start.append(weight)
        end.append(weight + torch.randn(shape[0], 4, generator=generator) @ rows / 10)
    single = difference(end[0], start[0])
    double = difference(end[0].double(), start[0].double())
    assert single.rank == double.rank == 4
    ends = (Network(tuple(weight.double() for weight in weights), (None, None)) for weights in (start, end))
    assert low_rank(*ends, double) == 4


def test_a_wrong_start_shows_no_gap_and_no_cosine() -> None:
    first, last, _ = ends(spec(dtype="float64"))
    wrong = torch.rand(first.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64) - 0.5
    found = difference(last, wrong)
    assert not found.shows_images
    assert abs(found.cosine) < 0.2


def test_a_layer_that_began_at_zero_shows_its_images() -> None:
    """A new head often begins at zero; nothing is left of it, and all that it holds was added."""
    first, last, _ = ends(spec(dtype="float64"))
    added = last - first
    found = difference(added, torch.zeros_like(added))
    assert (found.decay, found.cosine, found.rank) == (1, 1, MEMBERS)


def test_a_model_whose_weights_all_began_at_zero_moved_by_its_length() -> None:
    end = {"layers.0.weight": torch.full((1, 4), 3.0), "layers.0.bias": torch.zeros(1)}
    start = {name: torch.zeros_like(value) for name, value in end.items()}
    assert training_displacement(start, end) == {"movement": 6.0, "start_decay": 1.0, "directions": 1}


def test_adam_breaks_the_sum() -> None:
    first, last, _ = ends(spec(dtype="float64", optimiser="adam", lr=1e-3))
    assert not difference(last, first).shows_images


def test_the_start_is_what_the_seed_makes() -> None:
    victim = victim_of(spec())
    torch.manual_seed(victim.spec.seed)
    first = torch.nn.Linear(64, 40)
    assert victim.start is not None
    assert torch.equal(victim.start["layers.0.weight"], first.weight)
    assert torch.equal(victim.start["layers.0.bias"], first.bias)


def test_the_start_comes_back_from_the_cache_and_the_card_tells_of_the_way() -> None:
    trained, cached = victim_of(spec()), victim_of(spec())
    assert trained.start.keys() == cached.start.keys()
    assert all(torch.equal(trained.start[name], cached.start[name]) for name in trained.start)
    assert cached.card.directions == 10
    assert cached.card.movement > 0
    assert 0 < cached.card.start_decay < 1
    assert trained.model.state_dict().keys() == trained.start.keys()


def test_inputs_are_standardised_and_images_come_back_from_them() -> None:
    victim = victim_of(spec())
    images = victim.images(victim.split.inputs)
    assert np.allclose(images * 16, np.round(images * 16), atol=1e-4)
    assert len(victim.scale) == 1
    assert victim.scale.item() < 1


def test_a_checkpoint_is_trained_on_other_images_and_then_tuned() -> None:
    tuned = victim_of(spec(pretraining=Pretraining(epochs=2), weight_decay=0.0, schedule="constant", lr=1e-2))
    fresh = victim_of(spec())
    assert tuned.start is not None
    assert not torch.equal(tuned.start["layers.0.weight"], fresh.start["layers.0.weight"])
    assert tuned.card.start_decay == pytest.approx(1, abs=1e-5)


def test_an_early_stop_ends_the_training() -> None:
    short, whole = victim_of(spec(stop_loss=2.0)), victim_of(spec())
    assert short.card.movement < whole.card.movement


def test_a_first_layer_may_start_small_with_torchs_own_draws() -> None:
    small = NETWORK.model_copy(update={"first_layer_scale": 1e-3})
    began, own = (victim_of(spec().model_copy(update={"architecture": network})).start for network in (small, NETWORK))
    assert began is not None and own is not None
    assert float(began["layers.0.weight"].std()) == pytest.approx(1e-3, rel=0.02)
    for name, value in began.items():
        factor = 1e-3 * (3 * 64) ** 0.5 if name.startswith("layers.0.") else 1.0
        torch.testing.assert_close(value, factor * own[name])


def test_raw_inputs_are_pixels_as_they_are() -> None:
    split = victim_of(spec(inputs="raw")).split
    pixels = load("digits", None).train_images[split.indices]
    np.testing.assert_allclose(split.inputs, pixels, atol=1e-6)
    assert abs(victim_of(spec()).split.inputs.mean()) < 0.1 < pixels.mean()


def test_the_card_holds_the_hash_of_the_code_that_trained_it() -> None:
    assert victim_of(spec()).card.training_sha == training_sha("dataset")


def test_a_damaged_start_is_told_and_made_again() -> None:
    victim, notices = victim_of(spec(epochs=2)), list[str]()
    path = victim_folder(victim.spec, fingerprint("digits", None)) / START
    path.write_bytes(path.read_bytes()[:-4])
    again = obtain(victim.spec, None, CPU, lambda progress: None, notices.append)
    assert again.start is not None
    assert victim.start is not None
    assert all(torch.equal(again.start[name], value) for name, value in victim.start.items())
    assert [str(path.parent) in notice and path.name in notice for notice in notices] == [True]
