"""The view of a victim: it hands out what an attack declared, nothing else, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attacking import BATCH_NORM, BIASES, CPU, DECAYED, ORDINARY, RANDOM_FEATURES, victim_of

from attacks.base import Knowledge, UndeclaredKnowledgeError
from bench.run.disclosure import network_from, view_of
from victims.spec import VictimSpec

READ: dict[Knowledge, Callable[[Any], Any]] = {
    Knowledge.ARCHITECTURE: lambda view: view.architecture,
    Knowledge.WEIGHTS: lambda view: view.weights,
    Knowledge.CLASS_BALANCE: lambda view: view.class_balance,
    Knowledge.N: lambda view: view.n,
    Knowledge.LABELS: lambda view: view.labels,
    Knowledge.DATA_MEAN: lambda view: view.data_mean,
    Knowledge.LOSS: lambda view: view.loss,
    Knowledge.WEIGHT_DECAY: lambda view: view.weight_decay,
    Knowledge.SHADOW_POOL: lambda view: view.shadow_pool,
    Knowledge.LOGITS: lambda view: view.logits(torch.zeros(2, 1, 8, 8)),
    Knowledge.TRAINING_IMAGES: lambda view: view.training_images,
}


@pytest.mark.parametrize("item", READ)
def test_the_view_hands_out_one_item_and_no_other(item: Knowledge) -> None:
    view = view_of(victim_of(BIASES), frozenset({item}), CPU)

    assert READ[item](view) is not None
    for other in set(READ) - {item}:
        with pytest.raises(UndeclaredKnowledgeError, match=f"'{other.value}'"):
            READ[other](view)


def test_the_view_tells_the_truth() -> None:
    victim = victim_of(BIASES)
    view = view_of(victim, frozenset(READ), CPU)

    assert view.architecture.spec == victim.spec.architecture
    assert view.architecture.input_shape == (1, 8, 8)
    assert view.class_balance == (0.5, 0.5)
    assert view.n == 6
    assert view.labels.tolist() == victim.split.labels.tolist()
    assert np.array_equal(view.data_mean.numpy(), victim.split.mean)
    assert view.loss == "cross-entropy"
    assert view.weight_decay == 0
    assert view_of(victim_of(DECAYED), frozenset(READ), CPU).weight_decay == 1e-2
    assert np.array_equal(view.training_images[0].numpy(), victim.split.inputs)
    inputs = torch.from_numpy(victim.split.test_inputs[:5])
    with torch.no_grad():
        assert torch.equal(view.logits(inputs), victim.model(inputs))
    pool, classes = view.shadow_pool
    torch.testing.assert_close(pool - pool[0], torch.from_numpy(victim.split.test_inputs - victim.split.test_inputs[0]))
    torch.testing.assert_close(pool.mean(0), torch.zeros(1, 8, 8))
    assert np.array_equal(classes.numpy(), victim.split.test_labels)
    assert all(torch.equal(value, view.weights[name]) for name, value in victim.model.state_dict().items())


@pytest.mark.parametrize("spec", [ORDINARY, RANDOM_FEATURES], ids=lambda spec: spec.name)
def test_a_pool_is_in_the_input_space_of_a_victim_whose_mean_is_public(spec: VictimSpec) -> None:
    victim = victim_of(spec)
    pool, _ = view_of(victim, frozenset({Knowledge.SHADOW_POOL}), CPU).shadow_pool
    assert np.array_equal(pool.numpy(), victim.split.test_inputs)


def test_a_network_with_running_statistics_is_built_as_it_answers() -> None:
    victim = victim_of(BATCH_NORM)
    network = network_from(victim.spec.architecture, victim.input_shape, None)
    network.load_state_dict(victim.model.state_dict())
    inputs = torch.from_numpy(victim.split.inputs)
    assert torch.equal(network(inputs), victim.model(inputs))
    assert torch.allclose(network(inputs[:1]), victim.model(inputs)[:1], atol=1e-5)
