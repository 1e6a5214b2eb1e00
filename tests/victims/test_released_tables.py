"""Somebody's own model on a table: its rows as inputs, any module that takes rows, and models without rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from attacks.base import Knowledge
from attacks.optimisation.initialisation import balanced_labels
from bench.plan import registry
from bench.plan.prospects import Outlook, prospects
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.cache import victim_key
from victims.errors import UserError
from victims.obtain import obtain
from victims.ordinary.estimators import network_of, weights_of
from victims.released import released
from victims.spec import FrontSpec, MLPSpec

CPU = torch.device("cpu")
COLUMNS = ("age", "bmi", "pressure")
N = 12


def rows(n: int = N, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(draw.normal((50, 25, 120), (15, 4, 20), (n, 3)).round(2), columns=list(COLUMNS))
    return table.assign(sick=np.arange(n) % 2)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def smooth() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Victim]:
    """Describe and load a model on a table."""
    rows().to_csv(tmp_path / "rows.csv", index=False)
    rows(5, seed=1).to_csv(tmp_path / "others.csv", index=False)

    def make(network: Callable[[], nn.Module] = plain, **options: Any) -> Victim:
        torch.manual_seed(0)
        save_file(network().state_dict(), tmp_path / "weights.safetensors")
        given: dict[str, Any] = {"records": tmp_path / "rows.csv", "label": "sick"}
        given |= {"mean": (50, 25, 120), "std": (15, 4, 20)}
        chosen = {name: value for name, value in (given | options).items() if value is not None}
        spec = released("mine", network=network, weights=tmp_path / "weights.safetensors", **chosen)
        return obtain(spec, None, CPU, lambda progress: None, lambda notice: None)

    return make


def test_inputs_are_the_rows_as_the_model_was_given_them(own: Callable[..., Victim], tmp_path: Path) -> None:
    victim = own(held_out=tmp_path / "others.csv")
    values = rows()[list(COLUMNS)].to_numpy()
    expected = (values - [50, 25, 120]) / [15, 4, 20]

    np.testing.assert_allclose(victim.split.inputs.reshape(N, 3), expected, atol=1e-5)
    assert victim.units is not None
    np.testing.assert_allclose(victim.units.rows(victim.images(victim.split.inputs)), values, rtol=1e-5)
    assert victim.split.test_inputs.shape == (5, 1, 1, 3)
    assert isinstance(victim.spec.architecture, MLPSpec)
    assert victim.spec.tabular
    torch.manual_seed(0)
    outputs = plain()(torch.tensor(expected, dtype=torch.float32))
    torch.testing.assert_close(victim.model(torch.from_numpy(victim.split.inputs)), outputs, atol=1e-5, rtol=1e-5)


def test_a_module_that_takes_rows_is_given_rows(own: Callable[..., Victim]) -> None:
    victim = own(smooth)
    assert isinstance(victim.spec.architecture, FrontSpec)
    torch.manual_seed(0)
    module = smooth().eval()
    inputs = torch.from_numpy(victim.split.inputs)
    torch.testing.assert_close(victim.model(inputs), module(inputs.reshape(N, 3))[:, 0])
    view = view_of(victim, frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}), CPU)
    network = view.architecture.build()
    network.load_state_dict(view.weights)
    torch.testing.assert_close(network(inputs), victim.model(inputs))


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), MLPClassifier((8,), max_iter=20, random_state=0)], ids=["linear", "mlp"]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_answers_as_scikit_learn_does(estimator: Any, tmp_path: Path) -> None:
    rows().to_csv(tmp_path / "rows.csv", index=False)
    scaler = StandardScaler().fit(rows()[list(COLUMNS)].to_numpy())
    estimator.fit(scaler.transform(rows()[list(COLUMNS)].to_numpy()), rows()["sick"])
    spec = released(
        "mine",
        network=lambda: network_of(estimator),
        weights=weights_of(estimator, tmp_path / "weights.safetensors"),
        records=tmp_path / "rows.csv",
        label="sick",
        mean=scaler.mean_,
        std=scaler.scale_,
    )
    victim = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)
    probabilities = victim.model(torch.from_numpy(victim.split.inputs)).sigmoid().detach().numpy()
    expected = estimator.predict_proba(scaler.transform(rows()[list(COLUMNS)].to_numpy()))[:, 1]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)


def test_other_held_out_rows_are_another_victim(own: Callable[..., Victim], tmp_path: Path) -> None:
    keys = {victim_key(own(**options).spec, "data") for options in ({}, {"held_out": tmp_path / "others.csv"})}
    moved = tmp_path / "moved.csv"
    (tmp_path / "others.csv").rename(moved)
    assert victim_key(own(held_out=moved).spec, "data") in keys, "the content counts, not the path"
    assert len(keys) == 2


def test_without_rows_the_columns_are_named(own: Callable[..., Victim]) -> None:
    """And the owner may tell the class balance, which no attack is told else."""
    told = own(records=None, label=None, columns=COLUMNS, n_trained=9, class_balance=(0.25, 0.75))
    assert (told.spec.n, told.spec.n_trained, told.input_shape) == (0, 9, (1, 1, 3))
    assert told.units is not None
    one_deviation_up = torch.ones(1, 1, 1, 3).numpy()
    np.testing.assert_allclose(told.units.rows(told.images(one_deviation_up)), [[65, 29, 140]], rtol=1e-5)
    view = view_of(told, frozenset({Knowledge.CLASS_BALANCE}), CPU)
    assert view.class_balance == (0.25, 0.75)
    silent = own(records=None, label=None, columns=COLUMNS, n_trained=9)
    with pytest.raises(LookupError, match="class balance"):
        view_of(silent, frozenset({Knowledge.CLASS_BALANCE}), CPU)
    assert victim_key(told.spec, "") != victim_key(silent.spec, "")


def test_shares_that_were_rounded_give_every_candidate_a_label(own: Callable[..., Victim]) -> None:
    told = own(records=None, label=None, columns=COLUMNS, n_trained=9, class_balance=(0.333, 0.666))
    balance = view_of(told, frozenset({Knowledge.CLASS_BALANCE}), CPU).class_balance
    assert sum(balance) == pytest.approx(1, abs=1e-12)
    assert len(balanced_labels(1000, balance)) == 1000


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "columns that the model does not take": ({"columns": ("age", "bmi"), "mean": 0, "std": 1}, "inputs of 2 columns"),
    "too few numbers": ({"mean": (50, 25)}, "expected a number, or 3, one a column"),
    "a word for a mean": ({"mean": "imagenet"}, "expected a number, or 3, one a column, or 'training'"),
    "a number in quotes": ({"mean": "0.5"}, "mean = '0.5'; expected a number"),
    "a word for a deviation": ({"std": "training"}, "std = 'training'; expected a number, above 0"),
    "no deviation": ({"std": (15, 0, 20)}, "expected a number, above 0, or 3, one a column"),
    "images too": ({"images": "images.npz"}, "give `images` or `records`, not both"),
    "no CSV": ({"records": "rows.xlsx"}, "expected a CSV file"),
    "held-out rows alone": ({"records": None, "held_out": "others.csv"}, "`held_out` goes with `records`"),
    "columns with a shape": ({"records": None, "columns": COLUMNS, "shape": (1, 1, 3)}, "no `shape`"),
    "no number of rows": ({"records": None, "columns": COLUMNS}, "no rows are given; give n_trained"),
    "more rows than trained on": ({"n_trained": 3}, "holds 12 training rows, more than n_trained = 3"),
    "a balance that the rows tell": ({"class_balance": (0.5, 0.5)}, "tells the class balance"),
    "no shares": (
        {"records": None, "columns": COLUMNS, "n_trained": 9, "class_balance": (1, 1)},
        "expected shares that sum to 1",
    ),
    "three shares": (
        {"records": None, "columns": COLUMNS, "n_trained": 9, "class_balance": (0.5, 0.25, 0.25)},
        "class_balance has 3 shares for 2 classes",
    ),
}


@pytest.mark.parametrize(("options", "told"), BAD.values(), ids=BAD)
def test_a_mistake_is_told_in_one_line(own: Callable[..., Victim], options: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told.replace("(", r"\(").replace("`", "`")) as raised:
        own(**options)
    assert "\n" not in str(raised.value)


def test_a_class_balance_that_is_told_opens_the_attacks_that_need_it(own: Callable[..., Victim]) -> None:
    """Without rows nothing else tells it, and nothing is assumed in its place."""
    without = {"records": None, "label": None, "columns": COLUMNS, "n_trained": 9}
    outlooks = {}
    for balance in ((), (0.25, 0.75)):
        spec = own(**without, class_balance=balance).spec
        found = {one.name: one for one in prospects(registry.attacks().items.values(), spec, None)}
        outlooks[balance] = (found["inversion"].outlook, found["inversion"].reason)
    assert outlooks[()] == (Outlook.DECLINED, "only rows would tell it the class balance")
    assert outlooks[0.25, 0.75] == (Outlook.OPEN, "")
