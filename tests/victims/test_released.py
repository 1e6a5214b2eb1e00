"""Somebody's own model: recognised where it is plain, measured on the images given, attacked by what can take it."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from skimage.data import lfw_subset
from torch import nn

from attacks.base import AttackContext, Knowledge
from bench.plan import registry
from bench.run.disclosure import view_of
from bench.scoring import PROTOCOLS, Matcher, score
from bench.scoring.evaluation import Reference
from victims.base import Victim
from victims.cache import trained_card, victim_key
from victims.errors import UserError
from victims.obtain import obtain
from victims.released import released
from victims.spec import MLPSpec, ModuleSpec, NormalizedDescent, VictimSpec

CPU = torch.device("cpu")
SHAPE = (1, 25, 25)
SMALL = NormalizedDescent(steps=60)
CHEAP = {"steps": 10, "restarts": 1, "candidates": 6, "lower_steps": 20, "inverse_steps": 10}
FACES, LABELS = lfw_subset().astype(np.float32), np.repeat(np.array([1, 0]), 100)
MEMBERS, OTHERS = [0, 1, 2, 100, 101, 102], [10, 11, 110, 111]
PLUGIN = """
from torch import nn
from victims.released import released


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(625, 12), nn.ReLU(), nn.Linear(12, 1))


