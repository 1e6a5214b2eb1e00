"""The informed setting end to end: what its attacks are told, how they are scored, who may attack whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from attacking import CPU, digits_network, victim_of

from attacks.base import Knowledge
from bench.run.disclosure import view_of
from victims.informed.spec import GLMArchitecture, GLMSpec
from victims.informed.victim import InformedVictim, logits

Bench = Callable[..., object]
NETWORK = digits_network(n=30, targets=5, epochs=3)

PLUGIN = '''
"""A victim of the informed adversary, and attacks that know everything, nothing, or too little."""

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from attacking import digits_network

VICTIMS = (digits_network(n=30, targets=5, epochs=3),)


class Informed(Attack):
    """Returns the targets themselves."""

    name = "cheat"
    summary = "the targets"
    needs = frozenset({Knowledge.TRAINING_IMAGES})
    Params = AttackParams
    setting = "informed"
    protocol = "balle2022"

    def reconstruct(self, view, ctx):
        return Reconstruction(candidates=view.training_images[0])


class Pool(Informed):
    name = "pool"
    needs = frozenset({Knowledge.SHADOW_POOL, Knowledge.WEIGHTS})

    def reconstruct(self, view, ctx):
        targets = len(view.weights["layers.0.weight"])
        return Reconstruction(candidates=view.shadow_pool[0][:targets])


class Short(Pool):
    name = "short"

    def reconstruct(self, view, ctx):
        return Reconstruction(candidates=view.shadow_pool[0][:2])


class Asks(Pool):
    name = "asks-too-much"
    needs = frozenset({Knowledge.DATA_MEAN})
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "informed.py").write_text(PLUGIN)
    return tmp_path


@pytest.fixture
def attacked(bench: Bench, plugin: Path, results: Path) -> Callable[..., pd.DataFrame]:
    """Attack the tiny victim and return runs.csv."""

    def call(*attacks: str) -> pd.DataFrame:
        chosen = [word for attack in attacks for word in ("-a", attack)]
        folders = ("--plugin-dir", plugin, "--results-dir", results)
        bench("run", *chosen, "-v", "digits-elu4-30", "--device", "cpu", *folders)
        return pd.read_csv(results / "runs.csv").set_index("attack")

    return call


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> InformedVictim:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return victim_of(NETWORK)


def test_who_returns_the_targets_gets_all_of_them(attacked: Callable[..., pd.DataFrame], results: Path) -> None:
    row = attacked("cheat").loc["cheat"]
    assert (row["n"], row["n_fixed"], row["n_good"], row["protocol"]) == (5, 30, 5, "balle2022")
    assert (row["beats_oracle"], row["membership_auc"], row["mse_p50"]) == (1, 1, pytest.approx(0, abs=1e-12))
    assert row["null_mean_image"] == 0 and row["null_shuffled"] == 0 and np.isnan(row["null_random"])
    folder = results / "runs" / row["run_id"]
    assert (folder / "grid.png").exists()
    assert list(pd.read_csv(folder / "per_sample.csv")["candidate"]) == [0, 1, 2, 3, 4]


def test_a_single_target_has_no_null_that_is_the_attack_itself(
    attacked: Callable[..., pd.DataFrame], plugin: Path
) -> None:
    (file,) = plugin.glob("*.py")
    file.write_text(file.read_text().replace("targets=5", "targets=1"))
    row = attacked("cheat").loc["cheat"]
    assert (row["n"], row["n_good"]) == (1, 1)
    assert row[["null_mean_image", "null_shuffled", "null_n_good"]].isna().all()
    assert "absent_null_shuffled: there is no other model's target" in row["flags"]
    assert "absent_null_mean_image: the mean of one image is that image" in row["flags"]


def test_images_of_the_pool_beat_no_oracle(attacked: Callable[..., pd.DataFrame]) -> None:
    row = attacked("pool").loc["pool"]
    assert row["n_good"] == 0 and row["beats_oracle"] == 0
    assert row["oracle_mse"] < row["mse_mean"]


def test_settings_do_not_mix_and_a_candidate_is_due_for_every_target(attacked: Callable[..., pd.DataFrame]) -> None:
    rows = attacked("kkt", "short", "asks-too-much")
    assert rows.loc["kkt", ["status", "reason"]].tolist() == [
        "skipped",
        "the attack seeks all training records; here it is the one record that the attacker does not know",
    ]
    assert "2 candidates for 5 targets" in rows.loc["short", "reason"]
    assert rows.loc["asks-too-much", "status"] == "skipped"
    assert rows.loc["asks-too-much", "reason"].startswith("nobody can tell it the data mean")


def test_a_stored_informed_run_is_complete(attacked: Callable[..., pd.DataFrame]) -> None:
    attacked("cheat")
    first = attacked("cheat").loc["cheat", "started_utc"]
    assert attacked("cheat").loc["cheat", "started_utc"] == first


def test_an_informed_attack_skips_other_victims(bench: Bench, plugin: Path, plugins: Path, results: Path) -> None:
    (plugin / "tiny.py").write_text((plugins / "tiny.py").read_text())
    folders = ("--plugin-dir", plugin, "--results-dir", results)
    bench("run", "-a", "pool", "-v", "faces-mlp-4-tiny", "--device", "cpu", *folders)
    row = pd.read_csv(results / "runs.csv").iloc[0]
    told = "the attack seeks the one record that the attacker does not know; here it is all training records"
    assert row["reason"] == told


def test_the_view_tells_what_the_informed_adversary_knows(victim: InformedVictim) -> None:
    items = {
        *(Knowledge.WEIGHTS, Knowledge.KNOWN_POINTS, Knowledge.SHADOW_POOL, Knowledge.TRAINING, Knowledge.N),
        *(Knowledge.INITIAL_WEIGHTS, Knowledge.LOGITS, Knowledge.LABELS, Knowledge.ARCHITECTURE),
    }
    view = view_of(victim, frozenset(items), CPU)
    images, labels = view.known_points
    assert (view.n, len(images), len(labels), len(view.labels)) == (30, 30, 30, 5)
    assert float(images.min()) >= 0 and float(images.max()) <= 1
    assert {name: value.shape[0] for name, value in view.weights.items()} == dict.fromkeys(view.weights, 5)
    assert view.training == NETWORK.training and view.architecture.spec == NETWORK.architecture
    start = view.initial_weights
    assert start is not None and all(start[name].shape == value.shape[1:] for name, value in view.weights.items())
    answers = view.logits(images[:7])
    assert answers.shape == (5, 7, 10)
    one = {name: value[3] for name, value in view.weights.items()}
    hidden = torch.nn.functional.elu(images[:7].flatten(1) @ one["layers.0.weight"].T + one["layers.0.bias"])
    assert torch.allclose(answers[3], hidden @ one["layers.1.weight"].T + one["layers.1.bias"], atol=1e-5)


def test_nobody_but_the_oracle_sees_a_target(victim: InformedVictim) -> None:
    told = [item for item in Knowledge if item not in (Knowledge.TRAINING_IMAGES, Knowledge.LOGITS)]
    secret = {image.tobytes() for image in victim.split.targets.images}
    for item in told:
        try:
            view = view_of(victim, frozenset({item}), CPU)
        except LookupError:
            continue
        found = view._facts[item]
        if isinstance(found, tuple):
            assert secret.isdisjoint(image.tobytes() for image in np.asarray(found[0]))


def test_a_cached_victim_is_the_trained_one(victim: InformedVictim, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = victim_of(NETWORK)

    def fails(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("victims.informed.cache._train", fails)
    cached = victim_of(NETWORK)
    assert all(torch.equal(cached.weights[name], value) for name, value in trained.weights.items())
    assert all(torch.equal(victim.weights[name], value) for name, value in trained.weights.items())
    assert cached.card.weights_sha256 == trained.card.weights_sha256


def test_glm_victims_answer_linear_predictors() -> None:
    spec = GLMSpec(name="cancer-x", dataset="cancer", n=100, targets=3, architecture=GLMArchitecture())
    victim = victim_of(spec)
    image = torch.from_numpy(victim.split.pool.images[:2])
    expected = image.flatten(1).double() @ victim.weights["coef"][1, 0] + victim.weights["intercept"][1, 0]
    assert torch.allclose(logits(spec, victim.weights, image)[1, :, 0], expected)
