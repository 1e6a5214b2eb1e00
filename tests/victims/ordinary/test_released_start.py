"""Somebody's own fine-tuned model with its public checkpoint: the start is read, measured and handed to attacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attacking import CPU, attacked, sgd_network, victim_of
from safetensors.torch import load_file, save_file
from torch import nn

from attacks.base import Attack, Reconstruction
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import INNER_STAYED, CocktailPartyFeatures
from attacks.independent_components.params import CocktailPartyFeaturesParams, CocktailPartyParams
from attacks.independent_components.span import UpdateSpan
from attacks.kkt_delta import KKTDelta
from attacks.kkt_delta_features import KKTDeltaFeatures
from attacks.known_start.params import FeatureParams, KKTDeltaParams
from bench.plan.exposed import exposure_lines
from victims.base import Victim
from victims.equations.network import Network
from victims.errors import UserError
from victims.exposure.reading import exposure, spectrum
from victims.obtain import obtain
from victims.recipes import Released
from victims.released import released
from victims.spec import CNNSpec, ConvSpec, FrontSpec, MLPSpec, ModuleSpec, SmoothMLPSpec, VictimSpec

N, EPOCHS = 6, 12
Tuned = tuple[nn.Module, dict[str, torch.Tensor], Path]


def cnn() -> nn.Module:
    """A CNN as people write it, with pooling."""
    front = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*front, nn.Flatten(), nn.Linear(1024, 30), nn.ReLU(), nn.Linear(30, 10))


class Gelu(nn.Module):
    """A network of fully connected layers as people write it, with layer normalisation and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3072, 40)
        self.tail = nn.Sequential(
            nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 30), nn.LayerNorm(30), nn.GELU(), nn.Linear(30, 10)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.tail(self.first(inputs.flatten(1)))
        return outputs


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 3))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 200), nn.BatchNorm1d(200), nn.ReLU(), nn.Linear(200, 3))


@pytest.fixture
def tuned(tmp_path: Path) -> Tuned:
    """A network that SGD tunes on a few images, its state before, and the folder of its images."""
    return tuned_by_sgd(network, tmp_path)


def tuned_by_sgd(build: Callable[[], nn.Module], folder: Path) -> Tuned:
    """Return a network that SGD tunes on a few images, its state before, and the folder, where these are written."""
    rng = np.random.default_rng(0)
    images = rng.random((N, 8, 8)).astype(np.float32)
    labels = np.arange(N) % 3
    held_out = rng.random((9, 8, 8)).astype(np.float32)
    arrays = {"train_images": images, "train_labels": labels, "test_images": held_out, "test_labels": np.arange(9) % 3}
    np.savez(folder / "images.npz", **arrays)
    torch.manual_seed(3)
    model = build()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, targets = torch.from_numpy((images[:, None] - 0.5) / 0.3), torch.from_numpy(labels)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimiser.step()
    save_file(model.state_dict(), folder / "tuned.safetensors")
    save_file(start, folder / "start.safetensors")
    return model, start, folder


def described(folder: Path, **given: Any) -> VictimSpec:
    files = {"weights": folder / "tuned.safetensors", "images": folder / "images.npz"}
    return released("mine", **{"network": network, "mean": 0.5, "std": 0.3, **files, **given})


def loaded(spec: VictimSpec) -> Victim:
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def test_the_start_is_kept_and_the_card_says_how_far_it_moved(tuned: Any) -> None:
    model, start, folder = tuned
    victim = loaded(described(folder, initial=folder / "start.safetensors"))
    assert victim.start is not None
    assert torch.equal(victim.start["layers.0.weight"], start["1.weight"])
    squares = [
        [(new - old).square().sum(), old.square().sum()]
        for new, old in zip(model.state_dict().values(), start.values(), strict=True)
    ]
    moved, size = torch.tensor(squares).sum(0).sqrt()
    assert victim.card.movement == pytest.approx(float(moved / size), rel=1e-5)
    assert victim.card.directions == N
    assert victim.card.start_decay == pytest.approx(1, abs=1e-4)


def test_kkt_delta_takes_it_with_its_start_and_declines_it_without(tuned: Any) -> None:
    _, _, folder = tuned
    attack = KKTDelta(KKTDeltaParams(restarts=1, steps=20))
    assert "not known" in (attack.supports(described(folder)) or "")
    spec = described(folder, initial=folder / "start.safetensors")
    assert attack.supports(spec) is None
    found = attacked(attack, loaded(spec))
    assert found.candidates.shape == (2 * N, 1, 8, 8)
    guess = KKTDelta(KKTDeltaParams(restarts=1, steps=20, start="guess", seeds=50))
    assert attacked(guess, loaded(described(folder))).flags[0].startswith("seed 3 drew the start")


