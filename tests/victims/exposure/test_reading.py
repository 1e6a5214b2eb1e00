"""The exposure card: each figure on a network of which it is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from attacking import BATCH_NORM, ORDINARY, attacked, victim_of
from safetensors.torch import save_file
from torch import Tensor, nn

from attacks.base import declined_unless_layered
from attacks.kkt_delta import KKTDelta
from attacks.known_start.params import KKTDeltaParams
from attacks.unknown_start import UNLIKE
from bench.plan.exposed import exposure_lines
from victims.base import Victim
from victims.defences.spec import RandomSeed
from victims.defences.stacking import defended
from victims.equations.network import Network
from victims.exposure.card import Exposure
from victims.exposure.reading import balance, exposure, spectrum
from victims.obtain import obtain
from victims.recipes import Ordinary
from victims.released import released
from victims.spec import MLPSpec, VictimSpec

N, SIDE, CLASSES, WIDTH, SEED = 8, 12, 3, 60, 77
DECAY, RATE = 5e-3, 0.05
FEW_SEEDS = 200


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def data() -> tuple[Tensor, Tensor]:
    images = torch.rand(N, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    return images, torch.arange(N) % CLASSES


def trained(
    decay: float, steps: int, rate: float = RATE, seed: int = SEED
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The start and the end of a training by gradient descent, in float64 and rounded to float32."""
    torch.manual_seed(seed)
    module = network()
    start = {name: value.clone() for name, value in module.state_dict().items()}
    images, labels = data()
    optimiser = torch.optim.SGD(module.double().parameters(), lr=rate, weight_decay=decay)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(images.double()), labels).backward()
        optimiser.step()
    return start, {name: value.float() for name, value in module.state_dict().items()}


def own(
    folder: Path,
    weights: dict[str, Tensor],
    build: Callable[[], nn.Module] = network,
    start: dict[str, Tensor] | None = None,
) -> Victim:
    images, labels = data()
    save_file(weights, folder / "weights.safetensors")
    np.savez(folder / "images.npz", train_images=images[:, 0].numpy(), train_labels=labels.numpy())
    if start is not None:
        save_file(start, folder / "start.safetensors")
    initial = None if start is None else folder / "start.safetensors"
    files = {"weights": folder / "weights.safetensors", "images": folder / "images.npz"}
    spec = released("mine", network=build, initial=initial, **files)
    return obtain(spec, None, torch.device("cpu"), lambda progress: None, lambda notice: None)


def card(victim: Victim) -> Exposure:
    return exposure(victim, seeds=FEW_SEEDS)


@pytest.mark.parametrize("given", [True, False], ids=["given", "drawn from the seed"])
def test_a_start_shows_decay_movement_and_n(tmp_path: Path, given: bool) -> None:
    steps = 60
    start, end = trained(DECAY, steps)
    found = card(own(tmp_path, end, start=start if given else None))

    before, after = (torch.cat([value.flatten() for value in weights.values()]) for weights in (start, end))
    assert found.seed is not None
    assert (found.seed.found, found.seed.seed, found.seed.tried) == (True, SEED, FEW_SEEDS)
    assert found.start is not None
    assert found.start.known_by == ("given" if given else "seed")
    assert found.start.decay == pytest.approx((1 - RATE * DECAY) ** steps, abs=1e-5)
    assert found.start.movement == pytest.approx(float((after - before).norm() / before.norm()))
    assert found.start.images == found.images_shown == N
    assert not found.start.wrong
    assert "the start is not forgotten" in str(found.start_remains) or "at no stationary point" in str(
        found.start_remains
    )


@pytest.mark.parametrize(
    ("part", "images"), [({}, 20), ({"last_layers": 2}, 20), ({"last_layers": 1}, None), ({"lora_rank": 4}, None)]
)
def test_n_is_read_where_the_update_shows_it(part: dict[str, int], images: int | None) -> None:
    training = Ordinary.model_validate({"epochs": 10, "batch_size": 5, "weight_decay": 0, "lr": 0.02} | part)
    layers = MLPSpec(hidden=(60, 50), outputs=10, biases="every", first_layer_scale=None)
    spec = VictimSpec(name="digits-part", dataset="digits", n=20, architecture=layers, training=training)
    victim = victim_of(spec)
    start = card(victim).start
    assert start is not None
    assert (start.images, start.wrong) == (images, False)
    assert start.decay == pytest.approx(victim.card.start_decay)
    assert start.movement == victim.card.movement


