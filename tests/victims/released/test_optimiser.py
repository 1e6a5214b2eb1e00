"""The optimiser's state beside somebody's own model: read, told apart by parameter, and handed to attacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked
from torch import Tensor, nn

from attacks.base import Knowledge
from attacks.cocktail_party import CocktailParty
from bench.plan.capability import tellable
from victims.base import Victim
from victims.errors import UserError
from victims.obtain import obtain
from victims.released import released
from victims.released.optimiser import read_state

N = 6
MATRICES_FIRST = "matrices, then biases"


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 3))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 3))


def groups(module: nn.Module, kind: str) -> list[dict[str, Any]]:
    """The parameters as they are, or as transformers' Trainer groups them; without the first weights, if frozen."""
    if kind == "first weights frozen":
        next(iter(module.parameters())).requires_grad_(False)
    trained = [one for one in module.parameters() if one.requires_grad]
    if kind != MATRICES_FIRST:
        return [{"params": trained}]
    return [{"params": [p for p in trained if p.ndim > 1]}, {"params": [p for p in trained if p.ndim < 2]}]


def tuned(
    folder: Path, build: Callable[[], nn.Module] = network, kind: str = ""
) -> tuple[nn.Module, torch.optim.AdamW]:
    """A network that AdamW tunes on a few images, and its optimiser; the images and the weights are in the folder."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((N, 8, 8)).astype(np.float32), np.arange(N) % 3
    np.savez(folder / "images.npz", train_images=images, train_labels=labels)
    torch.manual_seed(3)
    model = build()
    optimiser = torch.optim.AdamW(groups(model, kind), lr=1e-2)
    for _ in range(8):
        optimiser.zero_grad()
        inputs = torch.from_numpy((images[:, None] - 0.5) / 0.3)
        F.cross_entropy(model(inputs), torch.from_numpy(labels)).backward()
        optimiser.step()
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save(optimiser.state_dict(), folder / "optimizer.pt")
    return model, optimiser


def loaded(folder: Path, build: Callable[[], nn.Module] = network, optimiser: str = "optimizer.pt") -> Victim:
    files = {"weights": folder / "weights.pt", "images": folder / "images.npz", "optimiser": folder / optimiser}
    spec = released("mine", network=build, mean=0.5, std=0.3, **files)  # type: ignore[arg-type]
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


@pytest.mark.parametrize("kind", ["", MATRICES_FIRST, "first weights frozen"])
def test_means_are_told_apart_by_parameter_whatever_the_groups(kind: str, tmp_path: Path) -> None:
    model, optimiser = tuned(tmp_path, kind=kind)
    found = read_state(tmp_path / "optimizer.pt").named(network())
    expected = {name: value for name, value in model.named_parameters() if value.requires_grad}
    assert found.keys() == expected.keys()
    for name, parameter in expected.items():
        assert torch.equal(found[name], optimiser.state[parameter]["exp_avg"])


@pytest.mark.parametrize("key", ["optimizer", "optimizer_state_dict", "optimizer_states"])
def test_a_checkpoint_of_the_whole_training_holds_it_too(key: str, tmp_path: Path) -> None:
    model, optimiser = tuned(tmp_path)
    state: Any = optimiser.state_dict()
    torch.save({"epoch": 3, key: [state] if key.endswith("s") else state}, tmp_path / "last.pt")
    assert read_state(tmp_path / "last.pt").named(model).keys() == dict(model.named_parameters()).keys()


def test_momentum_of_sgd_is_read(tmp_path: Path) -> None:
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 1, 8, 8)).sum().backward()
    optimiser.step()
    torch.save(optimiser.state_dict(), tmp_path / "sgd.pt")
    found = read_state(tmp_path / "sgd.pt").named(model)
    for name, value in model.named_parameters():
        assert value.grad is not None
        assert torch.equal(found[name], value.grad)


def parallel(one: Tensor, other: Tensor) -> bool:
    return float(F.cosine_similarity(one.flatten(), other.flatten(), dim=0)) > 1 - 1e-5


def test_attacks_are_told_of_it_and_find_the_images(tmp_path: Path) -> None:
    model, optimiser = tuned(tmp_path)
    victim = loaded(tmp_path)
    assert victim.momentum is not None
    first = dict(model.named_parameters())["1.weight"]
    assert parallel(victim.momentum["layers.0.weight"], optimiser.state[first]["exp_avg"])
    sizes = {name: float(value.norm()) for name, value in victim.momentum.items()}
    own = {name: float(optimiser.state[value]["exp_avg"].norm()) for name, value in model.named_parameters()}
    assert sizes["layers.0.weight"] / sizes["layers.2.bias"] == pytest.approx(own["1.weight"] / own["5.bias"], rel=1e-3)
    assert Knowledge.MOMENTUM in tellable(victim.spec)
    attack = CocktailParty(CocktailParty.Params(start="momentum"))
    assert attack.supports(victim.spec) is None
    assert len(attacked(attack, victim).candidates) == N


def test_a_normalisation_that_is_folded_leaves_sums_over_images(tmp_path: Path) -> None:
    tuned(tmp_path, normalised)
    victim = loaded(tmp_path, normalised)
    assert victim.momentum is not None
    images = torch.from_numpy(victim.split.inputs).flatten(1).double()
    rows = victim.momentum["layers.0.weight"].double()
    assert float((rows - rows @ torch.linalg.pinv(images) @ images).norm() / rows.norm()) < 1e-4


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([1, 2], "holds no optimiser's state"),
        ({"state": {0: 3}, "param_groups": [{"params": [0]}]}, "holds no optimiser's state"),
        ({"state": {}, "param_groups": [{"lr": 1}]}, "holds no optimiser's state"),
        ({"optimizer_states": 2 * [{"state": {}, "param_groups": []}]}, "holds the states of 2 optimisers"),
        (
            {"state": {0: {"momentum_buffer": torch.ones(50, 64), "square_avg": 1}}, "param_groups": [{"params": [0]}]},
            "holds no running mean",
        ),
        (
            {"state": {0: {"exp_avg": torch.full((50, 64), float("nan"))}}, "param_groups": [{"params": [0]}]},
            "running mean that is zero, or not finite",
        ),
        ({"state": {}, "param_groups": [{"params": [0]}]}, "holds no running mean of the gradients: exp_avg or"),
        ({"state": {0: {"exp_avg": torch.ones(9, 9)}}, "param_groups": [{"params": [0]}]}, "no parameter of 9 x 9"),
        (
            {"state": {0: {"exp_avg": torch.zeros(50, 64)}}, "param_groups": [{"params": [0]}]},
            "running mean that is zero, or not finite",
        ),
    ],
)
def test_what_is_none_of_this_network_is_refused_in_a_line(held: Any, message: str, tmp_path: Path) -> None:
    tuned(tmp_path)
    torch.save(held, tmp_path / "other.pt")
    with pytest.raises(UserError, match=message):
        loaded(tmp_path, optimiser="other.pt")


def test_a_file_that_is_missing_broken_or_changed_is_told(tmp_path: Path) -> None:
    tuned(tmp_path)
    with pytest.raises(UserError, match="there is no optimiser's state at"):
        loaded(tmp_path, optimiser="none.pt")
    (tmp_path / "broken.pt").write_text("nothing")
    with pytest.raises(UserError, match="is no torch file of tensors alone"):
        loaded(tmp_path, optimiser="broken.pt")
    files = {"weights": tmp_path / "weights.pt", "images": tmp_path / "images.npz"}
    spec = released("mine", network=network, mean=0.5, std=0.3, optimiser=tmp_path / "optimizer.pt", **files)
    (tmp_path / "optimizer.pt").write_bytes((tmp_path / "optimizer.pt").read_bytes() + b"0")
    with pytest.raises(UserError, match="changed while this ran"):
        obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def square() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


@pytest.mark.parametrize("names", [False, True])
def test_parameters_that_are_frozen_do_not_pass_for_others_of_their_shape(names: bool, tmp_path: Path) -> None:
    """All are in the optimiser, as people write it, and two have no state; or the state has the names of the others."""
    model = square()
    frozen = [name for name, _ in model.named_parameters() if name.startswith("1.")]
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    kept = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(kept if names else model.parameters())
    model(torch.ones(2, 1, 8, 8)).square().sum().backward()
    optimiser.step()
    torch.save(optimiser.state_dict(), tmp_path / "frozen.pt")
    found = read_state(tmp_path / "frozen.pt").named(square())
    assert found.keys() == dict(kept).keys()
    assert all(torch.equal(found[name], optimiser.state[value]["exp_avg"]) for name, value in kept)


def test_where_shapes_do_not_tell_parameters_apart_it_says_so(tmp_path: Path) -> None:
    model = square()
    optimiser = torch.optim.AdamW(list(model.parameters())[2:])
    model(torch.ones(2, 1, 8, 8)).square().sum().backward()
    optimiser.step()
    torch.save(optimiser.state_dict(), tmp_path / "part.pt")
    with pytest.raises(UserError, match="has 1 of the 2 parameters of 64 x 64; which were trained"):
        read_state(tmp_path / "part.pt").named(square())


def without_biases() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False))


def test_a_network_without_biases_is_not_taken_for_an_update(tmp_path: Path) -> None:
    tuned(tmp_path, without_biases)
    victim = loaded(tmp_path, without_biases)
    assert victim.momentum is not None
    assert victim.momentum.keys() == {"layers.0.weight", "layers.1.weight"}


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_size_of_the_means_says_nothing(scale: float, tmp_path: Path) -> None:
    model, optimiser = tuned(tmp_path)
    for moments in optimiser.state.values():
        moments["exp_avg"] *= scale
    torch.save(optimiser.state_dict(), tmp_path / "scaled.pt")
    victim, first = loaded(tmp_path, optimiser="scaled.pt"), dict(model.named_parameters())["1.weight"]
    assert victim.momentum is not None
    assert parallel(victim.momentum["layers.0.weight"], optimiser.state[first]["exp_avg"] / scale)


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 8])
def test_of_a_low_rank_update_that_is_merged_the_mean_for_a_of_the_first_layer_is_told(
    rank: int, head: bool, tmp_path: Path
) -> None:
    """Hu et al. 2022, eq. 3, as peft trains it: A and B of each layer in turn, and perhaps a head as a whole."""
    tuned(tmp_path)
    factors = [
        nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(k)))
        for k, (h, d) in enumerate([(50, 64), (50, 50), (3, 50)])
        for shape in ((rank, d), (h, rank))
    ]
    factors += [nn.Parameter(torch.ones(3, 50)), nn.Parameter(torch.ones(3))] if head else []
    optimiser = torch.optim.AdamW(factors)
    sum(one.square().sum() for one in factors).backward()  # type: ignore[union-attr]
    optimiser.step()
    torch.save(optimiser.state_dict(), tmp_path / "adapter.pt")
    victim = loaded(tmp_path, optimiser="adapter.pt")
    assert victim.momentum is not None
    assert victim.momentum.keys() == {"layers.0.weight.down"}
    assert torch.equal(victim.momentum["layers.0.weight.down"], optimiser.state[factors[0]]["exp_avg"])
