"""The mixture of rows whose responses are the most independent: FastICA, then maximum likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch
from picard import picard
from picard.densities import Tanh
from torch import Tensor

from attacks.optimisation.parts import Parts
from attacks.source_separation.density import ALPHA, SPARSE, Bell, Density, ScaleMixture
from attacks.source_separation.mixed import Mixed
from attacks.source_separation.relative import FLAT, descended

SETTLED = 1e-5
"""A rotation has settled when no component turns by more (1 less the cosine) in one step or in two."""
NEAR, MOST_STEPS = 1e-4, 60
"""Of the nearest rotation: how far from orthonormal it may be before its last step, and the most steps."""
CHUNK = 20
"""Iterations between two reports."""
LONG_CHUNK = 100
"""The same of the annealed descent, whose L-BFGS forgets its former steps at each report."""
LEVELS = ((0.1, 0.5), (0.03, 0.75), (0.01, 1.0))
"""The scale mixtures on whose likelihood a descent goes on, from smooth to rugged, each with the share of
the iterations that are done at its end: what keeps flat places from being infinitely likely falls. At the last alone a
descent from a mixture stays in mixtures where there are 500 images."""

Move = Callable[[Mixed, Tensor, int], tuple[Tensor, int, bool]]
"""Maps white rows, a mixture (r, r) and a number of iterations to the mixture after them, the number that was done, and
whether it ended because nothing moves any more. The mixture is the whole state, so that a run that was interrupted goes
on as if it had not been."""


@dataclass(frozen=True)
class Unmixed:
    """The end of a separation.

    Attributes:
        mixture: B (r, r): the components are B times the rows that were mixed.
        contrast: (r,) E exp(-s^2 / 2) of each component s of unit variance: .71 of a normal one, 1 of the sparsest.
        steps: iterations that were done.
        settled: whether it ended because nothing moved any more, or went to and fro.
    """

    mixture: Tensor
    contrast: Tensor
    steps: int
    settled: bool


def whitening_of(responses: Tensor) -> Tensor:
    """Return the matrix (r, r) that makes responses (r, T) of full rank white, of mean square 1; in float64."""
    rows = responses.double()
    values, vectors = torch.linalg.eigh(rows @ rows.T / rows.shape[1])
    whitening: Tensor = (vectors / values.clamp_min(torch.finfo(torch.float32).tiny).sqrt()).T
    return whitening


def unmix(mixed: Mixed, steps: tuple[int, int], parts: Parts, density: Density = SPARSE) -> Unmixed:
    """Return the mixture of rows whose responses are the most independent, up to signs.

    From a random rotation of the whitened rows, symmetric FastICA with the contrast exp(-s^2 / 2), which is made for
    sparse components (Hyvarinen 1999, eqs. 17 and 26). Its components have no correlation at all; those of two hundred
    images have some by chance. So the likelihood of independent components is maximised from there, without that
    constraint, by a quasi-Newton descent (Ablin, Cardoso & Gramfort 2018).

    Args:
        mixed: r rows, whose responses are of full rank.
        steps: the most iterations of the two.
        parts: randomness, budget, reports and checkpoints of the run; this separation is one of its parts.
        density: of the responses, in the likelihood.
    """
    state = parts.state
    whitening = whitening_of(mixed.responses())
    white = mixed.by(whitening)
    mixture = (state["mixture"] if state else _drawn(len(whitening), parts.ctx.generator)).to(white.rows)
    first, settled, *done = state["progress"].tolist() if state else (0, 0)
    stages = ((_rotated, steps[0], CHUNK), *_descents(density, steps[1]))
    done = done or [0] * len(stages)
    for stage, (move, most, chunk) in list(enumerate(stages))[first:]:
        ended = done[stage] >= most
        while not (ended or parts.expired(sum(done))):
            few = min(chunk, most - done[stage], parts.left(sum(done)))
            mixture, taken, settled = move(white, mixture, int(few))
            done[stage] += taken
            ended = settled or done[stage] == most
            parts.report(sum(done), contrast=float(white.by(mixture).contrast().mean()))
            parts.checkpoint(partial(_packed, mixture, stage + ended, settled, *done))
    parts.end(sum(done))
    contrast, whole = white.by(mixture).contrast(), mixture.to(whitening) @ whitening
    return Unmixed(whole.to(white.rows), contrast, sum(done), bool(settled))


def _descents(density: Density, steps: int) -> tuple[tuple[Move, int, int], ...]:
    """Return the descents on the likelihood that follow one another, which share so many iterations.

    Beside each stand the most iterations that it has, and those between two of its reports.
    """
    if isinstance(density, ScaleMixture):
        levels = (replace(density, least=least) for least, _ in LEVELS)
        most = (end - begin for begin, end in pairwise((0, *(round(until * steps) for _, until in LEVELS))))
        return tuple((partial(descended, level), few, LONG_CHUNK) for level, few in zip(levels, most, strict=True))
    return ((_freed, steps, CHUNK),)


def _packed(mixture: Tensor, *progress: int) -> dict[str, Tensor]:
    """Return the state from which a separation goes on: the stage, whether the last one settled, iterations of each."""
    return {"mixture": mixture, "progress": torch.tensor(progress)}


def _drawn(rank: int, generator: torch.Generator) -> Tensor:
    """Return a random rotation (r, r)."""
    drawn: Tensor = torch.linalg.qr(torch.randn(rank, rank, generator=generator, dtype=torch.float64)).Q
    return drawn


def _rotated(white: Mixed, rotation: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    """Return a rotation (r, r) after iterations of symmetric FastICA (Hyvarinen 1999, eq. 20).

    It has settled where it no longer turns, and where it goes to and fro between two rotations, as it may for ever.
    scikit-learn's FastICA runs on no GPU, and ends in nan where a component passes a normal one, whose step is 0.
    """
    before, score = rotation, torch.empty_like(white.rows)
    for step in range(1, steps + 1):
        curvature = white.evaluate(Bell(), rotation @ white.rows, score)
        moved = score @ white.rows.T / white.count - curvature[:, None] * rotation
        earlier, before, rotation = before, rotation, nearest_rotation(moved)
        turns = torch.stack([((rotation * former).sum(1).abs() - 1).abs().max() for former in (before, earlier)])
        if float(turns.min()) < SETTLED:
            return rotation, step, True
    return rotation, steps, False


def nearest_rotation(matrix: Tensor) -> Tensor:
    """Return the orthonormal matrix (r, r) that is nearest to M (r, r): (M M')^(-1/2) M.

    It is had by the steps of Newton and Schulz (Bjorck & Bowie 1971), which are products of matrices: a GPU is slow at
    singular vectors. Each step brings the singular values, which begin between 0 and 1, nearer to 1.
    """
    near: Tensor = matrix / torch.linalg.matrix_norm(matrix @ matrix.T).sqrt()
    one = torch.eye(len(matrix)).to(matrix)
    for _ in range(MOST_STEPS):
        missed = near @ near.T - one
        near = near - missed @ near / 2
        if float(missed.abs().max()) < NEAR:
            break
    return near


def _freed(white: Mixed, mixture: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    """Return a mixture (r, r) after iterations of the quasi-Newton descent on the likelihood of sparse responses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Picard did not converge")
        _, found, _, taken = picard(
            white.responses().double().cpu().numpy(),
            fun=Tanh({"alpha": ALPHA}),
            ortho=False,
            whiten=False,
            centering=False,
            w_init=mixture.cpu().numpy(),
            max_iter=steps,
            tol=FLAT,
            return_n_iter=True,
        )
    settled = taken < steps - 1  # picard counts from 0: the last iteration may have been at the maximum, or not
    return torch.from_numpy(found).to(mixture), int(taken) if settled else steps, settled