def test_a_start_that_a_secret_seed_drew_is_not_read() -> None:
    assert card(victim_of(ORDINARY)).start is not None
    for described in (ORDINARY, BATCH_NORM):
        hidden = victim_of(defended(described, [RandomSeed()]))
        assert hidden.start is not None
        assert card(hidden).start is None


def test_of_a_cnn_the_card_says_what_is_not_covered() -> None:
    found = card(victim_of(BATCH_NORM))
    assert not found.layers
    assert "batch normalisation" in found.uncovered
    assert "batch normalisation" in str(declined_unless_layered(BATCH_NORM))


def test_another_start_is_told_to_be_wrong(tmp_path: Path) -> None:
    _, end = trained(0, 40)
    other, _ = trained(0, 0, seed=5)
    found = card(own(tmp_path, end, start=other))

    assert found.start is not None
    assert found.start.wrong
    assert found.images_shown is None


def test_a_seed_beyond_those_tried_is_not_found(tmp_path: Path) -> None:
    _, end = trained(0, 40, seed=FEW_SEEDS + 7)
    found = card(own(tmp_path, end))

    assert found.seed is not None
    assert not found.seed.found
    assert found.start is None


@pytest.mark.parametrize("biases", [(False, False, False), (True, False, True)], ids=["none", "mixed"])
def test_a_seed_behind_whose_first_layer_other_biases_are_tells_no_start(
    tmp_path: Path, biases: tuple[bool, ...]
) -> None:
    def three() -> nn.Module:
        sizes = (SIDE**2, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES)
        first, second, last = (nn.Linear(*size, bias=bias) for size, bias in zip(sizes, biases, strict=True))
        return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), last)

    torch.manual_seed(SEED)
    victim = own(tmp_path, three().state_dict(), three)
    found = card(victim)
    assert found.seed is not None
    assert (found.seed.found, found.seed.seed, found.start) == (True, SEED, None)
    assert dict(exposure_lines(found))["start"].startswith("cannot be told")
    guess = KKTDelta(KKTDeltaParams(start="guess", seeds=FEW_SEEDS))
    assert guess.doubt(found) == UNLIKE
    shown = attacked(guess, victim)
    assert shown.flags[-1] == UNLIKE
    assert not shown.candidates.any()


def test_a_seed_that_further_weights_speak_against_is_told_with_the_reason(tmp_path: Path) -> None:
    found = card(own(tmp_path, trained(DECAY, 0)[1]))
    assert found.seed is not None
    refuted = found.seed.model_copy(update={"found": False, "seed": 7, "correlation": 0.125, "threshold": 0.124})
    told = dict(exposure_lines(found.model_copy(update={"seed": refuted, "start": None})))
    assert told["seed"].endswith("but further weights do not resemble the draws of 7)")
    below = refuted.model_copy(update={"correlation": 0.1})
    assert "further" not in dict(exposure_lines(found.model_copy(update={"seed": below})))["seed"]


def test_a_converged_network_has_forgotten_its_start(tmp_path: Path) -> None:
    """Exp(-decay rate steps) of the start is left, here exp(-20), less than rounding; the images span what remains."""
    _, end = trained(5e-2, 2000, rate=0.2)
    found = card(own(tmp_path, end))

    assert found.start_remains is None
    assert found.images_shown == N
    assert max(found.imbalance) < 1e-3
    assert found.seed is not None
    assert not found.seed.found


def test_the_second_layer_shows_the_activations_unless_its_start_hides_them(tmp_path: Path) -> None:
    """Planted: eight activations make up the second of three layers, and noise of one size or another lies over it."""
    draw = torch.Generator().manual_seed(0)

    def three() -> nn.Module:
        layers = nn.Linear(SIDE**2, WIDTH, bias=False), nn.ReLU(), nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU()
        return nn.Sequential(nn.Flatten(), *layers, nn.Linear(WIDTH, CLASSES, bias=False))

    weights = {name: value.clone() for name, value in three().state_dict().items()}
    signal = torch.randn(WIDTH, N, generator=draw) @ torch.randn(N, WIDTH, generator=draw)
    noise = torch.randn(WIDTH, WIDTH, generator=draw)
    for place, (size, shown) in enumerate({1e-3: N, 1e3: None}.items()):
        (folder := tmp_path / str(place)).mkdir()
        assert card(own(folder, weights | {"3.weight": signal + size * noise}, three)).activations == shown
    assert card(own(tmp_path, network().state_dict())).activations is None, "the last layer shows a direction a class"


