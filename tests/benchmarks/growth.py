"""How a training step and an attack step grow with n, m, width and depth: a CSV and a log-log figure.

python tests/benchmarks/growth.py [--smoke] [--device cuda] [--output results/growth]

The data are random, of CIFAR's shape: only time and memory are measured. The floor is the time that the step's own
matrix products would take at the rate of a large square product, measured beside every point. On the CPU one thread
is measured, by the processor's time, so that a machine need not be idle.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch.utils.flop_counter import FlopCounterMode

import attacks.kkt_family.search as solver
from attacks.kkt_family.coefficients import margin_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from victims.equations.architectures import build
from victims.equations.network import Network
from victims.equations.row_space import RowSpace
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec
from victims.training.hardware import WARM_UP, cpu_name, gpu_name, prepare
from victims.training.loop import algorithm
from victims.training.state import TrainState

PIXELS = 3072
RATE_SIDE = {"cpu": 1000, "cuda": 8192}
"""Side of the square product by which the device's rate is measured: one that fills it."""
BEGINNING = {"cpu": 1, "cuda": 2 * WARM_UP}
"""Steps that are not measured: on a GPU those before they are recorded."""
FEWEST = {"cpu": 1, "cuda": 100}
"""The fewest steps that are."""
REPEATS = 3
ENOUGH_SECONDS = 0.3
"""A point is measured over so many steps that they take about as long as this."""


@dataclass(frozen=True)
class Point:
    """One size of the problem; `axis` is what varies. m is twice n unless it is what varies."""

    axis: str
    n: int = 500
    m: int = 1000
    width: int = 1000
    depth: int = 2

    @property
    def rank(self) -> int:
        """The dimension of the data's span, in which both train and search."""
        return min(self.n, PIXELS, self.width)


AXES: dict[str, tuple[int, ...]] = {
    "n": (50, 100, 200, 500, 1000, 2000, 5000),
    "m": (100, 300, 1000, 3000, 10_000),
    "width": (100, 300, 1000, 3000, 10_000),
    "depth": (1, 2, 3, 5, 8),
}
SMOKE: dict[str, tuple[int, ...]] = {"n": (10, 20), "m": (10, 20), "width": (20, 40), "depth": (1, 2)}


def points(axes: dict[str, tuple[int, ...]], smoke: bool) -> list[Point]:
    """Return the points of all axes, from small to large on each."""
    base = Point("", n=10, m=20, width=20) if smoke else Point("")
    made = [replace(base, axis=axis, **{axis: value}) for axis, values in axes.items() for value in values]
    return [replace(point, m=2 * point.n) if point.axis == "n" else point for point in made]


def training_step(point: Point, device: torch.device) -> Callable[[int], None]:
    """Return what trains a victim for so many steps, on the span of its data."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(point.n, point.rank, generator=generator).to(device)
    labels = (torch.arange(point.n) % 2).to(device)
    network = MLPSpec(hidden=(point.width,) * point.depth)
    spec = VictimSpec(name="growth", dataset="none", n=point.n, architecture=network, training=NormalizedDescent())
    model = build(network, (point.rank,), generator, torch.float32).to(device)
    state, method = TrainState(model, 0.0, torch.ones((), device=device)), algorithm(spec)
    method.start(state)

    def steps(count: int) -> None:
        for _ in range(count):
            method.step(state, inputs, labels)

    return steps


def attack_step(point: Point, device: torch.device) -> Callable[[int], None]:
    """Return what searches for so many steps with the defaults, in the row space of W1."""
    generator = torch.Generator().manual_seed(0)
    widths = (PIXELS, *(point.width,) * point.depth, 1)
    weights = tuple(torch.randn(b, a, generator=generator).to(device) / a**0.5 for a, b in pairwise(widths))
    basis = torch.linalg.qr(torch.randn(PIXELS, point.rank, generator=generator))[0].to(device)
    network = Network(weights, (torch.randn(point.width, generator=generator).to(device), *(None,) * point.depth))
    space = RowSpace(basis, torch.ones(point.rank, device=device), gap=True)
    labels = (torch.arange(point.m) % 2).to(device)

    def steps(count: int) -> None:
        start = torch.full((point.m,), 1 / point.m, device=device)
        coordinates = 0.01 * torch.randn(point.m, point.rank, generator=generator)
        begin = solver.Start(coordinates, margin_coefficients(labels, start))
        solver.search(Problem(network, space), [begin], SearchParams(steps=count), lambda step, candidates: None)

    return steps


def attack_step_in_parts(point: Point, device: torch.device) -> Callable[[int], None]:
    """Return the same search with its candidates in parts, as it takes them where all at once do not fit."""
    steps, whole = attack_step(point, device), solver._residual

    def in_parts(count: int) -> None:
        with mock.patch.object(solver, "_residual", lambda problem, params: whole(problem, params).in_parts()):
            steps(count)

    return in_parts


IN_PARTS = "attack in parts"
STEPS = {"training": training_step, "attack": attack_step, IN_PARTS: attack_step_in_parts}


def varies(kind: str, axis: str) -> bool:
    """Say whether a kind of step is measured along an axis: a training has no m, parts are for large n."""
    return axis == "n" if kind == IN_PARTS else (kind, axis) != ("training", "m")


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return how long a piece of work takes: on the CPU the processor's time, which no neighbour lengthens."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        work()
        torch.cuda.synchronize(device)
        return time.perf_counter() - start
    start = time.process_time()
    work()
    return time.process_time() - start


def rate(device: torch.device) -> float:
    """Return the float32 operations a second of a large square product, the best of a few."""
    side = RATE_SIDE[device.type]
    square = torch.randn(side, side, device=device)
    return 2 * side**3 / min(seconds(lambda: square @ square, device) for _ in range(REPEATS))


def peak_bytes(work: Callable[[], object], device: torch.device) -> float:
    """Return how much memory a piece of work takes at its peak beyond what is there before it; NaN where unknown."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return float(torch.cuda.max_memory_allocated(device) - before)
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not clear.exists():
        return math.nan

    def kibibytes(name: str) -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what earlier points left free would not be counted
    clear.write_text("5")  # the peak starts again from what is resident now
    before = kibibytes("VmRSS")
    work()
    return 1024.0 * max(kibibytes("VmHWM") - before, 0)


