"""How well candidates reconstruct the training set: metrics of pairs, matching, and the protocols that join them."""

from bench.scoring.matching import assign, ncc_distance, nearest_neighbour_distance, one_to_one, stretch, vote
from bench.scoring.metrics import METRIC_SUITE, METRICS, Metric, mse, psnr, ssim_wang, ssim_window3
from bench.scoring.protocols import PROTOCOLS, Protocol, Scores, score

__all__ = [
    "METRICS",
    "METRIC_SUITE",
    "PROTOCOLS",
    "Metric",
    "Protocol",
    "Scores",
    "assign",
    "mse",
    "ncc_distance",
    "nearest_neighbour_distance",
    "one_to_one",
    "psnr",
    "score",
    "ssim_wang",
    "ssim_window3",
    "stretch",
    "vote",
]