VICTIMS = (
    released("mine", network=network, weights={weights!r}, images={images!r}, mean=0.5, std=0.25),
)
"""


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(625, 12), nn.ReLU(), nn.Linear(12, 1))


def padded() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(1250, 2))


@dataclass(frozen=True)
class Own:
    """A trained module with its files."""

    module: nn.Module
    weights: Path
    images: Path

    def victim(self, network: Callable[[], nn.Module] = two_layers, **options: Any) -> Victim:
        given = {"weights": self.weights, "images": self.images} | options
        spec = released("mine", network=network, **given)
        return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def saved(folder: Path, network: Callable[[], nn.Module], test: bool = True) -> Own:
    torch.manual_seed(0)
    module = network()
    inputs, labels = torch.from_numpy(FACES[MEMBERS])[:, None], torch.from_numpy(LABELS[MEMBERS])
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(40):
        outputs = module((inputs - 0.5) / 0.25)
        both = torch.cat([torch.zeros_like(outputs), outputs], 1) if outputs.shape[1] == 1 else outputs
        loss = nn.functional.cross_entropy(both, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    save_file(module.state_dict(), folder / "weights.safetensors")
    arrays = {"train_images": FACES[MEMBERS], "train_labels": LABELS[MEMBERS]}
    if test:
        arrays |= {"test_images": FACES[OTHERS], "test_labels": LABELS[OTHERS]}
    np.savez(folder / "images.npz", **arrays)  # type: ignore[arg-type]
    return Own(module.eval(), folder / "weights.safetensors", folder / "images.npz")


@pytest.fixture
def own(tmp_path: Path) -> Own:
    return saved(tmp_path, two_layers)


@pytest.mark.parametrize("network", [two_layers, padded])
def test_its_inputs_are_those_that_it_was_trained_on(tmp_path: Path, network: Callable[[], nn.Module]) -> None:
    own = saved(tmp_path, network)
    victim = own.victim(network, mean=np.array(0.5), std=(0.25,))
    split, images = victim.split, torch.from_numpy(FACES[MEMBERS])[:, None]
    with torch.no_grad():
        outputs = own.module((images - 0.5) / 0.25)
        found = victim.model(torch.from_numpy(split.inputs))

    torch.testing.assert_close(found, outputs[:, 0] if outputs.shape[1] == 1 else outputs)
    np.testing.assert_allclose(victim.images(split.inputs), images, atol=1e-6)
    assert victim.spec.n == 6
    assert victim.card.train_accuracy == 1
    assert len(victim.card.stationarity_residual) == (2 if network is two_layers else 0)
    assert trained_card(victim.spec, None)["margins"] == pytest.approx(victim.card.margins)
    reference = Reference.of(victim)
    exact = score(PROTOCOLS["assigned"], Matcher(torch.from_numpy(split.inputs), reference.truth))
    assert exact.n_good == 6
    assert exact.ssim_mean == pytest.approx(1, abs=1e-4)


def test_the_training_mean_may_be_subtracted(own: Own) -> None:
    split = own.victim(mean="training").split

    np.testing.assert_allclose(split.inputs.mean(0), 0, atol=1e-6)


@pytest.mark.parametrize("mean", [0.5, "training"])
def test_public_images_lack_a_public_mean_and_of_a_secret_one_their_own(own: Own, mean: float | str) -> None:
    victim = own.victim(mean=mean, std=0.25)
    pool, _ = view_of(victim, frozenset({Knowledge.SHADOW_POOL}), CPU).shadow_pool
    taken = torch.from_numpy(victim.split.test_inputs)

    torch.testing.assert_close(pool, taken if mean == 0.5 else taken - taken.mean(0))


def test_some_of_its_images_are_enough(own: Own) -> None:
    victim = own.victim(n_trained=500)
    view = view_of(victim, frozenset({Knowledge.N, Knowledge.LABELS, Knowledge.CLASS_BALANCE}), CPU)

    assert view.n == 500
    assert len(view.labels) == victim.spec.n == 6
    assert view.class_balance == (0.5, 0.5)


@pytest.mark.parametrize("network", [two_layers, padded])
def test_without_images_it_tells_what_they_would_not(tmp_path: Path, network: Callable[[], nn.Module]) -> None:
    own = saved(tmp_path, network)
    victim = own.victim(network, images=None, shape=SHAPE, n_trained=6, mean=0.5, std=0.25)
    view = view_of(victim, frozenset({Knowledge.N, Knowledge.WEIGHTS, Knowledge.DATA_MEAN}), CPU)

    assert (victim.spec.n, victim.spec.n_trained, victim.input_shape) == (0, 6, SHAPE)
    assert (victim.card.margins, victim.card.stationarity_residual, victim.unlearnt) == ([], [], "")
    assert np.isnan([victim.card.train_loss, victim.card.train_accuracy, victim.card.test_accuracy]).all()
    assert view.n == 6
    torch.testing.assert_close(view.weights, own.victim(network).model.state_dict())
    assert (view.data_mean == 0.5).all()
    np.testing.assert_allclose(victim.images(np.ones((1, *SHAPE), np.float32)), 0.75)
    for item in (Knowledge.LABELS, Knowledge.CLASS_BALANCE, Knowledge.SHADOW_POOL, Knowledge.TRAINING_IMAGES):
        with pytest.raises(LookupError, match=item.value):
            view_of(victim, frozenset({item}), CPU)

    save_file({name: value * torch.nan for name, value in own.module.state_dict().items()}, own.weights)
    with pytest.raises(UserError, match="its outputs are not finite"):
        own.victim(network, images=None, shape=SHAPE, n_trained=6)


def test_the_architecture_is_given_without_the_weights(own: Own) -> None:
    view = view_of(own.victim(), frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}), CPU)
    built = view.architecture.build()

    assert all(not value.any() for value in built.state_dict().values())
    built.load_state_dict(view.weights)
    images = torch.rand(3, *SHAPE)
    torch.testing.assert_close(built(images), own.module(images)[:, 0])


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_torch_file_of_tensors_will_do(own: Own, tmp_path: Path, wrapped: bool) -> None:
    state = own.module.state_dict()
    torch.save({"state_dict": state, "epoch": 3} if wrapped else state, tmp_path / "weights.pt")

    assert own.victim(weights=tmp_path / "weights.pt").card.train_loss == own.victim().card.train_loss


def test_nothing_is_unpickled(own: Own, tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "harm"),)

    (tmp_path / "weights.pt").write_bytes(pickle.dumps({"weight": Code()}))
    torch.save({"weight": Code()}, tmp_path / "zipped.pt")
    for name in ("weights.pt", "zipped.pt"):
        with pytest.raises(UserError, match="no torch file of tensors alone"):
            own.victim(weights=tmp_path / name)
    assert not (tmp_path / "harm").exists()


def test_what_changes_the_result_changes_the_key(own: Own, tmp_path: Path) -> None:
    def key(**options: Any) -> str:
        given = {"network": two_layers, "weights": own.weights, "images": own.images} | options
        return victim_key(released("mine", **given), "data")

    moved = tmp_path / "moved.safetensors"
    moved.write_bytes(own.weights.read_bytes())
    first = key()
    assert key(weights=moved) == first
    keys = [key(mean=0.5), key(std=0.5), key(weight_decay=0.1), key(crops=4), key(n_trained=7), key(loss="l2")]
    save_file(two_layers().state_dict(), own.weights)
    assert len({first, key(), *keys}) == len(keys) + 2


@pytest.mark.parametrize(("network", "taken"), [(two_layers, 7), (padded, 3)])
def test_every_attack_takes_it_or_says_why_not(tmp_path: Path, network: Callable[[], nn.Module], taken: int) -> None:
    victim = saved(tmp_path, network).victim(network, mean=0.5, std=0.25, weight_decay=1e-3)
    candidates = []
    for attack in registry.attacks().items.values():
        if attack.setting != victim.spec.setting:
            continue
        chosen = attack(attack.Params(**{name: CHEAP[name] for name in CHEAP if name in attack.Params.model_fields}))
        if (reason := chosen.supports(victim.spec)) is not None:
            assert reason
            continue
        context = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
        candidates.append(chosen.reconstruct(view_of(victim, chosen.knowledge, CPU), context).candidates)

    assert isinstance(victim.spec.architecture, MLPSpec if network is two_layers else ModuleSpec)
    assert len(candidates) >= taken
    assert all(found.shape[1:] == SHAPE and found.isfinite().all() for found in candidates)


def test_an_audit_runs_or_skips_every_attack(
    bench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = saved(tmp_path, two_layers, test=False)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text(PLUGIN.format(weights=str(own.weights), images=str(own.images)))
    audited = [(attack.name, variant) for attack in registry.attacks().items.values() for variant in attack.audits]
    for attack in registry.attacks().items.values():  # the audit itself is meant, not the attacks
        if attack.name not in ("random", "first-layer"):
            monkeypatch.setattr(attack, "supports", lambda self, victim: "too slow for a test")
    ended = bench("run", "-v", "mine", "--plugin-dir", tmp_path / "plugins", "--results-dir", tmp_path / "results")
    rows = pd.read_csv(tmp_path / "results" / "runs.csv", keep_default_na=False).set_index("attack")

    assert ended.status == 0
    assert "no attack is named: each is tried with every parameter set that an audit tries" in ended.out
    assert sorted(zip(rows.index, rows["variant"], strict=True)) == sorted(audited)
    assert list(rows.index[rows["status"] == "ok"]) == ["first-layer", "random"]
    assert set(rows["status"]) == {"ok", "skipped"}
    flags = rows.loc["first-layer", "flags"]
    for missing in ("absent_null_untrained: its training is not known", "null_disjoint", "null_held_out"):
        assert missing in flags
    assert rows.loc["first-layer", "null_control"] in ("null_random", "null_mean_image")
    again = bench("run", "-v", "mine", "--plugin-dir", tmp_path / "plugins", "--results-dir", tmp_path / "results")
    assert re.findall(r"^(\S+) on mine seed 0: .*stored", again.out, re.M) == ["first-layer", "random"]


def test_a_victim_of_this_suite_is_the_same_as_a_model_of_ones_own(tmp_path: Path) -> None:
    spec = VictimSpec(name="tiny", dataset="faces", n=6, architecture=MLPSpec(hidden=(12,)), training=SMALL)
    theirs = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)
    split, state = theirs.split, theirs.model.state_dict()
    names = {"layers.0.weight": "1.weight", "layers.0.bias": "1.bias", "layers.1.weight": "3.weight"}
    save_file({names[name]: value for name, value in state.items()}, tmp_path / "weights.safetensors")
    test_images = theirs.images(split.test_inputs)[:, 0]
    arrays = {"train_images": split.images[:, 0], "train_labels": split.labels}
    np.savez(tmp_path / "images.npz", test_images=test_images, test_labels=split.test_labels, **arrays)

    def network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(625, 12), nn.ReLU(), nn.Linear(12, 1, bias=False))

    own = Own(theirs.model, tmp_path / "weights.safetensors", tmp_path / "images.npz").victim(network, mean="training")
    assert own.card.margins == pytest.approx(theirs.card.margins, rel=1e-4)
    assert own.card.stationarity_residual == pytest.approx(theirs.card.stationarity_residual, rel=1e-3)
    assert own.card.test_accuracy == theirs.card.test_accuracy
    items = (Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE, Knowledge.N)
    for item in items:
        mine, other = (view_of(victim, frozenset(items), CPU).shown(item) for victim in (own, theirs))
        same = all(torch.equal(mine[name], other[name]) for name in other) if isinstance(other, dict) else mine == other
        assert same, item
    candidates = torch.from_numpy(split.inputs + 0.3 * np.random.default_rng(0).standard_normal(split.inputs.shape))
    for protocol in (one for one in PROTOCOLS.values() if one.good != "named"):  # that asks for a prior
        counts = [score(protocol, Matcher(candidates.float(), Reference.of(victim).truth)) for victim in (own, theirs)]
        torch.testing.assert_close(counts[0].similarity, counts[1].similarity, rtol=1e-4, atol=1e-4)


def test_a_network_is_built_by_any_function_and_a_module_is_none(tmp_path: Path) -> None:
    own = saved(tmp_path, two_layers)
    files: dict[str, Any] = {"weights": own.weights, "images": own.images}

    class Builder:
        def __call__(self) -> nn.Module:
            return two_layers()

    networks = (two_layers, partial(two_layers), Builder())
    specs = [released("mine", network=network, **files) for network in networks]
    codes = [spec.training.network_sha256 for spec in specs if spec.training.kind == "released"]
    assert codes[0] == codes[1] == codes[2] != ""
    with pytest.raises(UserError, match="`network` is to be a function that builds the module; it is a Sequential"):
        released("mine", network=two_layers(), **files)  # type: ignore[arg-type]
