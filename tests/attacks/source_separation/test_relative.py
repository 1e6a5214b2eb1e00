"""Relative descent: it ends where python-picard ends, goes down, and takes no step that is not finite."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from picard import picard
from picard.densities import Tanh
from torch import Tensor

from attacks.source_separation import mixed as mixed_rows
from attacks.source_separation import relative
from attacks.source_separation.mixed import Blocks, Workspace, by_themselves
from attacks.source_separation.relative import FLAT, descended

SOURCES, LENGTH = 8, 4000


@dataclass(frozen=True)
class Logistic:
    """The density of a response is proportional to 1 / cosh(s), as picard's `Tanh`; nan below `broken_below`."""

    broken_below: float = -float("inf")

    def evaluate(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return how likely rows are."""
        (rows,) = blocks[0]
        costs = (rows.abs() + F.softplus(-2 * rows.abs())).mean(1)
        broken = costs * torch.nan if float(costs.sum()) < self.broken_below else costs
        rows.tanh_()
        return broken

    def curvature(self, energies: Tensor) -> Tensor:
        """Return the derivative of the score."""
        return 1 - energies.sqrt().tanh().square()


def mixed() -> Tensor:
    """Return white mixtures (r, T) of sparse rows."""
    drawn = np.random.default_rng(0).laplace(size=(SOURCES, LENGTH))
    rows = torch.from_numpy(drawn)
    mixing = torch.randn(SOURCES, SOURCES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values, vectors = torch.linalg.eigh(mixing @ rows @ rows.T @ mixing.T / LENGTH)
    return (vectors / values.sqrt()).T @ mixing @ rows


def likelihood_lost(rows: Tensor, mixture: Tensor) -> float:
    """Return what is minimised."""
    costs = Logistic().evaluate(((mixture @ rows)[None],), Workspace())
    return float(costs.sum() - torch.linalg.slogdet(mixture).logabsdet)


def descend(rows: Tensor, begun: Tensor, steps: int, logistic: Logistic | None = None) -> tuple[Tensor, int, bool]:
    return descended(logistic or Logistic(), by_themselves(rows), begun, steps)


def test_it_ends_where_picard_ends() -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    found, taken, settled = descend(rows, begun, 200)
    _, theirs, _ = picard(rows.numpy(), fun=Tanh(), ortho=False, whiten=False, centering=False, w_init=begun.numpy())

    assert settled
    assert 3 < taken < 60
    components = found @ rows
    gradient = components.tanh() @ components.T / LENGTH - begun
    assert float(gradient.abs().max()) < FLAT
    assert np.abs(found.numpy() - theirs).max() < 20 * FLAT
    steeper = descend(rows, begun, taken - 1)[0] @ rows
    assert float((steeper.tanh() @ steeper.T / LENGTH - begun).abs().max()) >= FLAT


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_more_steps_are_likelier(steps: int) -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    fewer, taken, settled = descend(rows, begun, steps)
    more, _, _ = descend(rows, begun, steps + 1)

    assert (taken, settled) == (steps, False)
    assert likelihood_lost(rows, more) < likelihood_lost(rows, fewer) < likelihood_lost(rows, begun)


def test_it_ends_where_steps_gain_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative, "FLAT", 0.0)
    rows, begun = mixed()[:, :100], torch.eye(SOURCES, dtype=torch.float64)
    found, taken, settled = descend(rows, begun, 200)
    assert settled
    assert taken % relative.REFRESH == 0
    further, _, _ = descend(rows, found, relative.REFRESH - 1)
    assert 0 <= likelihood_lost(rows, found) - likelihood_lost(rows, further) < relative.LEAST_GAIN * SOURCES
    before, _, _ = descend(rows, begun, taken - 2 * relative.REFRESH)
    later, _, _ = descend(rows, begun, taken - relative.REFRESH)
    assert likelihood_lost(rows, before) - likelihood_lost(rows, later) > relative.LEAST_GAIN * SOURCES


@pytest.mark.parametrize(("steps", "times"), [(1, 1), (10, 1), (11, 2), (25, 3)])
def test_the_curvature_is_computed_anew_every_ten_steps(steps: int, times: int) -> None:
    calls = []

    class Counting(Logistic):
        def curvature(self, energies: Tensor) -> Tensor:
            """Return the derivative of the score, and count."""
            calls.append(energies.shape)
            return super().curvature(energies)

    rows, begun = mixed()[:, :100], torch.eye(SOURCES, dtype=torch.float64)
    assert descend(rows, begun, steps, Counting())[1] == steps
    assert calls == [(SOURCES, 100)] * times


def test_it_remembers_how_the_gradient_bends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory it needs more steps where rows are too short to be independent."""
    rows, begun = mixed()[:, :100], torch.eye(SOURCES, dtype=torch.float64)
    _, taken, _ = descend(rows, begun, 500)
    monkeypatch.setattr(relative, "MEMORY", 0)
    _, forgetful, _ = descend(rows, begun, 500)
    assert taken < forgetful


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    found, _, _ = descend(rows, begun, 50, Logistic(broken_below=likelihood_lost(rows, begun) - 0.01))
    assert found.isfinite().all()
    assert likelihood_lost(rows, found) < likelihood_lost(rows, begun)


def test_the_likelihood_of_rows_one_by_one_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, begun = mixed(), torch.eye(SOURCES, dtype=torch.float64)
    together, *_ = descend(rows, begun, 5)
    monkeypatch.setattr(mixed_rows, "CACHED", 1)
    one_by_one, *_ = descend(rows, begun, 5)
    assert torch.allclose(one_by_one, together, atol=1e-12)


def test_a_first_step_is_newtons_where_rows_are_independent() -> None:
    """The preconditioner is then the second derivative, so that one step leaves little of what is turned."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.from_numpy(np.random.default_rng(1).laplace(size=(SOURCES, 100_000)))
    best, *_ = descend(rows, torch.eye(SOURCES, dtype=torch.float64), 50)
    turned = best + 0.01 * torch.randn(SOURCES, SOURCES, generator=generator, dtype=torch.float64) @ best
    after, taken, _ = descend(rows, turned, 1)
    assert taken == 1
    assert float((after - best).norm()) < 0.3 * float((turned - best).norm())


def test_blocks_are_solved_pair_by_pair() -> None:
    """Against each pair's equations ((h_ij, 1), (1, h_ji)) (D_ij, D_ji) = (G_ij, G_ji), unequal in both directions."""
    generator = torch.Generator().manual_seed(0)
    blocks = 2 + 3 * torch.rand(5, 5, generator=generator, dtype=torch.float64)
    gradient = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    found = relative._preconditioned(gradient, blocks)
    for i in range(5):
        assert float(found[i, i]) == pytest.approx(float(gradient[i, i] / (blocks[i, i] + 1)))
        for j in range(i):
            pair = torch.tensor([[blocks[i, j], 1], [1, blocks[j, i]]], dtype=torch.float64)
            solved = torch.linalg.solve(pair, torch.stack([gradient[i, j], gradient[j, i]]))
            assert torch.allclose(torch.stack([found[i, j], found[j, i]]), solved)


def test_the_direction_of_what_a_step_has_changed_is_the_step() -> None:
    """The secant equation, of the last step, whatever the steps before it."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(4, 4, generator=generator, dtype=torch.float64) for _ in range(4)]
    pairs = [(step, step + 0.3 * other) for step, other in zip(drawn[::2], drawn[1::2], strict=True)]
    memory = deque((step, change, (step * change).sum()) for step, change in pairs)
    step, change, _ = memory[-1]
    first, plain = relative._directions(change, torch.full((4, 4), 2.0, dtype=torch.float64), memory)
    assert torch.allclose(first, -step)
    assert torch.allclose(plain, -relative._preconditioned(change, torch.full((4, 4), 2.0, dtype=torch.float64)))
