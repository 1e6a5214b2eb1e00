"""All records but one, on linear models: at the optimum every record comes out; others are not tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

from attacks.base import Threat
from bench.experiments.audit.findings import attempts
from bench.experiments.audit.last_record import LastRecords, _nearest_others, attacked
from bench.experiments.audit.scores import Scored
from bench.plan import registry
from bench.plan.last_record import NoLinearModelError, linear_model
from bench.plan.prospects import Outlook, Prospect, prospects
from bench.run.setup import Setup
from bench.store.records import Status
from victims.base import Victim
from victims.obtain import obtain
from victims.ordinary.estimators import network_of, weights_of
from victims.released import released
from victims.spec import VictimSpec

N, COLUMNS = 30, 6
EXACT = {"tol": 1e-12, "max_iter": 10_000}


class Heard:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        self.steps.append(step)

    def notice(self, text: str) -> None: ...


def table(classes: int, n: int = N) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    rows = pd.DataFrame(draw.standard_normal((n, COLUMNS)), columns=[f"x{place}" for place in range(COLUMNS)])
    return rows.assign(label=np.arange(n) % classes)


def described(folder: Path, rows: pd.DataFrame, network: Callable[[], nn.Module], **options: Any) -> VictimSpec:
    rows.to_csv(folder / "rows.csv", index=False)
    return released(
        "mine", network=network, weights=folder / "weights.safetensors", records=folder / "rows.csv", **options
    )


def fitted(folder: Path, estimator: LogisticRegression, classes: int = 2, **options: Any) -> VictimSpec:
    rows = table(classes)
    estimator.fit(rows.drop(columns="label").to_numpy(), rows["label"])
    weights_of(estimator, folder / "weights.safetensors")
    return described(folder, rows, lambda: network_of(estimator), **options)


def closed_form(spec: VictimSpec) -> Prospect:
    (found,) = (one for one in prospects(registry.attacks().items.values(), spec, None) if one.attack.name == "glm")
    return found


def try_all(spec: VictimSpec, folder: Path, seconds: float = 100, reporter: Heard | None = None) -> LastRecords:
    victim = obtain(spec, None, torch.device("cpu"), lambda progress: None, lambda notice: None)
    assert isinstance(victim, Victim)
    setup = Setup(folder / "results", None, None, "cpu", twins=False, jobs=0)
    return attacked(closed_form(spec), victim, setup, reporter or Heard(), seconds)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_at_the_optimum_every_record_comes_out(tmp_path: Path, classes: int, strength: float) -> None:
    """The strength of the penalty is not told: it is read off the weights and the records."""
    made = try_all(fitted(tmp_path, LogisticRegression(C=strength, **EXACT), classes), tmp_path)
    assert made.hits is not None
    assert made.untried == 0
    assert bool(made.hits.good.all())
    assert made.hits.similarity.tolist() == [1.0] * N
    assert not made.hits.null_good.any()
    assert set(made.hits.nulls) == {"null_mean_image", "nearest known record", "null_shuffled"}


def test_images_that_are_alike_are_reconstructed_where_they_are_nearer_than_their_like(tmp_path: Path) -> None:
    """Every digit has another that passes for it by SSIM: the nearest of those that the attacker has is the measure."""
    pixels, labels = load_digits(n_class=2, return_X_y=True)
    pixels, labels = pixels[:N] / 16, labels[:N]
    estimator = LogisticRegression(tol=1e-10, max_iter=10_000).fit(pixels, labels)
    weights_of(estimator, tmp_path / "weights.safetensors")
    images = pixels.reshape(N, 8, 8, 1).astype(np.float32)
    given = {"train_images": images, "train_labels": labels, "test_images": images[:0], "test_labels": labels[:0]}
    np.savez(tmp_path / "images.npz", **given)
    files = {"weights": tmp_path / "weights.safetensors", "images": tmp_path / "images.npz"}
    spec = released("mine", network=lambda: network_of(estimator), **files)
    hits = try_all(spec, tmp_path).hits
    assert hits is not None
    assert bool(hits.good.all())
    assert float(hits.similarity.min()) > 0.999
    nearest = hits.nulls["nearest known record"]
    assert not nearest.good.any()
    assert int((nearest.similarity > 0.4).sum()) > N / 2
    scored = Scored(torch.from_numpy(images), torch.from_numpy(labels), torch.zeros(N), None, {"glm": hits})
    (told,) = attempts([closed_form(spec)], {}, {"glm": LastRecords(hits, 1.0)}, scored)
    assert (told.found, told.beyond_chance) == (N, True)


def test_the_nearest_other_record_is_never_the_record_itself() -> None:
    """Also beyond the rows that are compared at once."""
    rows = torch.arange(1500.0)[:, None] ** 2
    nearest = _nearest_others(rows)
    assert nearest[0] == 1
    assert torch.equal(nearest[1:], torch.arange(1499)), "gaps grow, so the one before is nearest"


def test_a_penalty_on_the_intercept_is_read_off_too(tmp_path: Path) -> None:
    """Torch's weight decay is on the bias as well: the minimum by L-BFGS in float64, from rows with shifted labels."""
    rows = table(2).assign(label=(np.arange(N) % 4 == 0).astype(int))
    inputs = torch.tensor(rows.drop(columns="label").to_numpy())
    labels = torch.tensor(rows["label"].to_numpy(), dtype=torch.float64)
    module = nn.Linear(COLUMNS, 1).double()
    optimiser = torch.optim.LBFGS(
        module.parameters(), max_iter=500, tolerance_grad=1e-12, line_search_fn="strong_wolfe"
    )

    def objective() -> torch.Tensor:
        optimiser.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(module(inputs)[:, 0], labels, reduction="sum")
        loss = loss + 0.5 * sum(parameter.square().sum() for parameter in module.parameters())
        loss.backward()
        return loss

    optimiser.step(objective)
    save_file({name: value.float() for name, value in module.state_dict().items()}, tmp_path / "weights.safetensors")
    made = try_all(described(tmp_path, rows, lambda: nn.Linear(COLUMNS, 1)), tmp_path)
    assert made.hits is not None
    assert bool(made.hits.good.all())


