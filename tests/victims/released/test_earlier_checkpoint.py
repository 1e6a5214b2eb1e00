"""An earlier checkpoint beside somebody's own model: the sum of the gradients since then, told to attacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked, cosines
from torch import Tensor, nn

from attacks.base import Knowledge
from attacks.cocktail_party import CocktailParty
from bench.plan.capability import tellable
from bench.run.disclosure import view_of
from victims import datasets
from victims.base import Victim
from victims.cache import victim_key
from victims.defences.spec import Noise
from victims.equations.checkpoint import summed_gradients
from victims.errors import UserError
from victims.obtain import obtain
from victims.released import released
from victims.spec import VictimSpec

Optimise = Callable[[nn.Module], torch.optim.Optimizer]
NAMES = {f"{2 * k + 1}.{kind}": f"layers.{k}.{kind}" for k in range(3) for kind in ("weight", "bias")}
"""What attacks call the parameters of `network`."""
EARLIER, END = 56, 60
"""Steps done at the two checkpoints."""


def network(inputs: int = 64, classes: int = 3) -> nn.Module:
    layers = nn.Linear(inputs, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, classes)
    return nn.Sequential(nn.Flatten(), *layers)


def photo_network() -> nn.Module:
    return network(3072, 10)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 3))


def matrices_first(module: nn.Module, **of_biases: Any) -> list[dict[str, Any]]:
    """The parameters as transformers' Trainer groups them; biases have another rate here too, and no decay."""
    matrices, biases = ([one for one in module.parameters() if (one.ndim > 1) == wide] for wide in (True, False))
    return [{"params": matrices}, {"params": biases, "lr": 2e-3, "weight_decay": 0.0} | of_biases]


def adamw(module: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(matrices_first(module), **{"lr": 1e-3, "weight_decay": 1.0} | options)


def sgd(module: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        matrices_first(module, dampening=0.0), **{"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1} | options
    )


def noise(n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).random((n, 8, 8)).astype(np.float32), np.arange(n) % 3


def photos() -> tuple[np.ndarray, np.ndarray]:
    """Two of each of ten classes, (20, 32, 32, 3)."""
    raw = datasets.load("photos", None)
    return raw.train_images[::10].transpose(0, 2, 3, 1), raw.train_labels[::10]


def trained(
    folder: Path,
    optimise: Optimise = sgd,
    build: Callable[[], nn.Module] = network,
    examples: Callable[[], tuple[np.ndarray, np.ndarray]] = noise,
) -> dict[str, Tensor]:
    """The sum of the gradients that an optimiser saw between two points of a training; the files are in the folder.

    A batch is half of the images. What SGD's weight decay adds to a gradient counts.
    """
    images, labels = examples()
    np.savez(folder / "images.npz", train_images=images, train_labels=labels)
    inputs, classes = torch.from_numpy((images - 0.5) / 0.3), torch.from_numpy(labels)
    inputs = inputs.permute(0, 3, 1, 2) if inputs.ndim == 4 else inputs[:, None]
    torch.manual_seed(3)
    model = build()
    optimiser = optimise(model)
    summed = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    decays = {
        id(parameter): group["weight_decay"] * isinstance(optimiser, torch.optim.SGD)
        for group in optimiser.param_groups
        for parameter in group["params"]
    }
    for step in range(END + 1):
        if step in (EARLIER, END):
            torch.save(model.state_dict(), folder / f"weights-{step}.pt")
            torch.save(optimiser.state_dict(), folder / f"optimizer-{step}.pt")
        optimiser.zero_grad()
        batch = torch.arange(len(inputs)).chunk(2)[step % 2]
        F.cross_entropy(model(inputs[batch]), classes[batch]).backward()
        for name, value in model.named_parameters():
            if EARLIER <= step < END and value.grad is not None:
                summed[name] += value.grad + decays[id(value)] * value.detach()
        optimiser.step()
    return summed


def described(folder: Path, build: Callable[[], nn.Module] = network, **options: Any) -> VictimSpec:
    own = {"weights": folder / f"weights-{END}.pt", "optimiser": folder / f"optimizer-{END}.pt"}
    earlier = folder / f"weights-{EARLIER}.pt", folder / f"optimizer-{EARLIER}.pt"
    given = own | {"images": folder / "images.npz", "mean": 0.5, "std": 0.3, "earlier": earlier} | options
    return released("mine", network=build, **given)


def loaded(spec: VictimSpec) -> Victim:
    return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)


def distance(victim: Victim, summed: dict[str, Tensor]) -> float:
    """Between what a victim's checkpoints tell and a true sum, by `network`'s names, both of length 1."""
    found = summed_gradients(*victim.checkpoints)
    assert found.keys() == {NAMES[name] for name in summed}
    one, other = (
        F.normalize(torch.cat([value.double().flatten() for value in every]), dim=0)
        for every in ((found[NAMES[name]] for name in summed), summed.values())
    )
    return float((one - other).norm())


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a file of torch.save holds."""
    held = torch.load(path)
    change(held)
    torch.save(held, path)


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"dampening": 0.5}, {"weight_decay": 0.0}])
def test_of_sgd_the_sum_is_exact_whatever_the_groups(options: dict[str, Any], tmp_path: Path) -> None:
    """Rates, decays and dampening differ by group, and parameters are told apart by shape."""
    summed = trained(tmp_path, lambda module: sgd(module, **options))
    assert distance(loaded(described(tmp_path)), summed) < 1e-3


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("options", [{}, {"amsgrad": True, "betas": (0.9, 0.9)}])
def test_of_adamw_it_is_near_though_groups_decay_differently(
    old: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    """Older torch does not write whether the decay is decoupled."""
    summed = trained(tmp_path, lambda module: adamw(module, **options))
    if old:
        for path in tmp_path.glob("optimizer-*.pt"):
            changed(path, lambda state: [group.pop("decoupled_weight_decay") for group in state["param_groups"]])
    victim = loaded(described(tmp_path))
    assert distance(victim, summed) < 0.01  # a cosine of 0.9999
    assert [state.steps for state in victim.checkpoints] == [0, END - EARLIER]
    assert victim.momentum is not None


def test_adams_decay_is_in_its_gradients(tmp_path: Path) -> None:
    """It is not undone, as AdamW's is: beside the decay the gradients hardly count here."""
    trained(tmp_path, lambda module: torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=100.0))
    victim = loaded(described(tmp_path))
    first = victim.model.state_dict()["layers.0.weight"]
    found = summed_gradients(*victim.checkpoints)["layers.0.weight"]
    assert float(F.cosine_similarity(found.flatten(), first.flatten(), dim=0)) > 0.99


