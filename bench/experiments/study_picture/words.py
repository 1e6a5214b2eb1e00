"""What the labels and columns of a study's table, and their values, are called in its pictures."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

WORDS = {
    "n_good": "good",
    "n_good_unique": "good, one to one",
    "null_n_good": "strictest null control",
    "null_n_good_unique": "strictest null control, one to one",
    "share_good": "good",
    "share_good_unique": "good, one to one",
    "null_share_good_unique": "strictest null control, one to one",
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
    "epsilon": "privacy loss, epsilon",
    "queries": "queries that the model answers",
    "kernel": "size of the kernel, in pixels",
    "penalty": "penalty on the weights",
    "network": "neurons of the hidden layers",
    "answers": "what the answers are",
    "habit": "what differs in training",
    "N": "records that the attacker has, N",
    "records": "records deleted at once",
    "noise": "noise on both releases",
    "samples": "images a class",
    "public": "public records",
    "wall_s": "seconds of the attack",
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
LEVELS = {
    "(base)": "SGD as usual",
    "adam": "Adam",
    "adamw": "AdamW",
    "momentum0": "no momentum",
    "batch16": "batches of 16",
    "fullbatch": "all images in one batch",
    "lr5e-3": "learning rate .005",
    "constant": "constant rate",
    "clip1": "gradients clipped at 1",
    "stop1": "stopped at a loss of 1",
    "raw": "pixels not standardised",
    "wd0": "no weight decay",
    "wd5e-3": "weight decay .005",
    "wd5e-3-epochs1000": "weight decay .005, 1,000 epochs",
    "wd5e-3-epochs3000": "weight decay .005, 3,000 epochs",
    "epochs30": "30 epochs",
    "epochs1000": "1,000 epochs",
    "epochs3000": "3,000 epochs",
    "epochs10000": "10,000 epochs",
    "bias1": "a bias in layer 1 alone",
    "init1e-4": "layer 1 starts at 1e-4",
    "width300": "two layers of 300",
    "width3000": "layers of 3,000 and 1,000",
    "depth3": "three layers of 1,000",
    "known": "start known",
    "known, n told": "start known, n told",
    "unknown": "start unknown",
}
"""What values of labels are called that are short for something; others as they are."""


def words(name: str) -> str:
    """Return what a column or a label is called."""
    return WORDS.get(name, name.replace("_", " "))


def level(value: object) -> str:
    """Return what a value of a label is called; a number has no zeros behind its last digit."""
    return f"{value:g}" if isinstance(value, float) else LEVELS.get(str(value), str(value))


def axis(values: Sequence[str], table: pd.DataFrame | None = None) -> str:
    """Return what an axis shows that values share, and of counts out of how many, if a table says so."""
    shared = next((shared for part, shared in AXES.items() if part in values[0]), words(values[0]))
    if shared != AXES["n_good"] or table is None or "n" not in table or table["n"].isna().all():
        return shared
    return f"{shared}, of {' to '.join(f'{n:,.0f}' for n in sorted({table['n'].min(), table['n'].max()}))}"


def titled(name: str, table: pd.DataFrame | None = None) -> str:
    """Return what a column is called where no axis tells what its numbers are."""
    shared = axis([name], table)
    return shared if shared == words(name) else f"{shared}: {words(name)}"
