"""Relative descent: it ends where python-picard ends, goes down, and takes no step that is not finite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from picard import picard
from picard.densities import Tanh
from torch import Tensor

from attacks.optimisation.relative import FLAT, descended

SOURCES, LENGTH = 8, 4000


@dataclass(frozen=True)
class Logistic:
    """The density of a response is proportional to 1 / cosh(s), as picard's `Tanh`; nan below `broken_below`."""

    broken_below: float = -float("inf")

    def cost(self, rows: Tensor) -> Tensor:
        """Return the sum over rows of the mean of -log p."""
        cost = (rows.abs() + F.softplus(-2 * rows.abs())).mean(1).sum()
        return cost if float(cost) > self.broken_below else cost * torch.nan

    def score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return its derivative, and the mean of the derivative of that."""
        return rows.tanh(), (1 - rows.tanh().square()).mean(1)


def mixed() -> Tensor:
    """Return white mixtures (r, T) of sparse rows."""
    drawn = np.random.default_rng(0).laplace(size=(SOURCES, LENGTH))
    rows = torch.from_numpy(drawn)
    mixing = torch.randn(SOURCES, SOURCES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values, vectors = torch.linalg.eigh(mixing @ rows @ rows.T @ mixing.T / LENGTH)
    return (vectors / values.sqrt()).T @ mixing @ rows


def likelihood_lost(rows: Tensor, mixture: Tensor) -> float:
    """Return what is minimised."""
    return float(Logistic().cost(mixture @ rows) - torch.linalg.slogdet(mixture).logabsdet)


def test_it_ends_where_picard_ends() -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    found, taken, settled = descended(Logistic(), rows, begun, 200)
    _, theirs, _ = picard(rows.numpy(), fun=Tanh(), ortho=False, whiten=False, centering=False, w_init=begun.numpy())

    assert settled
    assert 3 < taken < 60
    components = found @ rows
    gradient = components.tanh() @ components.T / LENGTH - begun
    assert float(gradient.abs().max()) < FLAT
    assert np.abs(found.numpy() - theirs).max() < 20 * FLAT
    steeper = descended(Logistic(), rows, begun, taken - 1)[0] @ rows
    assert float((steeper.tanh() @ steeper.T / LENGTH - begun).abs().max()) >= FLAT


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_more_steps_are_likelier(steps: int) -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    fewer, taken, settled = descended(Logistic(), rows, begun, steps)
    more, _, _ = descended(Logistic(), rows, begun, steps + 1)

    assert (taken, settled) == (steps, False)
    assert likelihood_lost(rows, more) < likelihood_lost(rows, fewer) < likelihood_lost(rows, begun)


def test_it_remembers_how_the_gradient_bends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory it needs more steps where rows are too short to be independent."""
    rows, begun = mixed()[:, :100], torch.eye(SOURCES, dtype=torch.float64)
    _, taken, _ = descended(Logistic(), rows, begun, 500)
    monkeypatch.setattr("attacks.optimisation.relative.MEMORY", 0)
    _, forgetful, _ = descended(Logistic(), rows, begun, 500)
    assert taken < forgetful


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    found, _, _ = descended(Logistic(broken_below=float(Logistic().cost(rows)) - 0.01), rows, begun, 50)
    assert found.isfinite().all()
    assert likelihood_lost(rows, found) < likelihood_lost(rows, begun)
