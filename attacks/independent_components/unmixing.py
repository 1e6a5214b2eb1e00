"""The mixture of rows whose entries are the most independent: FastICA, all components at once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from attacks.base import AttackContext

CHUNK = 10
"""Iterations between two reports."""
SETTLED = 1e-5
"""It has settled when no component turns by more: 1 less the cosine."""


@dataclass(frozen=True)
class Unmixed:
    """The end of FastICA.

    Attributes:
        mixture: B (r, r): the components are B times the rows that were mixed.
        contrast: (r,) E exp(-s^2 / 2) of each component s of unit variance: .71 of a normal one, 1 of the sparsest.
        steps: iterations that were done.
        turn: 1 less the cosine by which a component turned at most in the last of them.
    """

    mixture: Tensor
    contrast: Tensor
    steps: int
    turn: float

    @property
    def settled(self) -> bool:
        """Whether it ended because nothing turned any more."""
        return self.turn < SETTLED


def unmix(mixed: Tensor, steps: int, ctx: AttackContext) -> Unmixed:
    """Return the most independent components of rows, up to their signs.

    It is symmetric FastICA with the contrast exp(-s^2 / 2), which is made for sparse components (Hyvarinen 1999, eqs.
    17 and 26), from a random rotation of the whitened rows.

    Args:
        mixed: (r, T), of full rank.
        steps: the most iterations.
        ctx: for randomness, budget, reports and checkpoints.
    """
    state = ctx.resume()
    values, vectors = torch.linalg.eigh(mixed.double() @ mixed.double().T / mixed.shape[1])
    whitening = (vectors / values.clamp_min(torch.finfo(torch.float32).tiny).sqrt()).T.to(mixed)
    white = (whitening @ mixed).cpu().numpy()
    rank, turn = len(white), 1.0
    done = int(state["step"]) if state else 0
    rotation = state["rotation"].numpy() if state else _drawn(rank, ctx.generator)
    while done < steps and not ctx.expired(done):
        before, most = rotation, min(CHUNK, steps - done)
        rotation, taken = _turned(white, before, most)
        done += taken
        turn = float(np.abs(np.abs(np.einsum("ij,ij->i", rotation, before)) - 1).max()) if taken == most else 0.0
        ctx.report(done, steps, turn=turn)
        if taken < most:
            break
        ctx.checkpoint(partial(_packed, rotation, done))
    components = rotation @ white
    contrast = torch.from_numpy(np.exp(-np.square(components) / 2).mean(1))
    return Unmixed(torch.from_numpy(rotation).to(mixed) @ whitening, contrast.float(), done, turn)


def _packed(rotation: np.ndarray, step: int) -> dict[str, Tensor]:
    """Return the state from which the iteration goes on."""
    return {"rotation": torch.from_numpy(rotation), "step": torch.tensor(step)}


def _drawn(rank: int, generator: torch.Generator) -> np.ndarray:
    """Return a random rotation (r, r), float32."""
    drawn: np.ndarray = torch.linalg.qr(torch.randn(rank, rank, generator=generator)).Q.numpy()
    return drawn


def _turned(white: np.ndarray, rotation: np.ndarray, steps: int) -> tuple[np.ndarray, int]:
    """Return the rotation after some iterations, and their number, less than `steps` only if nothing turns any more.

    The rotation is the whole state of the iteration, so that it goes on as if it had not been interrupted.
    """
    ica = FastICA(whiten=False, fun="exp", w_init=rotation, max_iter=steps, tol=SETTLED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ica.fit(white.T)
    return ica.components_, int(ica.n_iter_)
