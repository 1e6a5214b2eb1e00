"""The informed membership test: a reconstruction decides which of two records the model has seen."""

from __future__ import annotations

from torch import Tensor

from bench.scoring.metrics import mse


def membership_auc(images: Tensor, references: Tensor, together: int = 1) -> float | None:
    """Area under the ROC curve of a test that calls a record a member if the reconstruction is near to it.

    Each released model is asked about its own target, a member, and about another model's, which is none; the record's
    score is its MSE to the reconstruction. 0.5 is chance, 1 certainty.

    Args:
        images: (n, C, H, W) in [0, 1], reconstruction i of target i.
        references: (n, C, H, W) in [0, 1], the targets.
        together: number of records that a released model shows at once.

    Returns:
        The area in [0, 1], or None for a single target, and for records that are shown together: their reconstructions
        are in the order that fits the members best, which no other model's records are given.

    Source:
        Balle et al. 2022, Algorithm 2: membership inference by reconstruction, all records but one being known.
    """
    from scipy.stats import mannwhitneyu

    if len(images) < 2 or together > 1:
        return None
    member, other = mse(images, references), mse(images, references.roll(1, 0))
    statistic = mannwhitneyu(other.cpu().numpy(), member.cpu().numpy()).statistic
    return float(statistic) / len(member) ** 2
