"""What a study's table holds of a run: where it ended, its null controls, and its candidates beside real images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attacks.studies.base import Cell, Study
from bench.experiments.naming import naming
from bench.experiments.study_picture import strips
from bench.run.artifacts import read_reconstruction
from bench.scoring.matching import ncc_distance, nearest_neighbours
from bench.scoring.ssim import WANG_WINDOW, ssim_wang, ssim_window3
from bench.store.folders import Store
from bench.store.records import ALIGNED_NULLS, NULLS, RunRecord
from victims.base import Victim

if TYPE_CHECKING:
    from victims.informed.victim import AnyVictim

REALISTIC = 0.4
"""A candidate whose SSIM with some real image is above this looks like one."""
SHOWN = 20
INFORMED = (
    *("n_good", "n", "mse_mean", "mse_p1", "mse_p10", "mse_p50", "lpips_mean", "kl_mean", "oracle_mse", "beats_oracle"),
    *("null_n_good", *ALIGNED_NULLS, "membership_auc", "test_accuracy", "train_s", "wall_s"),
)
"""Columns of a run of the informed adversary that a study's table holds."""
BESIDE = ("mse_to_training", "mse_to_held_out", "realistic", "no_member_rate")
"""What a study's table holds of candidates beside real images."""
TRAINED = ("movement", "start_decay", "directions")
"""What a study's table holds of the card of a victim whose start was kept."""
MEASURED = ("n_good", "test_accuracy", "attack_loss", "mse_mean", *BESIDE, "wall_s")


@dataclass(frozen=True)
class Neighbours:
    """For each candidate the training image and the held-out image that are nearest to it.

    Attributes:
        images: (m, C, H, W) candidates in [0, 1], in the order of the attack's confidence where it gives one.
        training: (m, C, H, W) each one's nearest training image by normalised correlation.
        held_out: (m, C, H, W) its nearest held-out image.
        ssim_training: (m,) SSIM with the former.
        ssim_held_out: (m,) SSIM with the latter.
    """

    images: Tensor
    training: Tensor
    held_out: Tensor
    ssim_training: Tensor
    ssim_held_out: Tensor

    @property
    def realistic(self) -> Tensor:
        """(m,) bool: like some real image."""
        return torch.maximum(self.ssim_training, self.ssim_held_out) > REALISTIC

    @property
    def no_member(self) -> Tensor:
        """(m,) bool: realistic, but more like a held-out image than like any training image."""
        return self.realistic & (self.ssim_held_out > self.ssim_training)


def measure(store: Store, record: RunRecord, victim: AnyVictim, study: Study, cell: Cell) -> dict[str, float | None]:
    """Return where a run ended, and write the pictures of `_beside_real_images`.

    `attack_loss` is the attack's own objective; `mse_to_training` and `mse_to_held_out` are a candidate's mean squared
    error to the nearest of those images, averaged over the candidates that are finite; `realistic` is the share of
    candidates like some real image, `no_member_rate` the share of these that are more like a held-out image than like
    any training image. The counts are the record's, `share_good` and `null_share_good` the same as a share of the
    training images; `share_nearer` is the share that is nearer to its reconstruction than to any held-out image,
    `share_at_1pct` the share above the SSIM that 1% of the held-out images pass. What is said of the training is the
    card's. Rows of a table, and candidates that no held-out image can stand beside, have no columns of their
    neighbours. Of victims of the other settings the columns are `INFORMED`, from the record itself.
    """
    if not isinstance(victim, Victim):
        return {name: getattr(record, name) for name in INFORMED} | naming(record, victim.spec)
    beside: dict[str, float | None] = dict.fromkeys(BESIDE)
    if victim.units is None and len(victim.split.test_inputs):
        beside = _beside_real_images(store, record, victim, study, cell)
    return {
        "attack_loss": record.attack_loss,
        **beside,
        "n_good": record.n_good,
        "n_good_unique": record.n_good_unique,
        "null_n_good": record.null_n_good,
        "null_n_good_unique": record.null_n_good_unique,
        **{name: getattr(record, name) for name in NULLS},
        "share_good": None if record.n_good is None else record.n_good / record.n,
        "null_share_good": None if record.null_n_good is None else record.null_n_good / record.n,
        "share_nearer": record.beats_oracle,
        "share_at_1pct": None if record.n_good_at_1pct is None else record.n_good_at_1pct / record.n,
        "train_accuracy": victim.card.train_accuracy,
        "test_accuracy": record.test_accuracy,
        "wall_s": record.wall_s,
    } | {name: value for name in TRAINED if (value := getattr(victim.card, name)) is not None}


def _beside_real_images(
    store: Store, record: RunRecord, victim: Victim, study: Study, cell: Cell
) -> dict[str, float | None]:
    """Return the columns `BESIDE`, and write two pictures of the candidates: alone, and beside their neighbours."""
    split = victim.split
    found = read_reconstruction(store.folder(record.run_id))
    candidates, mean, scale = found.candidates, torch.from_numpy(split.mean), torch.from_numpy(victim.scale)
    order = candidates.isfinite().flatten(1).all(1).nonzero()[:, 0]
    if found.confidence is not None:
        order = order[found.confidence[order].nan_to_num(nan=-torch.inf).argsort(descending=True)]
    training, held_out = (torch.from_numpy(victim.images(inputs)) for inputs in (split.inputs, split.test_inputs))
    near = neighbours(candidates[order].float() * scale, training, held_out, mean)
    realistic = int(near.realistic.sum())
    alone = store.root / f"{study.name}-{record.run_id}.png"
    title = f"{cell.attack} on {cell.victim}, {', '.join(map(str, cell.labels.values()))}"
    shown = slice(0, SHOWN)
    strips(alone, title, [("candidate", near.images[shown])])
    told = [
        ("candidate", near.images[shown]),
        ("nearest training image", near.training[shown]),
        ("nearest held-out image", near.held_out[shown]),
    ]
    strips(alone.with_suffix(".answer.png"), title, told)
    return {
        "mse_to_training": float(nearest_neighbours(near.images, training)[0].mean()),
        "mse_to_held_out": float(nearest_neighbours(near.images, held_out)[0].mean()),
        "realistic": realistic / len(candidates),
        "no_member_rate": int(near.no_member.sum()) / realistic if realistic else None,
    }


def neighbours(candidates: Tensor, training: Tensor, held_out: Tensor, mean: Tensor) -> Neighbours:
    """Return each candidate's nearest real images.

    Args:
        candidates: (m, C, H, W), images less the mean.
        training: (n, C, H, W) in [0, 1].
        held_out: (k, C, H, W) in [0, 1], k > 0.
        mean: (C, H, W) that the victim subtracts.
    """
    images = (candidates + mean).clamp(0, 1)
    ssim = ssim_wang if min(images.shape[2:]) >= WANG_WINDOW else ssim_window3
    chosen = [real[ncc_distance(real - mean, candidates).argmin(0)] for real in (training, held_out)]
    return Neighbours(images, *chosen, *(ssim(images, real) for real in chosen))
