"""What the labels and columns of a study's table are called in its pictures."""

from __future__ import annotations

from collections.abc import Sequence

WORDS = {
    "n_good": "good",
    "n_good_unique": "good, one to one",
    "null_n_good": "strictest null control",
    "null_n_good_unique": "strictest null control, one to one",
    "share_good": "good",
    "null_share_good": "strictest null control",
    "share_nearer": "nearer than any held-out image",
    "share_at_1pct": "above the SSIM that 1% of held-out images pass",
    "attack_loss": "the attack's own objective",
    "mse_to_training": "to the nearest training image",
    "mse_mean": "of the attack",
    "mse_p50": "median",
    "oracle_mse": "of the nearest image that the attacker has",
    "paper_mse": "in the paper",
    "cosine": "reconstruction",
    "cosine_public_nearest": "nearest public record",
    "cosine_public_mean": "mean public record",
    "success": "share of records named correctly",
    "bound": "bound on any attack on the trace",
    "bound_zcdp": "bound by zCDP",
    "orthogonal": "best attack on orthogonal gradients",
    "stopped_at": "stationarity residual at which the training stopped",
    "ratio": "weights over unknown pixels, p / (d n)",
    "n": "training images",
    "N": "records that the attacker has, N",
    "records": "records deleted at once",
    "noise": "noise on both releases",
    "samples": "images a class",
    "public": "public records",
    "width": "neurons of each hidden layer",
    "first_layer_scale": "scale of layer 1's initial weights",
    "truth_share": "share of the training images in the start",
    "image_share": "share of the other images in the start",
}
"""What labels and columns of a study's table are called in a picture; others by their name, with spaces."""
AXES = {
    "n_good": "records",
    "share_": "share of the records",
    "mse": "mean squared error",
    "cosine": "cosine similarity",
}
"""What values are, by a part of their name, where several of them share an axis."""


def words(name: str) -> str:
    """Return what a column or a label is called."""
    return WORDS.get(name, name.replace("_", " "))


def axis(values: Sequence[str]) -> str:
    """Return what an axis shows that values share."""
    return next((shared for part, shared in AXES.items() if part in values[0]), words(values[0]))


def titled(name: str) -> str:
    """Return what a column is called where no axis tells what its numbers are."""
    shared = axis([name])
    return shared if shared == words(name) else f"{shared}: {words(name)}"
