"""Fine-tuning of a part, low-rank updates, snapshots on the way, and a CNN with batch normalisation."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from attacking import CPU, victim_of
from pydantic import ValidationError

from attacks.base import Knowledge
from bench.run.disclosure import view_of
from victims.cache import victim_folder
from victims.datasets import fingerprint
from victims.obtain import obtain
from victims.ordinary.difference import _noise_median, difference
from victims.ordinary.obtain import SNAPSHOTS
from victims.recipes import Ordinary, Pretraining
from victims.spec import CNNSpec, MLPSpec, NormalizedDescent, SmoothMLPSpec, VictimSpec

NETWORK = MLPSpec(hidden=(40, 30), outputs=10, biases="every", first_layer_scale=None)
CNN = CNNSpec(channels=(6, 8), hidden=(20,), outputs=10)
SMOOTH = SmoothMLPSpec(hidden=(40,), activation="tanh", outputs=10)


def spec(architecture: MLPSpec | CNNSpec | SmoothMLPSpec = NETWORK, n: int = 20, **training: Any) -> VictimSpec:
    recipe = {"epochs": 6, "batch_size": 5, "weight_decay": 0, "schedule": "constant"} | training
    return VictimSpec(
        name=f"digits-{architecture.kind}-{n}-c10-part",
        dataset="digits",
        n=n,
        architecture=architecture,
        training=Ordinary.model_validate(recipe),
    )


def moved(victim: Any) -> set[str]:
    end = victim.model.state_dict()
    return {name for name, value in victim.start.items() if not torch.equal(value, end[name])}


def test_only_the_last_layers_move() -> None:
    whole = {f"layers.{layer}.{kind}" for layer in range(3) for kind in ("weight", "bias")}
    assert moved(victim_of(spec())) == whole
    tuned = victim_of(spec(last_layers=2))
    assert moved(tuned) == {name for name in whole if not name.startswith("layers.0")}
    assert tuned.card.directions == 20
    assert 0 < tuned.card.movement < 1


def test_the_last_layer_alone_shows_a_direction_a_class() -> None:
    assert victim_of(spec(last_layers=1)).card.directions <= 10


def test_a_low_rank_update_is_one_in_every_layer_and_leaves_the_biases() -> None:
    victim = victim_of(spec(lora_rank=3, lr=0.05))
    assert moved(victim) == {f"layers.{layer}.weight" for layer in range(3)}
    end = victim.model.state_dict()
    for layer in range(3):
        added = (end[f"layers.{layer}.weight"] - victim.start[f"layers.{layer}.weight"]).double()
        singular = torch.linalg.svdvals(added)
        assert singular[3] < 1e-4 * singular[0] < 1e-2 * singular[2]
    assert victim.card.directions == 3


def test_a_low_rank_update_reaches_the_convolutions_too() -> None:
    victim = victim_of(spec(CNN, lora_rank=2))
    added = victim.model.state_dict()["front.3.weight"] - victim.start["front.3.weight"]
    singular = torch.linalg.svdvals(added.flatten(1).double())
    assert 1e4 * singular[2] < singular[1]


def test_a_snapshot_is_the_end_of_a_training_of_so_many_epochs() -> None:
    victim = victim_of(spec(CNN, epochs=4, snapshots=(1, 3)))
    for earlier, epochs in zip(victim.earlier, (1, 3), strict=True):
        shorter = victim_of(spec(CNN, epochs=epochs)).model.state_dict()
        assert earlier.keys() == shorter.keys()
        assert all(torch.equal(earlier[name], value) for name, value in shorter.items())


def test_snapshots_come_back_from_the_cache_and_a_damaged_file_is_told_and_made_again() -> None:
    victim, notices = victim_of(spec(epochs=3, snapshots=(2,))), list[str]()
    path = victim_folder(victim.spec, fingerprint("digits", None)) / SNAPSHOTS
    for damage in (False, True):
        if damage:
            path.write_bytes(path.read_bytes()[:-4])
        again = obtain(victim.spec, None, CPU, lambda progress: None, notices.append)
        assert all(torch.equal(again.earlier[0][name], value) for name, value in victim.earlier[0].items())
    assert [str(path.parent) in notice and path.name in notice for notice in notices] == [True]


def test_earlier_weights_are_an_item_of_knowledge() -> None:
    victim = victim_of(spec(epochs=3, snapshots=(1, 2)))
    view = view_of(victim, frozenset({Knowledge.EARLIER_WEIGHTS}), CPU)
    assert len(view.earlier_weights) == 2
    view.earlier_weights[0]["layers.0.weight"].zero_()
    assert torch.equal(view.earlier_weights[0]["layers.0.weight"], victim.earlier[0]["layers.0.weight"])
    assert victim.spec.as_twin("untrained").training == victim.spec.training
    still = victim_of(victim.spec.as_twin("untrained"))
    assert all(torch.equal(one["layers.0.weight"], still.start["layers.0.weight"]) for one in still.earlier)


def test_running_statistics_are_learnt_and_released() -> None:
    victim = victim_of(spec(CNN, pretraining=Pretraining(epochs=1)))
    assert {"front.1.running_mean", "front.4.running_var"} <= moved(victim)
    assert not victim.model.training
    assert victim.card.train_accuracy > 0.5
    inputs = torch.from_numpy(victim.split.inputs)
    assert torch.allclose(victim.model(inputs)[:1], victim.model(inputs[:1]), atol=1e-5)


def test_in_training_a_batch_is_normalised_by_itself() -> None:
    """The first step of a CNN, written down with the batch's own mean and variance."""
    victim = victim_of(spec(CNNSpec(channels=(3,), hidden=(7,), outputs=10), n=10, epochs=1, batch_size=10, momentum=0))
    state = victim.start
    inputs, labels = torch.from_numpy(victim.split.inputs), torch.from_numpy(victim.split.labels)
    maps = torch.nn.functional.conv2d(inputs, state["front.0.weight"], state["front.0.bias"], stride=2, padding=1)
    spread = maps.var((0, 2, 3), unbiased=False, keepdim=True)
    features = ((maps - maps.mean((0, 2, 3), keepdim=True)) / (spread + 1e-5).sqrt()).relu().flatten(1)
    weight = state["layers.1.weight"].clone().requires_grad_()
    hidden = torch.relu(features @ state["layers.0.weight"].T + state["layers.0.bias"])
    loss = torch.nn.functional.cross_entropy(hidden @ weight.T + state["layers.1.bias"], labels)
    (slope,) = torch.autograd.grad(loss, weight)
    stepped = state["layers.1.weight"] - 0.05 * slope
    assert torch.allclose(victim.model.state_dict()["layers.1.weight"], stepped, atol=1e-6)


