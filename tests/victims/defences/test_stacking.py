"""Defences by their words: what each changes of a victim's description, what it is named, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.plan import registry
from victims.defences.spec import KINDS, Noise, parse
from victims.defences.stacking import defended, undefended
from victims.errors import UserError
from victims.informed.spec import AnySpec, OutputPrivacy
from victims.recipes import DecayedDescent, Ordinary, Privacy, Released
from victims.spec import VictimSpec

VICTIMS = registry.victims()


def named(name: str) -> AnySpec:
    (spec,) = VICTIMS.match([name])
    return spec


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_defence_is_what_its_text_says(kind: type[Noise]) -> None:
    defence = parse(kind.example)
    assert type(defence) is kind
    assert parse(defence.text) == defence


def test_one_strength_has_one_name() -> None:
    assert named("cifar-mlp-500+noise=1e-3") == named("cifar-mlp-500+noise=0.00100")
    assert named("cifar-mlp-500+noise=1e-3").name == "cifar-mlp-500+noise=0.001"
    assert named("cifar-mlp-500+noise=0.1234567891").name.endswith("=0.1234567891")


def test_names_and_options_stack_in_their_order_and_globs_take_them() -> None:
    (spec,) = VICTIMS.match(["faces-mlp-20+noise=0.1"], ["round=int8", "clip-outputs"])
    assert spec.name == "faces-mlp-20+noise=0.1+round=int8+clip-outputs=1"
    assert [defence.kind for defence in spec.defences] == ["noise", "round", "clip-outputs"]
    assert VICTIMS.find(spec.name) == spec
    assert {one.name for one in VICTIMS.match(["faces-mlp-?0+noise=1"])} == {"faces-mlp-20+noise=1"}
    assert VICTIMS.find("nobody+noise=1") is None


def test_what_is_done_on_release_is_in_the_identity_in_its_order_and_the_training_is_shared() -> None:
    plain = named("faces-mlp-20")
    stacks = ("noise=0.1", "noise=0.2", "noise=0.1+round=int8", "round=int8+noise=0.1", "clip-outputs=1")
    specs = [plain, *(named(f"faces-mlp-20+{stack}") for stack in stacks)]
    assert len({str(spec.identity()) for spec in specs}) == len(specs)
    assert all(undefended(spec) == plain for spec in specs)
    twin = specs[3].as_twin("disjoint")  # type: ignore[union-attr]
    assert undefended(twin) == plain.as_twin("disjoint")  # type: ignore[union-attr]


def test_what_is_done_in_training_is_in_the_recipe_alone() -> None:
    decayed = named("cifar-mlp-100-c10-wd1e-3+decay=2e-3")
    assert decayed.identity() == named("cifar-mlp-100-c10-wd2e-3").identity()
    assert undefended(decayed) == decayed


def test_a_defended_victim_survives_json_and_its_twin_is_defended() -> None:
    spec = named("cifar-mlp-100-c10-sgd+early-stop=0.5+random-seed+noise=0.01")
    assert isinstance(spec, VictimSpec)
    assert VictimSpec.model_validate_json(spec.model_dump_json()) == spec
    twin = spec.as_twin("disjoint")
    assert (twin.defences, twin.training, twin.seed) == (spec.defences, spec.training, spec.seed)


SGD = Ordinary()
FULL_BATCH = {"privacy": Privacy(epsilon=10), "batch_size": 100, "epochs": 2 * SGD.epochs}
KNOBS: dict[str, dict[str, object]] = {
    "cifar-mlp-500+early-stop=0.1": {"stop_loss": 0.1},
    "cifar-mlp-500-c10-gd1e6+early-stop=0.1": {"stop_loss": 0.1},
    "photos-mlp-100-c10-wd1e-4+early-stop=0.1": {"stop_loss": 0.1},
    "cifar-mlp-100-c10-sgd+early-stop=0.1": {"stop_loss": 0.1},
    "cifar-mlp-500-c10-gd1e6+decay=0.1": {"weight_decay": 0.1},
    "cifar-mlp-100-affine-wd+decay=0.1": {"weight_decay": 0.1},
    "cifar-mlp-100-c10-sgd+decay=0.1": {"weight_decay": 0.1},
    "cifar-mlp-100-c10-sgd+forget-start=3": {"epochs": 3 * SGD.epochs},
    "cifar-mlp-500-gd1e6+decay=0.1+forget-start=3": {"weight_decay": 0.1, "epochs": 3_000_000},
    "cifar-mlp-100-c10-sgd+dp=10": FULL_BATCH,
    "mnist-elu10-1000+dp=3": {"privacy": Privacy(epsilon=3)},
    "digits-logistic-eps1e2+dp=3": {"privacy": OutputPrivacy(epsilon=3)},
}


@pytest.mark.parametrize(("name", "changed"), KNOBS.items(), ids=KNOBS)
def test_a_defence_of_the_training_turns_one_knob_of_the_recipe(name: str, changed: dict[str, object]) -> None:
    plain, spec = named(name.partition("+")[0]), named(name)
    assert dict(spec.training) == dict(plain.training) | changed
    differing = {field for field, value in spec if value != getattr(plain, field)}
    assert differing == {"name", "training", "defences"}


REFUSED = {
    "cifar-mlp-500+decay=0.1": "see the victims whose name has -wd",
    "cifar-mlp-500+forget-start=3": "put decay=5e-4 before it",
    "photos-mlp-100-c10-wd1e-4+forget-start=3": "put decay=5e-4 before it",
    "cifar-mlp-100-c10-finetuned+forget-start=3": "put decay=5e-4 before it",
    "photos-mlp-100-c10-wd1e-4+dp=3": "has a private form",
    "cifar-mlp-100-sgd+dp=3": "a softmax of several outputs",
    "cifar-mlp-100-c10-sgd+dp=3+early-stop=1": "does not look at its loss",
    "cifar-mlp-100-c10-sgd+early-stop=1+dp=3": "does not look at its loss",
    "cifar-mlp-100-wd1e-3-kinks+early-stop=1": "ends before its loss is near its minimum",
    "cifar-mlp-100-affine-wd+early-stop=1": "ends before its loss is near its minimum",
    "cifar-mlp-100-c10-finetuned+random-seed": "no checkpoint",
    "cancer-logistic+random-seed": "no optimum that depends on none",
    "digits-krr-20+random-seed": "no optimum that depends on none",
    "cifar-mlp-100-affine-wd+random-seed": "no optimum that depends on none",
    "cancer-logistic+dp=1": "noise needs a regulariser on all of it",
    "mnist-elu10-1000+decay=0.1": "has a weight decay to set",
    "faces-mlp-20+noise=1+noise=2": "the defence noise is given twice",
    "faces-mlp-20+": "no defence is called ''",
}


@pytest.mark.parametrize(("name", "words"), REFUSED.items(), ids=REFUSED)
def test_a_victim_says_which_defence_it_cannot_have(name: str, words: str) -> None:
    with pytest.raises(UserError, match="defence") as raised:
        VICTIMS.match([name])
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_model_of_ones_own_is_defended_on_release_alone() -> None:
    training = Released(
        weights=Path("w"), weights_sha256="", network=dict, network_sha256="", mean=(0,), std=(1,), n_trained=4
    )
    own = VictimSpec(name="own", dataset="own.npz", n=4, training=training)
    noised = defended(own, [parse("noise=0.1"), parse("clip-outputs")])
    assert noised.training == training
    assert noised.training.network is dict  # type: ignore[union-attr]
    for text in ("decay=0.1", "early-stop=1", "dp=3", "forget-start=2", "random-seed"):
        with pytest.raises(UserError, match="its training is over"):
            defended(own, [parse(text)])


def test_a_random_seed_is_another_one_and_its_start_is_not_told() -> None:
    plain, hidden, other = (
        named(name)
        for name in ("cifar-mlp-50-c10-sgd", "cifar-mlp-50-c10-sgd+random-seed", "cifar-mlp-100+random-seed")
    )
    assert isinstance(plain, VictimSpec) and isinstance(hidden, VictimSpec)
    assert len({plain.seed, hidden.seed, other.seed}) == 3
    assert 0 <= hidden.seed < 2**32
    assert plain.tells_start and not hidden.tells_start and hidden.keeps_start
    assert undefended(named("cifar-mlp-50-c10-sgd+noise=1+random-seed")).identity() == hidden.identity()
    assert named("mnist-elu10-1000+random-seed").initialisation == "random"  # type: ignore[union-attr]


def test_torch_uses_32_bits_of_a_seed() -> None:
    """If this fails, `random-seed` can be as long as torch's seeds then are."""
    first, second = (torch.randn(8, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5 + 2**32))
    assert torch.equal(first, second)


def test_a_knob_that_is_not_used_is_not_described() -> None:
    """Keys of victims from before there were defences stay what they are."""
    for recipe in (DecayedDescent(), Ordinary()):
        described = recipe.model_dump()
        assert "privacy" not in described
        assert ("stop_loss" in described) == isinstance(recipe, Ordinary)  # which had it from the beginning