def test_a_model_whose_first_layer_stayed_is_for_kkt_delta_features(tuned: Any) -> None:
    model, start, folder = tuned
    quick = KKTDeltaFeatures(FeatureParams(steps=2))
    for names, direct, behind in (
        ([], "directions searched", "use kkt-delta"),
        (["1."], "use kkt-delta-features", "behind 1 layers that stayed"),
        (["1.", "3."], "only the last layer", "only the last layer"),
    ):
        state = {
            name: start[name] if name.startswith(tuple(names)) else value for name, value in model.state_dict().items()
        }
        save_file(state, folder / "tuned.safetensors")
        victim = loaded(described(folder, initial=folder / "start.safetensors"))
        assert quick.supports(victim.spec) is None
        assert direct in attacked(KKTDelta(KKTDeltaParams(restarts=1, steps=2)), victim).flags[0]
        assert behind in attacked(quick, victim).flags[0]
        card = exposure(victim, seeds=5)
        assert card.start is not None
        assert card.start.stayed == len(names)


def as_ones_own(victim: Victim, build: Callable[[], nn.Module], name_of: Callable[[str], str], folder: Path) -> Victim:
    """Return a victim of the suite as a module of somebody's own, whose parameters have other names."""
    assert victim.start is not None
    for file, state in (("tuned", victim.model.state_dict()), ("start", victim.start)):
        save_file({name_of(name): value for name, value in state.items()}, folder / f"{file}.safetensors")
    pixels = victim.split.inputs * victim.scale + victim.split.mean
    arrays = {"train_images": pixels.transpose(0, 2, 3, 1).clip(0, 1), "train_labels": victim.split.labels}
    np.savez(folder / "images.npz", **arrays)
    mean, std = victim.split.mean[:, 0, 0].tolist(), np.ravel(victim.scale).tolist()
    return loaded(described(folder, network=build, initial=folder / "start.safetensors", mean=mean, std=std))


def assert_alike(attack: Attack[Any], mine: Victim, theirs: Victim) -> Reconstruction:
    """Check that an attack takes one's own model, and gets as much out of it as out of another that is the same."""
    assert attack.supports(mine.spec) is None
    found, expected = attacked(attack, mine), attacked(attack, theirs)
    torch.testing.assert_close(found.candidates, expected.candidates, rtol=1e-3, atol=1e-4)
    assert found.candidates.std() > 0
    return found


def own_places(name: str) -> str:
    """Return the name in `cnn` of a parameter of the suite's network."""
    layer, _, kind = name.rpartition(".")
    places = {"front.0": "0", "front.1": "1", "layers.0": "5", "layers.1": "7"}
    return f"{places[layer]}.{kind}"


def test_a_cnn_of_ones_own_gives_what_the_same_network_of_the_suite_gives(tmp_path: Path) -> None:
    spec = sgd_network("photos", 20, (30,), lr=0.02, batch_size=5, epochs=3)
    architecture = CNNSpec(channels=(4,), halved="pooling", hidden=(30,), outputs=10)
    victim = victim_of(spec.model_copy(update={"architecture": architecture, "name": "own-cnn"}))
    mine = as_ones_own(victim, cnn, own_places, tmp_path)
    for attack in (
        CocktailPartyFeatures(CocktailPartyFeaturesParams(steps=20, rounds=1, round_steps=5, image_steps=4)),
        KKTDeltaFeatures(FeatureParams(steps=3, restarts=1)),
    ):
        assert_alike(attack, mine, victim)


def plain(*before_the_layers: nn.Module) -> nn.Sequential:
    """A CNN without padding or pooling, and what else is to stand behind its convolution."""
    front = nn.Conv2d(1, 4, 3), nn.ReLU(), *before_the_layers, nn.Flatten()
    return nn.Sequential(*front, nn.Linear(144, 30), nn.ReLU(), nn.Linear(30, 3))


def test_plain_convolutions_are_a_front_like_any_other(tmp_path: Path) -> None:
    _, start, folder = tuned_by_sgd(plain, tmp_path)
    victim = loaded(described(folder, network=plain, initial=folder / "start.safetensors"))
    assert isinstance(victim.spec.architecture, ConvSpec)
    for file in ("tuned", "start"):  # pooling of one pixel changes nothing but what is recognised
        state = load_file(folder / f"{file}.safetensors")
        moved = {name.replace("3.", "4.").replace("5.", "6."): value for name, value in state.items()}
        save_file(moved, folder / f"pooled-{file}.safetensors")
    pooled = loaded(
        described(
            folder,
            network=lambda: plain(nn.AvgPool2d(1)),
            weights=folder / "pooled-tuned.safetensors",
            initial=folder / "pooled-start.safetensors",
        )
    )
    assert isinstance(pooled.spec.architecture, FrontSpec)
    for attack in (
        CocktailPartyFeatures(CocktailPartyFeaturesParams(steps=20, rounds=1, round_steps=5, image_steps=4)),
        KKTDeltaFeatures(FeatureParams(steps=3, restarts=1)),
    ):
        assert assert_alike(attack, victim, pooled).flags == attacked(attack, pooled).flags
    stayed = load_file(folder / "tuned.safetensors") | {name: start[name] for name in start if name.startswith("3.")}
    save_file(stayed, folder / "tuned.safetensors")
    victim = loaded(described(folder, network=plain, initial=folder / "start.safetensors"))
    attack = CocktailPartyFeatures(CocktailPartyFeaturesParams())
    assert attacked(attack, victim).flags == (INNER_STAYED,)