def test_fields_that_were_added_later_leave_the_stored_keys() -> None:
    plain = spec().identity()
    assert {"last_layers", "lora_rank", "snapshots"}.isdisjoint(plain["training"])
    changed = [spec(**one).identity() for one in ({"last_layers": 1}, {"lora_rank": 1}, {"snapshots": (1,)})]
    assert len({str(one) for one in (plain, *changed)}) == 4


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"last_layers": 1, "lora_rank": 2}, "set last_layers or lora_rank"),
        ({"snapshots": (3, 2)}, "epochs that rise"),
        ({"snapshots": (6,)}, "lie before the last, 6"),
        ({"last_layers": 3}, "at most 2"),
    ],
)
def test_a_recipe_that_means_nothing_is_refused(training: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        spec(**training)


@pytest.mark.parametrize("architecture", [CNN, SMOOTH])
def test_no_other_recipe_trains_it(architecture: CNNSpec | SmoothMLPSpec) -> None:
    with pytest.raises(ValidationError, match="trained by the recipe `ordinary`"):
        VictimSpec(name="a", dataset="digits", n=10, architecture=architecture, training=NormalizedDescent())


@pytest.mark.parametrize("network", [SMOOTH, CNN.model_copy(update={"activation": "gelu"})])
@pytest.mark.parametrize("part", [{"last_layers": 1}, {"lora_rank": 2}])
def test_of_a_network_without_a_relu_no_part_is_trained_alone(
    network: CNNSpec | SmoothMLPSpec, part: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError, match=f"of {re.escape(network.label)} all weights are trained"):
        spec(network, **part)


def test_the_difference_of_the_layers_behind_has_rank_n() -> None:
    victim = victim_of(spec(last_layers=2, n=10))
    found = difference(victim.model.state_dict()["layers.1.weight"], victim.start["layers.1.weight"])
    assert (found.rank, found.shows_images) == (10, True)


@pytest.mark.parametrize("shape", [(200, 120), (120, 200)])
@pytest.mark.parametrize("seed", range(3))
def test_the_directions_above_noise_are_those_that_noise_has_not_buried(shape: tuple[int, int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start, noise = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    left, right = (torch.linalg.qr(torch.randn(size, 8, generator=generator, dtype=torch.float64)).Q for size in shape)
    edge = 1e-2 * (shape[0] ** 0.5 + shape[1] ** 0.5)
    # six stand three times above the edge of the noise, two lie at a tenth of it
    added = left * torch.tensor([3.0] * 6 + [0.1] * 2, dtype=torch.float64) * edge @ right.T
    found = difference(start + added + 1e-2 * noise, start)
    assert (found.shows_images, found.above_noise) == (False, 6)


def test_weights_that_did_not_move_but_for_rounding_show_next_to_nothing() -> None:
    for seed in range(10):
        start, noise = (torch.randn(60, 80, generator=torch.Generator().manual_seed(at)) for at in (seed, seed + 100))
        # the largest singular value of noise may be a little above the edge, which holds for large matrices
        assert 1 <= difference(start + 1e-2 * noise, start).above_noise <= 3


def test_the_median_of_noise_is_that_of_the_literature() -> None:
    # Gavish and Donoho 2014: the threshold 4 / sqrt(3) for noise of known size is 2.858 medians for a square matrix
    assert 4 / 3**0.5 / _noise_median(1.0) ** 0.5 == pytest.approx(2.858, abs=5e-4)
    assert _noise_median(1e-6) == pytest.approx(1.0, abs=2e-3)
