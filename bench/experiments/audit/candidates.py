"""The candidates of a model without training images, by the attacks' own confidence, compared with nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bench.run.artifacts import read_reconstruction

if TYPE_CHECKING:
    from bench.store.folders import Store
    from victims.base import Victim

MOST = 8
"""Candidates shown of one attack."""


@dataclass(frozen=True)
class Surest:
    """The candidates of which one attack is surest.

    Attributes:
        attack: its name.
        images: (k, C, H, W) in [0, 1], the surest first.
        confidence: of each image; None if the attack states none, and then `images` are its first finite candidates.
        of: how many candidates it has in all.
    """

    attack: str
    images: Tensor
    confidence: tuple[float, ...] | None
    of: int


def surest(name: str, run_id: str, victim: Victim, store: Store) -> Surest:
    """Return the surest candidates of an attack.

    Args:
        name: the attack's.
        run_id: its run's, which ended well.
        victim: the model, whose mean and std make pixels of its inputs.
        store: where the run is.
    """
    found = read_reconstruction(store.folder(run_id))
    finite = found.candidates.isfinite().flatten(1).all(1).nonzero()[:, 0]
    confidence = None
    if found.confidence is not None:
        stated = found.confidence.float().nan_to_num(nan=-torch.inf)
        finite = finite[stated[finite].argsort(descending=True, stable=True)]
        confidence = tuple(stated[finite[:MOST]].tolist())
    images = victim.images(found.candidates[finite[:MOST]].float().numpy())
    return Surest(name, torch.from_numpy(images), confidence, len(found.candidates))