def test_a_parameter_that_was_frozen_on_the_way_has_no_gradient(tmp_path: Path) -> None:
    """Of Adam, which counts the steps of each; torch keeps the state of what was frozen."""
    trained(tmp_path, adamw)
    weights, states = ([tmp_path / f"{kind}-{step}.pt" for step in (EARLIER, END)] for kind in ("weights", "optimizer"))
    then, state = (torch.load(files[0]) for files in (weights, states))
    changed(weights[1], lambda held: held.update({"3.weight": then["3.weight"]}))
    changed(states[1], lambda held: held["state"].update({1: state["state"][1]}))  # the second matrix
    found = summed_gradients(*loaded(described(tmp_path)).checkpoints)
    assert found.keys() == {*NAMES.values()} - {"layers.1.weight"}


def test_a_normalisation_that_is_folded_leaves_sums_over_images(tmp_path: Path) -> None:
    trained(tmp_path, lambda module: torch.optim.AdamW(module.parameters(), weight_decay=0.0), normalised)
    victim = loaded(described(tmp_path, normalised))
    images = torch.from_numpy(victim.split.inputs).flatten(1).double()
    rows = summed_gradients(*victim.checkpoints)["layers.0.weight"]
    assert float((rows - rows @ torch.linalg.pinv(images) @ images).norm() / rows.norm()) < 2e-3


def test_attacks_are_told_of_it_and_find_the_images(tmp_path: Path) -> None:
    trained(tmp_path, adamw, photo_network, photos)
    spec = described(tmp_path, photo_network)
    attack = CocktailParty(CocktailParty.Params(**CocktailParty.variants["checkpoints"]))
    assert attack.supports(spec) is None
    victim = loaded(spec)
    assert int((cosines(victim, attacked(attack, victim).candidates) > 0.97).sum()) >= 19


def test_a_defence_on_release_keeps_it_back_and_so_does_who_has_none(tmp_path: Path) -> None:
    trained(tmp_path)
    spec = described(tmp_path)
    defended = spec.model_copy(update={"defences": (Noise(strength=0.1),)})
    told = [Knowledge.CHECKPOINTS in tellable(one) for one in (spec, defended, described(tmp_path, earlier=None))]
    assert told == [True, False, False]
    assert view_of(loaded(defended), frozenset({Knowledge.CHECKPOINTS}), CPU).checkpoints == ()
    assert loaded(described(tmp_path, earlier=None)).checkpoints == ()