def measure(kind: str, point: Point, device: torch.device) -> dict[str, float | str]:
    """Return one row: what was measured, its size, seconds and operations of one step, its floor, and peak memory."""
    steps, counted, first = STEPS[kind](point, device), [], []
    for count in (1, 2):
        with FlopCounterMode(display=False) as counter:
            first.append(seconds(partial(steps, count), device))
        counted.append(counter.get_total_flops())
    operations, rates, times = counted[1] - counted[0], [rate(device)], []
    count = max(FEWEST[device.type], round(2 * ENOUGH_SECONDS / first[1]))
    begun = BEGINNING[device.type]
    for _ in range(REPEATS if count > 1 else 1):
        alone, more = seconds(partial(steps, begun), device), seconds(partial(steps, begun + count), device)
        times.append(max(more - alone, 0.0) / count)
        rates.append(rate(device))
    del steps
    peak = peak_bytes(lambda: STEPS[kind](point, device)(2), device)
    taken, floor = statistics.median(times), operations / statistics.median(rates)
    row: dict[str, float | str] = {"step": kind, **asdict(point), "seconds": taken, "floor_seconds": floor}
    row |= {"over_floor": taken / floor, "operations": operations, "operations_per_second": statistics.median(rates)}
    return row | {"peak_mib": peak / 2**20}


def draw(path: Path, table: pd.DataFrame, hardware: str) -> None:
    """Write the curves as a PNG: time with its floor above, memory below, a column for each axis."""
    axes_shown = list(dict.fromkeys(table["axis"]))
    figure = Figure(figsize=(3.4 * len(axes_shown), 6), layout="constrained")
    figure.suptitle(f"one step, float32, {hardware}: seconds and peak memory", fontsize=10)
    grid = figure.subplots(2, len(axes_shown), squeeze=False, sharey="row")
    for column, axis in enumerate(axes_shown):
        for kind, part in table[table["axis"] == axis].groupby("step"):
            colour = {"attack": "C0", "training": "C1", IN_PARTS: "C2"}[kind]
            grid[0][column].loglog(part[axis], part["seconds"], "o-", color=colour, label=f"{kind}")
            label = f"{kind}: its matrix products"
            grid[0][column].loglog(part[axis], part["floor_seconds"], ":", color=colour, label=label)
            grid[1][column].loglog(part[axis], part["peak_mib"], "o-", color=colour)
        if axis == "depth":
            for axes in (grid[0][column], grid[1][column]):
                axes.set_xscale("linear")
        grid[1][column].set_xlabel({"n": "n (m = 2n)", "depth": "hidden layers"}.get(axis, axis))
    grid[0][0].set_ylabel("seconds a step")
    grid[1][0].set_ylabel("peak memory with weights, MiB")
    lines = {line.get_label(): line for axes in grid[0] for line in axes.get_lines()}
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=len(lines), fontsize=8)
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Measure the points that growth.csv does not hold yet, writing it after each, and draw growth.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few and small points, to see that it works")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--axis", action="append", choices=list(AXES), help="only this axis; repeat")
    parser.add_argument("--output", type=Path, default=Path("results/growth"))
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    prepare(device)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "growth.csv"
    torch.set_num_threads(1)
    hardware = gpu_name(device) or f"one thread of {cpu_name()}"
    chosen = SMOKE if arguments.smoke else AXES
    rows: list[Any] = pd.read_csv(path).to_dict("records") if path.exists() else []
    measured = {(row["step"], row["axis"], row["n"], row["m"], row["width"], row["depth"]) for row in rows}
    for point in points({axis: chosen[axis] for axis in arguments.axis or chosen}, arguments.smoke):
        for kind in STEPS:
            if (kind, *asdict(point).values()) in measured or not varies(kind, point.axis):
                continue
            rows.append(measure(kind, point, device) | {"hardware": hardware})
            table = pd.DataFrame(rows).sort_values(["axis", "step", "n", "m", "width", "depth"])
            table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    draw(path.with_suffix(".png"), pd.read_csv(path), hardware)


if __name__ == "__main__":
    main()