def test_behind_convolutions_the_layer_after_all_of_them_shows_the_spectrum(tmp_path: Path) -> None:
    """Planted: one rank in the layer after two convolutions, another in the layer after that."""
    draw, rank, activations = torch.Generator().manual_seed(0), 4, 7

    def two() -> nn.Module:
        kernels = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 3, 3, bias=False), nn.ReLU()
        hidden = nn.Linear(3 * (SIDE - 4) ** 2, WIDTH, bias=False), nn.ReLU(), nn.Linear(WIDTH, WIDTH, bias=False)
        return nn.Sequential(*kernels, nn.Flatten(), *hidden, nn.ReLU(), nn.Linear(WIDTH, CLASSES, bias=False))

    weights = {name: value.clone() for name, value in two().state_dict().items()}
    for name, planted in {"5.weight": rank, "7.weight": activations}.items():
        h, d = weights[name].shape
        weights[name] = torch.randn(h, planted, generator=draw) @ torch.randn(planted, d, generator=draw)
    found = card(own(tmp_path, weights, two))

    assert found.spectrum is not None
    assert (found.spectrum.rank, found.activations) == (rank, activations)
    assert len(found.imbalance) == 4


def test_neurons_are_balanced_or_not() -> None:
    """Neurons of equal lengths, then each scaled by 2 on one side and 1/2 on the other, which changes no output."""
    draw = torch.Generator().manual_seed(0)
    first, second = torch.randn(5, 7, generator=draw), torch.randn(3, 5, generator=draw)
    bias = torch.randn(5, generator=draw)
    into = (first.square().sum(1) + bias.square()).sqrt()
    second = second * (into / second.norm(dim=0))
    assert balance(Network((first, second), (bias, None))) == pytest.approx([0], abs=1e-6)

    factor = torch.tensor([2.0, 0.5, 2.0, 0.5, 2.0])
    scaled = Network((first * factor[:, None], second / factor), (bias * factor, None))
    inputs = torch.randn(4, 7, generator=draw)
    torch.testing.assert_close(
        scaled.forward(inputs, torch.relu), Network((first, second), (bias, None)).forward(inputs, torch.relu)
    )
    assert balance(scaled) == pytest.approx([(4 - 1 / 4) / (4 + 1 / 4)])


def test_a_convolutions_neuron_is_a_channel() -> None:
    kernels, after = torch.zeros(2, 1, 3, 3), torch.zeros(1, 2 * 4)
    kernels[0, 0, 0, 0], kernels[1, 0, 1, 1] = 3.0, 4.0
    after[0, 2], after[0, 7] = 3.0, 4.0
    assert balance(Network((kernels, after), (None, None), (1, 4, 4))) == [0]
    after[0, 7] = 0.0
    assert balance(Network((kernels, after), (None, None), (1, 4, 4))) == pytest.approx([16 / 34])


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_signal_stands_above_the_edge(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    h, d, rank, scale = 80, 120, 5, 0.01
    noise = scale * torch.randn(h, d, generator=draw)
    signal = torch.randn(h, rank, generator=draw) @ torch.randn(rank, d, generator=draw)
    shown = spectrum(noise + signal, scale)

    assert shown.edge == pytest.approx(scale * (math.sqrt(h) + math.sqrt(d)))
    assert (shown.above, shown.gap, shown.rank) == (rank, True, rank)
    share = float(noise.square().sum() / (noise + signal).square().sum())
    assert shown.left == pytest.approx(share * (h - rank) * (d - rank) / (h * d), rel=0.1)
    assert spectrum(noise, scale).above == 0


def test_torchs_own_layer_is_inside_its_edge() -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        assert spectrum(nn.Linear(200, 100).weight.detach()).above == 0


def test_a_module_without_known_layers_says_so(tmp_path: Path) -> None:
    def normalised() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.LayerNorm(SIDE**2), nn.Linear(SIDE**2, CLASSES))

    found = card(own(tmp_path, normalised().state_dict(), normalised))

    assert not found.layers
    assert (found.spectrum, found.start, found.seed, found.imbalance) == (None, None, None, [])
    assert found.parameters == 2 * SIDE**2 + SIDE**2 * CLASSES + CLASSES
    assert found.equations_per_unknown == pytest.approx(found.parameters / (N * SIDE**2))
    assert found.start_remains == "its layers are not known"


def test_a_linear_model_is_one_sum_of_all_records(tmp_path: Path) -> None:
    def affine() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, CLASSES))

    assert "one sum over all records" in str(card(own(tmp_path, affine().state_dict(), affine)).start_remains)
