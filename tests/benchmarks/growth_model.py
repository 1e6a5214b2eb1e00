"""A model of a step's time and memory, fitted to results/growth/growth.csv, and what larger victims would need.

    python tests/benchmarks/growth_model.py [--devices 8] [--rate 250e12] [--bandwidth 3.35e12] [--link 450e9]

With r = min(n, d, h) the dimension of the span, m candidates, and D hidden layers of h units, a step multiplies
2 m (a r h + b (D - 1) h^2) times; (a, b) are counted. Its time is that of the products at the rate of a large square
product, of the passes over (m, h) matrices, which memory bounds, and of the calls; its memory is matrices of the sizes
of activations and of weights. The coefficients are those of non-negative least squares on relative errors.

The options describe a device that is not at hand: float32 products a second, memory and link bytes a second. Passes are
carried over by the bytes a second that the measured machine copies, `--copied`; without it this machine's are taken,
which is right where it is the one that was measured.

The candidates are split over the devices. Each sums its own terms of all layers; the sums are reduced once a step,
after which every device has the residual and the gradient of its own candidates.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls
from tabulate import tabulate

PIXELS, FLOAT = 3072, 4
PRODUCTS = {"training": (2, 3), "attack": (5, 4), "attack in parts": (7, 7)}
"""a and b by kind of step. A training step takes the n examples in the place of candidates."""
HELD_OUT = 1000
"""Points of larger n are predicted by a fit to those up to it."""
LARGE = ((5_000, 1000), (50_000, 1000), (50_000, 10_000))
"""n and width of the victims to reckon; m is 1.4 n, as `kkt-span` takes it, and there are two hidden layers."""
STEPS = 2500


@dataclass(frozen=True)
class Fit:
    """Non-negative coefficients of seconds and of bytes, and the relative errors of what they predict."""

    time: np.ndarray
    memory: np.ndarray
    time_errors: np.ndarray
    memory_errors: np.ndarray


def rank(table: pd.DataFrame) -> pd.Series:
    """Return r for every point."""
    return table[["n", "width"]].min(axis=1).clip(upper=PIXELS)


def examples(table: pd.DataFrame) -> pd.Series:
    """Return how many inputs a step takes: n of a training, else m."""
    return table["m"].where(table["step"] != "training", table["n"])


def operations(table: pd.DataFrame) -> pd.Series:
    """Return the floating-point operations of the products of a step, for every point."""
    a, b = (table["step"].map({step: pair[place] for step, pair in PRODUCTS.items()}) for place in (0, 1))
    deep = b * (table["depth"] - 1) * table["width"] ** 2
    return 2 * examples(table) * (a * rank(table) * table["width"] + deep)


def weights(table: pd.DataFrame) -> pd.Series:
    """Return the number of weights on the coordinates of the span, for every point."""
    return table["width"] * (rank(table) + (table["depth"] - 1) * table["width"])


def activations(table: pd.DataFrame) -> pd.Series:
    """Return the number of entries of the inputs and the activations of all layers, for every point."""
    return examples(table) * (rank(table) + table["depth"] * table["width"])


def fitted(points: pd.DataFrame, predicted: pd.DataFrame) -> Fit:
    """Return the fit to points of one kind of step, and its errors on points to predict."""

    def terms(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        products = operations(table) / table["operations_per_second"]
        size = FLOAT * activations(table)
        ones = np.ones(len(table))
        return np.stack([products, size, ones], 1), np.stack([size, FLOAT * weights(table), ones], 1)

    found = []
    for place, measured in enumerate(("seconds", "peak_mib")):
        unit = 2**20 if measured == "peak_mib" else 1
        values, target = terms(points)[place], points[measured].to_numpy() * unit
        coefficients = nnls(values / target[:, None], np.ones(len(points)))[0]
        errors = terms(predicted)[place] @ coefficients / (predicted[measured].to_numpy() * unit) - 1
        found.append((coefficients, errors))
    return Fit(found[0][0], found[1][0], found[0][1], found[1][1])


def copied_a_second() -> float:
    """Return the bytes a second that this machine reads and writes, on one thread, the best of a few."""
    torch.set_num_threads(1)
    source = torch.zeros(2**26)
    target, best = torch.empty_like(source), 0.0
    for _ in range(5):
        start = time.process_time()
        target.copy_(source)
        best = max(best, 2 * FLOAT * len(source) / (time.process_time() - start))
    return best


def quality(table: pd.DataFrame) -> pd.DataFrame:
    """Return how well each kind of step is fitted, and how well the small points foretell the large ones."""
    rows = []
    for step, points in table.groupby("step"):
        whole, small = fitted(points, points), points["n"] <= HELD_OUT
        ahead = fitted(points[small], points[~small])
        for what in ("time", "memory"):
            inside, outside = np.abs(getattr(whole, f"{what}_errors")), np.abs(getattr(ahead, f"{what}_errors"))
            rows.append((step, what, len(points), np.median(inside), inside.max(), outside.max()))
    return pd.DataFrame(
        rows, columns=["step", "of", "points", "median error", "largest", f"largest above n={HELD_OUT}"]
    )


def reckoned(
    table: pd.DataFrame, devices: int, rate: float, bandwidth: float, link: float, copied: float
) -> pd.DataFrame:
    """Return what an attack step on large victims needs on each of some devices.

    Args:
        table: the measured points.
        devices: over which the candidates are split.
        rate: of each, products' operations a second.
        bandwidth: of each one's memory, bytes a second.
        link: of each one's link to the others, bytes a second.
        copied: of the machine on which the points were measured, bytes a second that one thread reads and writes.
    """
    points = table[table["step"] == "attack"]
    fit = fitted(points, points)
    rows = []
    for n, width in LARGE:
        own = pd.DataFrame([{"step": "attack", "n": n, "m": 1.4 * n / devices, "width": width, "depth": 2}])
        done, size, held = (float(of(own).iloc[0]) for of in (operations, activations, weights))
        products = done / rate
        passes = fit.time[1] * FLOAT * size * copied / bandwidth
        reduced = 2 * (devices - 1) / devices * FLOAT * held / link
        memory = fit.memory[0] * FLOAT * size + fit.memory[1] * FLOAT * held
        step = products + passes + reduced
        rows.append((n, width, 1.4 * n, done * devices, memory / 2**30, products, passes, reduced, STEPS * step / 60))
    names = "n, width, m, operations a step, GiB a device, s products, s passes, s reduction, minutes a restart"
    return pd.DataFrame(rows, columns=names.split(", "))


def main() -> None:
    """Print how well the model holds, and what large victims need."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rate", type=float, default=250e12)
    parser.add_argument("--bandwidth", type=float, default=3.35e12)
    parser.add_argument("--link", type=float, default=450e9)
    parser.add_argument("--copied", type=float)
    parser.add_argument("--table", type=Path, default=Path("results/growth/growth.csv"))
    given = parser.parse_args()
    table = pd.read_csv(given.table)
    copied = given.copied or copied_a_second()
    for found in (quality(table), reckoned(table, given.devices, given.rate, given.bandwidth, given.link, copied)):
        sys.stdout.write(f"{tabulate(found.values.tolist(), list(found.columns), floatfmt='.3g')}\n\n")


if __name__ == "__main__":
    main()