def test_weights_that_are_no_optimum_show_no_record(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_file(nn.Linear(COLUMNS, 2).state_dict(), tmp_path / "weights.safetensors")
    made = try_all(described(tmp_path, table(2), lambda: nn.Linear(COLUMNS, 2)), tmp_path)
    assert made.hits is not None
    assert not made.hits.good.any()


def test_a_record_that_is_there_twice_is_none_that_is_not_known(tmp_path: Path) -> None:
    rows = table(2)
    rows.loc[4] = rows.loc[2]
    estimator = LogisticRegression(**EXACT).fit(rows.drop(columns="label").to_numpy(), rows["label"])
    weights_of(estimator, tmp_path / "weights.safetensors")
    made = try_all(described(tmp_path, rows, lambda: network_of(estimator)), tmp_path)
    assert made.hits is not None
    assert made.hits.good.tolist() == [place not in (2, 4) for place in range(N)]


def test_its_time_ends_it_and_what_was_not_tried_is_counted(tmp_path: Path) -> None:
    heard = Heard()
    made = try_all(fitted(tmp_path, LogisticRegression(**EXACT)), tmp_path, seconds=-1, reporter=heard)
    assert made.untried == N
    assert made.hits is not None
    assert not made.hits.good.any()
    assert heard.steps == []


def test_an_attack_that_fails_is_told_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, view: object, ctx: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(registry.attacks().items["glm"], "reconstruct", broken)
    made = try_all(fitted(tmp_path, LogisticRegression(**EXACT)), tmp_path)
    assert made.hits is None
    assert made.failure is not None
    assert (made.failure.status, made.failure.reason) == (Status.ERROR, "ValueError: no luck")


def test_it_is_tried_on_linear_models_of_which_all_records_are_given(tmp_path: Path) -> None:
    open_to_it = closed_form(fitted(tmp_path, LogisticRegression()))
    assert (open_to_it.outlook, open_to_it.threat) == (Outlook.OPEN, Threat.RECORDS)
    some = closed_form(fitted(tmp_path, LogisticRegression(), n_trained=N + 1))
    assert (some.outlook, some.reason) == (
        Outlook.DECLINED,
        f"it needs all {N + 1} training records, and {N} are given",
    )
    torch.manual_seed(0)
    deep = lambda: nn.Sequential(nn.Linear(COLUMNS, 4), nn.ReLU(), nn.Linear(4, 2))  # noqa: E731
    save_file(deep().state_dict(), tmp_path / "weights.safetensors")
    network = closed_form(described(tmp_path, table(2), deep))
    assert network.reason == "of a network it needs the training itself, to repeat it, which an audit cannot"
    with pytest.raises(NoLinearModelError):
        linear_model(described(tmp_path, table(2), deep))
    spec = fitted(tmp_path, LogisticRegression())
    others = {one.attack.name: one for one in prospects(registry.attacks().items.values(), spec, None)}
    assert others["reconn-linear"].reason == "it needs the training itself, to repeat it, which an audit cannot"
