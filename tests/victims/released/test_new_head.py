"""A public checkpoint whose head was replaced before it was fine-tuned: the start of its new head is not known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked, sgd_network, victim_of
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attacks.kkt_delta import KKTDelta
from attacks.kkt_delta_features import KKTDeltaFeatures
from attacks.known_start.params import FeatureParams, KKTDeltaParams
from victims.base import Victim
from victims.errors import UserError
from victims.exposure.reading import exposure
from victims.obtain import obtain
from victims.released import released

MEAN, STD = 0.3052603, 0.3760492
PLACES = {"layers.0": "1", "layers.1": "3", "layers.2": "5"}


def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A folder with a network of the suite as one's own, as it was released and at its start, and with its images."""
    victim = victim_of(sgd_network("digits", 10, (200, 200), lr=0.02, batch_size=5, epochs=10))
    assert victim.start is not None
    for file, state in (("tuned", victim.model.state_dict()), ("begun", victim.start)):
        renamed = {f"{PLACES[name[:8]]}{name[8:]}": value for name, value in state.items()}
        save_file(renamed, tmp_path / f"{file}.safetensors")
    images = victim.images(victim.split.inputs).clip(0, 1)[:, 0]
    np.savez(tmp_path / "images.npz", train_images=images, train_labels=victim.split.labels)
    assert (float(victim.split.mean[0, 0, 0]), float(np.ravel(victim.scale)[0])) == pytest.approx((MEAN, STD), rel=1e-5)
    assert np.ptp(victim.split.mean) == 0
    return tmp_path


def with_dropout() -> nn.Module:
    """Return the network with a head as people replace one, two modules in the place of a layer."""
    built = network()
    built[5] = nn.Sequential(nn.Dropout(0.2), nn.Linear(200, 10))  # type: ignore[operator]
    return built


def mine(
    folder: Path,
    start: dict[str, Tensor],
    notices: list[str],
    build: Callable[[], nn.Module] = network,
    weights: str = "tuned.safetensors",
) -> Victim:
    save_file(start, folder / "start.safetensors")
    files: dict[str, Any] = {"weights": folder / weights, "initial": folder / "start.safetensors"}
    spec = released("mine", network=build, images=folder / "images.npz", mean=MEAN, std=STD, **files)
    return obtain(spec, None, CPU, lambda progress: None, notices.append)


def test_the_new_head_is_taken_as_released_and_the_images_are_found(tuned: Path) -> None:
    public, notices = load_file(tuned / "begun.safetensors"), list[str]()
    public |= {"5.weight": torch.zeros(1000, 200), "5.bias": torch.zeros(1000)}
    victim = mine(tuned, public, notices)
    assert victim.start is not None
    released_weights = victim.model.state_dict()
    assert torch.equal(victim.start["layers.1.weight"], public["3.weight"])
    assert torch.equal(victim.start["layers.2.weight"], released_weights["layers.2.weight"])
    assert not torch.equal(victim.start["layers.1.weight"], released_weights["layers.1.weight"])
    (notice,) = notices
    assert "has no 5.weight, 5.bias of this shape; this part of the last layer is taken to start as it was" in notice
    found = attacked(KKTDelta(KKTDeltaParams(steps=200)), victim).candidates.flatten(1)
    cosines = F.normalize(found) @ F.normalize(torch.from_numpy(victim.split.inputs).flatten(1)).T
    assert int((cosines.amax(0) > 0.9).sum()) >= 8


def test_a_checkpoint_without_a_head_will_do_and_one_of_another_body_will_not(tuned: Path) -> None:
    begun, notices = load_file(tuned / "begun.safetensors"), list[str]()
    body = {name: value for name, value in begun.items() if not name.startswith("5.")}
    assert mine(tuned, body, notices).card.directions == 10
    assert len(notices) == 1
    assert mine(tuned, begun, notices).card.directions == 10
    assert len(notices) == 1
    for other in (
        {name: value for name, value in begun.items() if name != "1.weight"},
        begun | {"3.weight": torch.zeros(100, 200)},
        begun | {"7.weight": torch.zeros(2)},
    ):
        with pytest.raises(UserError, match="does not fit the network"):
            mine(tuned, other, [])


def test_a_head_of_dropout_and_a_layer_in_the_place_of_a_layer_is_a_new_head_and_so_is_the_reverse(tuned: Path) -> None:
    begun, end = (load_file(tuned / f"{file}.safetensors") for file in ("begun", "tuned"))

    def within(state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name.replace("5.", "5.1.", 1) if name[0] == "5" else name: value for name, value in state.items()}

    public = begun | {"5.weight": torch.zeros(1000, 200), "5.bias": torch.zeros(1000)}
    save_file(within(end), tuned / "wrapped.safetensors")
    notices = list[str]()
    wrapped = mine(tuned, public, notices, with_dropout, "wrapped.safetensors")
    plain = mine(tuned, within(public), notices)
    for victim in (wrapped, plain):
        assert victim.start is not None
        assert victim.card.directions == 10
        assert torch.equal(victim.start["layers.1.weight"], begun["3.weight"])
        assert torch.equal(victim.start["layers.2.weight"], end["5.weight"])
    assert len(notices) == 2
    assert "no 5.1.weight, 5.1.bias of this shape" in notices[0]
    assert "no 5.weight, 5.bias of this shape" in notices[1]
    for strange in ("3.1.weight", "6.weight", "51.weight", "weight"):
        with pytest.raises(UserError, match="does not fit the network"):
            mine(tuned, public | {strange: torch.zeros(2)}, [], with_dropout, "wrapped.safetensors")


def test_where_only_the_new_head_was_trained_attacks_say_what_is_the_case(tuned: Path) -> None:
    body = {name: value for name, value in load_file(tuned / "tuned.safetensors").items() if not name.startswith("5.")}
    victim = mine(tuned, body, [])
    assert victim.card.directions == 0
    for attack in (KKTDelta(KKTDeltaParams(steps=1)), KKTDeltaFeatures(FeatureParams(steps=1))):
        with pytest.raises(ValueError, match="none was trained, or a new head alone, whose start is not known"):
            attacked(attack, victim)
    assert "a new head alone" in str(KKTDelta(KKTDeltaParams()).doubt(exposure(victim, seeds=1)))
