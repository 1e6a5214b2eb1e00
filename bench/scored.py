"""One reconstruction under every protocol that a row of runs.csv reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.scoring import PROTOCOLS, Scores, nearest_neighbour_distance, score
from victims.base import Victim

ROW_PROTOCOL = "buzaglo2023"
COUNTS = {
    "n_good": ROW_PROTOCOL,
    "n_good_haim_min": "haim2022-min",
    "n_good_haim_mean": "haim2022-mean",
    "n_good_unique": "buzaglo2023-unique",
}
"""Column of runs.csv: the protocol whose good images it counts."""


@dataclass(frozen=True)
class Scored:
    """The scores of one set of candidates by protocol, and the nearest-neighbour oracle.

    Attributes:
        by_protocol: for every protocol of `COUNTS`.
        oracle: (n,) MSE of each training image to the nearest held-out image, empty if there is none.
    """

    by_protocol: dict[str, Scores]
    oracle: Tensor

    @property
    def row(self) -> Scores:
        """The scores under the row's own protocol."""
        return self.by_protocol[ROW_PROTOCOL]

    def counts(self) -> dict[str, int]:
        """Return the good images under each protocol, by column."""
        return {column: self.by_protocol[protocol].n_good for column, protocol in COUNTS.items()}

    def columns(self) -> dict[str, Any]:
        """Return the columns of runs.csv that come from the scores."""
        row = self.row
        values: dict[str, float] = {
            "ssim_mean": row.ssim_mean,
            "ssim_top10": row.ssim_top10,
            "ssim_best": row.ssim_best,
            "mse_mean": row.mse_mean,
            "mse_best": row.mse_best,
        }
        if len(self.oracle):
            values["oracle_mse"] = float(self.oracle.mean())
            values["beats_oracle"] = float((row.mse < self.oracle).double().mean())
        return self.counts() | {name: None if math.isnan(value) else value for name, value in values.items()}


def score_all(candidates: Tensor, victim: Victim) -> Scored:
    """Score candidates (m, C, H, W) in the victim's input space against its training images."""
    split = victim.split
    truth, mean = torch.from_numpy(split.images), torch.from_numpy(split.mean)
    candidates = candidates.detach().float().cpu()
    by_protocol = {name: score(PROTOCOLS[name], candidates, truth, mean) for name in COUNTS.values()}
    held_out = (torch.from_numpy(split.test_inputs) + mean).clamp(0, 1)
    oracle = nearest_neighbour_distance(truth, held_out) if len(held_out) else torch.empty(0)
    return Scored(by_protocol, oracle)


def null_counts(null: Scored) -> dict[str, int]:
    """Return the columns of runs.csv that come from the null control."""
    return {f"null_{column}": count for column, count in null.counts().items()}
