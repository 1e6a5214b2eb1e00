"""Victims that release two models: their records, their cache, their defences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attacking import CPU

from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.deletion import cache
from victims.deletion.cache import training_records
from victims.deletion.data import split_of
from victims.deletion.objective import Objective, flat
from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec
from victims.deletion.victim import DeletionVictim
from victims.errors import UserError

TINY = DeletionSpec(name="digits-unlearn-tiny-60", dataset="digits", n=60, targets=4, training=Deletion(records=2))


def trained(spec: DeletionSpec, notices: list[str] | None = None) -> DeletionVictim:
    said: list[str] = [] if notices is None else notices
    return cache.obtain(spec, None, CPU, lambda done, models: None, said.append)


def test_targets_are_the_last_training_records_and_the_rest_is_public() -> None:
    split = split_of(TINY, None)
    assert [len(part) for part in (split.retained, split.targets)] == [56, 4]
    images = training_records(split)[0]
    assert torch.equal(images[-4:], torch.from_numpy(split.targets.images))
    assert split.known is split.pool
    public = {image.tobytes() for image in split.pool.images}
    assert not public & {image.tobytes() for image in split.targets.images}


def test_each_release_is_stationary_on_the_records_that_it_has() -> None:
    """Release i lacks the targets 2i and 2i + 1, and no other record."""
    victim = trained(TINY)
    objective = Objective.of(TINY.architecture, TINY.training.penalty, *training_records(victim.split))
    assert objective.optimality(flat(victim.before)) < 1e-9
    for release, deleted in enumerate(([56, 57], [58, 59])):
        theta = flat({name: value[release] for name, value in victim.weights.items()})
        stays = torch.tensor([place for place in range(60) if place not in deleted])
        assert objective.part(stays, TINY.training.penalty).optimality(theta) < 1e-9
    assert victim.card.optimality < 1e-9
    assert victim.card.moved > 1e-4


def test_it_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained(TINY)
    monkeypatch.setattr(cache, "_train", None)
    again = trained(TINY)
    assert again.card == first.card
    assert list(again.weights) == list(first.weights)
    assert all(torch.equal(value, again.weights[name]) for name, value in first.weights.items())
    assert all(torch.equal(value, again.before[name]) for name, value in first.before.items())


def test_noise_is_on_both_releases_and_on_each_its_own() -> None:
    plain = trained(TINY)
    noisy = trained(defended(TINY, [parse("noise=0.1")]))  # type: ignore[arg-type]
    gaps = {name: value - plain.weights[name] for name, value in noisy.weights.items()}
    gaps_before = {name: value - plain.before[name] for name, value in noisy.before.items()}
    assert all(float(value.norm()) > 0 for value in (*gaps.values(), *gaps_before.values()))
    weight = gaps["layers.0.weight"]
    assert float(weight[0].norm() / plain.weights["layers.0.weight"][0].norm()) == pytest.approx(0.1, rel=0.2)
    assert not torch.equal(weight[0], weight[1])
    assert not torch.equal(weight[0], gaps_before["layers.0.weight"])


def test_a_hidden_layer_trains_and_a_seed_decides_where() -> None:
    hidden = ShallowSpec(front="hidden", units=3, loss="cross-entropy")
    one = TINY.model_copy(update={"architecture": hidden, "training": Deletion(penalty=1)})
    other = one.model_copy(update={"seed": 2})
    assert trained(one).card.optimality < 1e-9
    assert not torch.allclose(trained(one).before["layers.0.weight"], trained(other).before["layers.0.weight"])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"n": 5000}, "leave no public ones"),
        ({"architecture": ShallowSpec(outputs=3)}, "has the label 9; the model has 3"),
        ({"training": Deletion(method="ascent", steps=200, lr=1e200)}, "the ascent diverged; lower its lr"),
    ],
)
def test_what_cannot_be_trained_says_why(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        trained(TINY.model_copy(update=fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"targets": 3}, "no whole number of deletions of 2"), ({"n": 2}, "cannot be among 2 training records")],
)
def test_a_description_that_fits_nothing_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DeletionSpec(**(TINY.model_dump() | fields))


def test_a_target_that_is_public_is_refused(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (30, 4, 4), dtype=np.uint8)
    images[29] = images[19]
    arrays = {"train_images": images, "train_labels": np.arange(30) % 2}
    np.savez(tmp_path / "twice.npz", **arrays, test_images=images[:2], test_labels=np.arange(2))
    spec = DeletionSpec(name="twice-unlearn", dataset="twice", n=20, targets=2, architecture=ShallowSpec(outputs=2))
    with pytest.raises(UserError, match="target 1 is also a public record"):
        split_of(spec, tmp_path)
