"""Victims are trained once, found again, and trained anew when their files were altered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from victims import cache
from victims.base import Victim
from victims.files import sha256_file
from victims.obtain import obtain as obtain_victim
from victims.recipes import Ordinary
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

SPEC = VictimSpec(
    name="faces-mlp-8",
    dataset="faces",
    n=8,
    architecture=MLPSpec(hidden=(16, 16)),
    training=NormalizedDescent(steps=30),
)
Obtain = Callable[[VictimSpec], tuple[Victim, int, list[str]]]


@pytest.fixture
def obtain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Obtain:
    """Return a function that obtains a victim and says how many progress reports and which notices it caused."""
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))

    def call(spec: VictimSpec) -> tuple[Victim, int, list[str]]:
        reports: list[object] = []
        notices: list[str] = []
        victim = obtain_victim(spec, None, torch.device("cpu"), reports.append, notices.append)
        return victim, len(reports), notices

    return call


def folder(spec: VictimSpec) -> Path:
    from victims.datasets import fingerprint

    return cache.victim_folder(spec, fingerprint(spec.dataset, None))


def test_trained_once(obtain: Obtain) -> None:
    assert cache.trained_card(SPEC, None) == {}
    first, reports, notices = obtain(SPEC)
    assert reports > 0 and notices == []
    again, reports, notices = obtain(SPEC)
    assert reports == 0 and notices == []
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    assert cache.trained_card(SPEC, None)["weights_sha256"] == first.card.weights_sha256


def test_a_card_of_measures_that_are_not_numbers_is_read_again(obtain: Obtain) -> None:
    """All 200 faces are learnt, and none is left to test on."""
    spec = SPEC.model_copy(update={"name": "faces-mlp-200", "n": 200})
    first, _, _ = obtain(spec)
    again, reports, notices = obtain(spec)
    assert math.isnan(first.card.test_accuracy) and math.isnan(again.card.test_accuracy)
    assert reports == 0 and notices == []
    assert not (cache.cache_dir() / "damaged").exists()


def test_the_home_is_expanded_in_the_name_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", "~/victims")
    assert cache.cache_dir() == Path.home() / "victims"


def test_the_card_is_true(obtain: Obtain) -> None:
    victim, _, _ = obtain(SPEC)
    card, split = victim.card, victim.split
    labels = torch.from_numpy(2 * split.labels - 1)
    margins = labels * victim.model(torch.from_numpy(split.inputs)).detach()
    assert card.train_accuracy == float((margins > 0).float().mean())
    assert card.margins[0] == pytest.approx(float(margins.min()), rel=1e-5)
    assert card.weights_sha256 == sha256_file(folder(SPEC) / "weights.safetensors")
    assert len(card.stationarity_residual) == 3
    assert not list(folder(SPEC).glob("checkpoint*"))


@pytest.mark.parametrize("training", [NormalizedDescent(steps=30), Ordinary(epochs=30)], ids=["margin", "ordinary"])
def test_the_seconds_of_a_killed_training_count_in_the_one_that_goes_on(
    training: NormalizedDescent | Ordinary, obtain: Obtain, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SPEC.model_copy(update={"training": training})
    for name in ("victims.training.loop.REPORT_SECONDS", "victims.ordinary.descent.REPORT_SECONDS"):
        monkeypatch.setattr(name, -1.0)
    monkeypatch.setattr("victims.unfinished.CHECKPOINT_SECONDS", -1.0)

    class Killed(Exception):
        pass

    told = 0

    def slow(at: object) -> None:
        nonlocal told
        told += 1
        if told == 3:
            time.sleep(1.0)
        if told == 6:
            raise Killed

    begun = time.monotonic()
    with pytest.raises(Killed):
        obtain_victim(spec, None, torch.device("cpu"), slow, lambda notice: None)
    assert list(folder(spec).glob("checkpoint-*"))
    victim, _, _ = obtain(spec)
    assert 1.0 < victim.card.train_s < time.monotonic() - begun
    assert not list(folder(spec).glob("checkpoint-*"))


@pytest.mark.parametrize(
    "damage", ["altered weights", "truncated weights", "missing weights", "broken card", "listed card"]
)
def test_damaged_files_are_found_named_and_replaced(obtain: Obtain, damage: str) -> None:
    first, _, _ = obtain(SPEC)
    weights, card = folder(SPEC) / "weights.safetensors", folder(SPEC) / "card.json"
    content = bytearray(weights.read_bytes())
    if damage == "altered weights":
        content[-1] ^= 1
        weights.write_bytes(content)
    elif damage == "truncated weights":
        weights.write_bytes(content[:100])
    elif damage == "missing weights":
        weights.unlink()
    else:
        card.write_text("{" if damage == "broken card" else "[1]")
        assert cache.trained_card(SPEC, None) == {}
    again, reports, notices = obtain(SPEC)
    assert reports > 0
    assert len(notices) == 1 and SPEC.name in notices[0] and str(folder(SPEC)) in notices[0]
    aside = {path.name.partition("-")[2]: path.read_bytes() for path in (cache.cache_dir() / "damaged").iterdir()}
    assert set(aside) == {"card.json"} | ({"weights.safetensors"} - {damage.replace("missing ", "") + ".safetensors"})
    if damage == "truncated weights":
        assert aside["weights.safetensors"] == content[:100]
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])


def test_what_determines_the_weights_determines_the_key() -> None:
    key = cache.victim_key(SPEC, "data")
    assert cache.victim_key(SPEC.model_copy(update={"name": "other", "reported_test_accuracy": 0.7}), "data") == key
    changes = [
        {"seed": 2},
        {"n": 10},
        {"training": NormalizedDescent(steps=31)},
        {"architecture": MLPSpec(hidden=(4,))},
    ]
    keys = {cache.victim_key(SPEC.model_copy(update=change), "data") for change in changes}
    assert len(keys | {key, cache.victim_key(SPEC, "other data")}) == 6


def test_every_checkpoint_and_card_is_written_whole(obtain: Obtain) -> None:
    obtain(SPEC)
    assert {path.name for path in folder(SPEC).iterdir()} - {"lock"} == {"card.json", "weights.safetensors"}
