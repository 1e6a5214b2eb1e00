"""A victim's key: what its author declares and its data decide it, and no byte of any source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from attacking import digits_network

from bench.plan import registry
from victims import cache
from victims.files import sha256_json
from victims.frozen_model import Recipe
from victims.informed.spec import AnySpec, GLMSpec
from victims.source import Sources
from victims.spec import VictimSpec

SPECS: dict[str, AnySpec] = {
    "dataset": VictimSpec(name="faces-mlp-4", dataset="faces", n=4),
    "network": digits_network(n=30, targets=2, epochs=2),
    "glm": GLMSpec(name="digits-logistic", dataset="digits", n=60),
}
IDENTITIES = {
    "cifar-mlp-500": "b6addb7655b214e1",
    "cifar-mlp-500-c10-gd1e6": "01280060fd85868a",
    "photos-mlp-100-c10-wd1e-4": "b91b6d6703ef685f",
    "cifar-mlp-100-affine-wd": "e9fe2fa792ae10fc",
    "cifar-mlp-100-c10-finetuned": "e11a9fab4db61768",
    "mnist-elu10-1000": "39fb34eac3a9c16a",
    "cancer-logistic": "1ef67e3132453f51",
}
"""Hashes of what determines some victims, a victim of each recipe: another one trains all of its kind again."""

every_kind = pytest.mark.parametrize("kind", SPECS)


@every_kind
def test_a_raised_recipe_changes_the_key_of_its_victims_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: cache.victim_key(spec, "data") for name, spec in SPECS.items()}
    monkeypatch.setattr(type(SPECS[kind].training), "version", 2)
    after = {name: cache.victim_key(spec, "data") for name, spec in SPECS.items()}
    assert {name for name in SPECS if after[name] != before[name]} == {kind}


@every_kind
def test_the_version_is_no_field_of_the_recipe(kind: str) -> None:
    recipe = SPECS[kind].training
    assert "version" not in type(recipe).model_fields
    with pytest.raises(ValueError, match="version"):
        type(recipe).model_validate({"version": 2})


def test_every_recipe_has_a_version() -> None:
    for spec in get_args(AnySpec):
        annotation: Any = spec.model_fields["training"].annotation
        for recipe in get_args(annotation) or (annotation,):
            assert issubclass(recipe, Recipe)


@every_kind
def test_another_source_changes_no_key(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = cache.victim_key(SPECS[kind], "data")
    monkeypatch.setattr(Sources, "sha256", lambda *arguments: "another")
    assert cache.training_sha(SPECS[kind].setting) == "another"
    assert cache.victim_key(SPECS[kind], "data") == key


@pytest.mark.parametrize("setting", cache.MAKERS)
def test_all_that_decides_weights_is_in_the_hash_of_the_training(setting: str) -> None:
    sources = Sources()
    files = set(sources.trees(sources.file_of(cache.MAKERS[setting])))
    decisive = {
        "dataset": "victims/training/newton.py",
        "informed": "victims/informed/stacked.py",
        "deletion": "victims/deletion/newton.py",
    }
    assert {"victims/datasets/raw.py", "victims/datasets/selection.py", decisive[setting]} <= files


@pytest.mark.parametrize(("name", "identity"), IDENTITIES.items(), ids=IDENTITIES)
def test_a_field_that_is_added_leaves_the_victims_that_there_are(name: str, identity: str) -> None:
    spec = registry.victims().find(name)
    assert spec is not None
    assert sha256_json(spec.identity())[:16] == identity