def test_a_network_of_ones_own_without_a_relu_gives_what_the_same_network_of_the_suite_gives(tmp_path: Path) -> None:
    spec = sgd_network("photos", 20, (30,), lr=0.02, batch_size=5, epochs=3)
    architecture = SmoothMLPSpec(hidden=(40, 30), layer_norm=True, outputs=10)
    victim = victim_of(spec.model_copy(update={"architecture": architecture, "name": "own-gelu"}))
    mine = as_ones_own(victim, Gelu, lambda name: name.replace("layers.0.", "first."), tmp_path)
    assert mine.card.directions == victim.card.directions == 20
    card = exposure(mine, seeds=5)
    assert card.start is not None and card.spectrum is not None and card.seed is not None
    assert card.spectrum == spectrum(mine.model.state_dict()["layers.0.weight"])
    assert (card.layers, card.hidden, card.imbalance) == (False, 1, [])
    assert (card.start.images, card.start.stayed, card.images_shown) == (20, 0, 20)
    assert "the start is not forgotten" in str(card.start_remains)
    endless = card.model_copy(update={"spectrum": card.spectrum.model_copy(update={"gap": False})})
    assert "shows no end of the images' span" in str(endless.start_remains)
    assert (card.seed.found, card.seed.seed) == (True, 1)
    assert [value for what, value in exposure_lines(card) if what == "layers"] == [
        "the first is known, and what is behind it not: LayerNorm is not covered; only chains of convolutions, "
        "linear layers and ReLUs are"
    ]
    attack = CocktailParty(CocktailPartyParams(steps=20, rounds=1, round_steps=5))
    assert len(assert_alike(attack, mine, victim).candidates) == 20


def test_behind_a_normalised_layer_the_difference_is_a_sum_over_images(tmp_path: Path) -> None:
    """Of full batches the errors sum to zero, so that the images less their mean span it."""
    _, _, folder = tuned_by_sgd(normalised, tmp_path)
    victim = loaded(described(folder, network=normalised, initial=folder / "start.safetensors"))
    assert victim.start is not None
    start, end = Network.of(victim.start), Network.of(victim.model.state_dict())
    span = UpdateSpan.added_to(start, end, None)
    assert span.flag == f"start decayed to 1, {N - 1} directions"
    assert span.bias is None
    inputs = torch.from_numpy(victim.split.inputs).flatten(1)
    centred = inputs - inputs.mean(0)
    torch.testing.assert_close(centred @ span.basis.T @ span.basis, centred, atol=1e-3, rtol=1e-3)


def test_of_other_modules_it_says_what_it_is_for() -> None:
    training = Released(
        **{"weights": Path("w"), "weights_sha256": "", "initial": Path("i"), "network_sha256": ""},
        **{"mean": (0.0,), "std": (1.0,), "n_trained": 4},
    )
    attack = KKTDeltaFeatures(FeatureParams())
    for architecture, reason in (
        (ModuleSpec(name="Net"), "for fully connected layers"),
        (ConvSpec(), "None"),
        (ConvSpec(hidden=()), "only the last layer moved"),
        (MLPSpec(hidden=(9,)), "use kkt-delta"),
        (MLPSpec(hidden=(9, 9)), "None"),
    ):
        victim = VictimSpec(name="own", dataset="own.npz", n=4, architecture=architecture, training=training)
        assert reason in str(attack.supports(victim))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path, start: None, "there are no weights at"),
        (lambda path, start: save_file({"1.weight": torch.zeros(2, 2)}, path), "does not fit the network"),
        (lambda path, start: path.write_bytes(b"no tensors"), "cannot be read as safetensors"),
    ],
)
def test_a_start_of_no_use_is_one_line(tuned: Any, write: Callable[..., Any], reason: str) -> None:
    _, start, folder = tuned
    path = folder / "other.safetensors"
    write(path, start)
    with pytest.raises(UserError, match=reason) as caught:
        loaded(described(folder, initial=path))
    assert "\n" not in str(caught.value)