def test_what_the_earlier_files_hold_is_in_the_key_and_where_they_lie_is_not(tmp_path: Path) -> None:
    trained(tmp_path)
    plain = described(tmp_path, earlier=None)
    assert not [field for field in plain.identity()["training"] if field.startswith("earlier")]
    spec = described(tmp_path)
    files = [tmp_path / f"{kind}-{EARLIER}.pt" for kind in ("weights", "optimizer")]
    copies = [shutil.copy(file, tmp_path / f"copy-{file.name}") for file in files]
    assert victim_key(described(tmp_path, earlier=copies), "data") == victim_key(spec, "data")
    others = [(files[0], tmp_path / f"optimizer-{END}.pt"), (tmp_path / f"weights-{END}.pt", files[1])]
    every = [plain, spec, *(described(tmp_path, earlier=pair) for pair in others)]
    assert len({victim_key(one, "data") for one in every}) == 4


def test_files_that_are_missing_or_changed_are_told(tmp_path: Path) -> None:
    trained(tmp_path)
    there = tmp_path / f"weights-{EARLIER}.pt"
    with pytest.raises(UserError, match="there are no weights at"):
        described(tmp_path, earlier=("none.pt", there))
    with pytest.raises(UserError, match="there is no optimiser's state at"):
        described(tmp_path, earlier=(there, "none.pt"))
    with pytest.raises(UserError, match="expected a pair of files"):
        described(tmp_path, earlier=there)
    with pytest.raises(UserError, match="`earlier` needs `optimiser`"):
        described(tmp_path, optimiser=None)
    spec = described(tmp_path)
    for kind in ("optimizer", "weights"):
        path = tmp_path / f"{kind}-{EARLIER}.pt"
        held = path.read_bytes()
        path.write_bytes(held + b"0")
        with pytest.raises(UserError, match=rf"{kind}-{EARLIER}\.pt changed while this ran"):
            loaded(spec)
        path.write_bytes(held)


def test_a_checkpoint_that_is_not_earlier_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, adamw)
    weights, state = tmp_path / f"weights-{END}.pt", tmp_path / f"optimizer-{END}.pt"
    with pytest.raises(UserError, match=r"of no earlier step than .* an earlier checkpoint of the same training"):
        loaded(described(tmp_path, earlier=(weights, state)))
    begun = {"weights": tmp_path / f"weights-{EARLIER}.pt", "optimiser": tmp_path / f"optimizer-{EARLIER}.pt"}
    with pytest.raises(UserError, match="of no earlier step than"):
        loaded(described(tmp_path, earlier=(weights, state), **begun))
    trained(tmp_path, sgd)
    with pytest.raises(UserError, match="tell a sum of gradients that is zero, or not finite"):
        loaded(described(tmp_path, earlier=(weights, state)))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("weights", lambda held: held.pop("5.bias"), "does not fit the network"),
        ("optimizer", lambda held: held["state"][0].update(exp_avg=torch.ones(9, 9)), "no parameter of 9 x 9"),
        ("optimizer", lambda held: held["state"].clear(), "holds no running mean of the gradients"),
        ("optimizer", lambda held: held["state"].pop(2), "is of other parameters than"),
        ("optimizer", lambda held: held["state"][0].pop("exp_avg_sq"), "does not tell 'exp_avg_sq' of 1.weight, as"),
        ("optimizer", lambda held: held["param_groups"][1].pop("eps"), "does not tell 'eps' of 1.bias, as"),
        ("optimizer", lambda held: held["param_groups"][0].pop("amsgrad"), "'amsgrad' of"),  # as NAdam's and RAdam's
        ("optimizer", lambda held: held["param_groups"][0].update(betas=(0.5, 0.9)), "has other betas than"),
        ("optimizer", lambda held: held["state"][0].update(step=torch.tensor(99.0)), "of no earlier step than"),
    ],
)
def test_what_is_of_another_network_training_or_optimiser_is_refused(
    file: str, change: Callable[[Any], object], message: str, tmp_path: Path
) -> None:
    trained(tmp_path, adamw)
    changed(tmp_path / f"{file}-{EARLIER}.pt", change)
    with pytest.raises(UserError, match=message):
        loaded(described(tmp_path))


def test_a_low_rank_update_is_refused(tmp_path: Path) -> None:
    trained(tmp_path)
    factors = [nn.Parameter(torch.ones(2, 64)), nn.Parameter(torch.ones(50, 2))]
    optimiser = torch.optim.AdamW(factors)
    for step in (EARLIER, END):
        sum(one.square().sum() for one in factors).backward()  # type: ignore[union-attr]
        optimiser.step()
        torch.save(optimiser.state_dict(), tmp_path / f"optimizer-{step}.pt")
    with pytest.raises(UserError, match=r"is of a low-rank update, .* leave `earlier` out"):
        loaded(described(tmp_path))
