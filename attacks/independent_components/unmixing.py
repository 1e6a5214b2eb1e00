"""The mixture of rows whose entries are the most independent: FastICA, then maximum likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from picard import picard
from picard.densities import Tanh
from torch import Tensor

from attacks.independent_components.parts import Parts

SETTLED, FLAT = 1e-5, 1e-3
"""A rotation has settled when no component turns by more (1 less the cosine), and the likelihood is at its maximum when
no entry of its relative gradient is larger."""
CHUNK = 20
"""Iterations between two reports."""
DENSITY = 3.0
"""The density of a component is proportional to 1 / cosh(alpha s)^(1 / alpha): logistic at 1, nearly Laplace's at 3."""

Chunk = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, int, bool]]
"""Maps white rows (r, T), a mixture (r, r) and a number of iterations to the mixture after them, the number that was
done, and whether it ended because nothing moves any more. The mixture is the whole state, so that a run that was
interrupted goes on as if it had not been."""


@dataclass(frozen=True)
class Unmixed:
    """The end of a separation.

    Attributes:
        mixture: B (r, r): the components are B times the rows that were mixed.
        contrast: (r,) E exp(-s^2 / 2) of each component s of unit variance: .71 of a normal one, 1 of the sparsest.
        steps: iterations that were done.
        settled: whether it ended because nothing moved any more.
    """

    mixture: Tensor
    contrast: Tensor
    steps: int
    settled: bool


def whitened(mixed: Tensor) -> tuple[Tensor, Tensor]:
    """Return the whitening (r, r) of rows (r, T) of full rank, and the white rows, of mean square 1; in float64."""
    rows = mixed.double()
    values, vectors = torch.linalg.eigh(rows @ rows.T / rows.shape[1])
    whitening = (vectors / values.clamp_min(torch.finfo(torch.float32).tiny).sqrt()).T
    return whitening, whitening @ rows


def unmix(mixed: Tensor, steps: tuple[int, int], parts: Parts) -> Unmixed:
    """Return the most independent components of rows, up to their signs.

    From a random rotation of the whitened rows, symmetric FastICA with the contrast exp(-s^2 / 2), which is made for
    sparse components (Hyvarinen 1999, eqs. 17 and 26). Its components have no correlation at all; those of two hundred
    images have some by chance. So the likelihood of independent components is maximised from there, without that
    constraint, by a quasi-Newton descent (Ablin, Cardoso & Gramfort 2018).

    Args:
        mixed: (r, T), of full rank.
        steps: the most iterations of the two.
        parts: of which this is one: for randomness, budget, reports and checkpoints.
    """
    state = parts.state
    whitening, rows = whitened(mixed)
    white = rows.cpu().numpy()
    mixture = state["mixture"].numpy() if state else _drawn(len(white), parts.ctx.generator)
    first, settled, *done = state["progress"].tolist() if state else (0, 0, 0, 0)
    stages: tuple[Chunk, Chunk] = (_rotated, _freed)
    for stage in range(first, len(stages)):
        ended = done[stage] >= steps[stage]
        while not (ended or parts.expired(sum(done))):
            asked = min(CHUNK, steps[stage] - done[stage])
            mixture, taken, settled = stages[stage](white, mixture, asked)
            done[stage] += taken
            ended = settled or done[stage] == steps[stage]
            parts.report(sum(done), contrast=float(_contrast(mixture @ white).mean()))
            parts.checkpoint(partial(_packed, mixture, stage + ended, settled, *done))
    parts.end(sum(done))
    contrast = torch.from_numpy(_contrast(mixture @ white)).float()
    return Unmixed((torch.from_numpy(mixture).to(whitening) @ whitening).to(mixed), contrast, sum(done), bool(settled))


def _contrast(components: np.ndarray) -> np.ndarray:
    """Return E exp(-s^2 / 2) of each component (r, T), brought to unit variance: (r,)."""
    squares = np.square(components)
    means: np.ndarray = np.exp(-squares / (2 * squares.mean(1, keepdims=True))).mean(1)
    return means


def _packed(mixture: np.ndarray, *progress: int) -> dict[str, Tensor]:
    """Return the state from which a separation goes on: the stage, whether the last one settled, iterations of each."""
    return {"mixture": torch.from_numpy(mixture), "progress": torch.tensor(progress)}


def _drawn(rank: int, generator: torch.Generator) -> np.ndarray:
    """Return a random rotation (r, r)."""
    drawn: np.ndarray = torch.linalg.qr(torch.randn(rank, rank, generator=generator, dtype=torch.float64)).Q.numpy()
    return drawn


def _rotated(white: np.ndarray, rotation: np.ndarray, steps: int) -> tuple[np.ndarray, int, bool]:
    """Return a rotation (r, r) after iterations of symmetric FastICA (Hyvarinen 1999, eq. 20).

    The nearest rotation is had by singular vectors: scikit-learn's FastICA has it by the eigenvectors of W W', and ends
    in nan where a component passes a normal one, whose step is 0.
    """
    for step in range(1, steps + 1):
        components = rotation @ white
        squares = np.square(components)
        bell = np.exp(-squares / 2)
        moved = (components * bell) @ white.T / white.shape[1] - ((1 - squares) * bell).mean(1)[:, None] * rotation
        left, _, right = np.linalg.svd(moved)
        before, rotation = rotation, left @ right
        if np.abs(np.abs(np.einsum("ij,ij->i", rotation, before)) - 1).max() < SETTLED:
            return rotation, step, True
    return rotation, steps, False


def _freed(white: np.ndarray, mixture: np.ndarray, steps: int) -> tuple[np.ndarray, int, bool]:
    """Return a mixture (r, r) after iterations of the quasi-Newton descent on the likelihood."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Picard did not converge")
        _, found, _, taken = picard(
            white,
            fun=Tanh({"alpha": DENSITY}),
            ortho=False,
            whiten=False,
            centering=False,
            w_init=mixture,
            max_iter=steps,
            tol=FLAT,
            return_n_iter=True,
        )
    return found, int(taken), taken < steps
