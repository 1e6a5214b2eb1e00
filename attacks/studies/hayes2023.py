"""What a private training gives away by its trace, and what is hidden by releasing only the model that it ends with."""

from __future__ import annotations

from typing import Any

from attacks.studies.base import Cell, Plot, Study

EPSILONS = ("1", "3", "1e1", "3e1", "1e2")
WEAK = ("1e2", "1e4")
"""The epsilons for the attacks that reconstruct without a prior; at smaller epsilons they find little."""
FEW = {"labels": 2, "trial": 6, "evaluations": 24, "retries": 0}
"""Fewer steps of `unroll`: it does not know the noise, and more steps would only fit the noise."""
TRACE: tuple[str, dict[str, Any]] = ("trace", {})
PAPER = ("trace, the paper's rule", {"evidence": "inner-product"})
MODEL = ("released model", {"evidence": "weights"})


def naming(
    victim: str, training: str, epsilons: tuple[str, ...], *sights: tuple[str, dict[str, Any]]
) -> tuple[Cell, ...]:
    """Return what the prior-aware attack names over epsilon, by what it sees."""
    return tuple(
        cell("prior-aware", victim, epsilon, sees, training, params) for sees, params in sights for epsilon in epsilons
    )


def cell(attack: str, victim: str, epsilon: str, sees: str, training: str, params: dict[str, Any]) -> Cell:
    """Return one run on a private training."""
    labels: dict[str, str | float] = {"epsilon": float(epsilon), "sees": sees, "training": training}
    return Cell(labels, attack, f"{victim}-eps{epsilon}", params)


def sized(victim: str) -> Cell:
    """Return the trace attack with a prior of another size."""
    size = int(victim.partition("-prior")[2].partition("-")[0] or 8)
    return Cell({"N": size, "sees": "trace", "training": "digits, epsilon 10"}, "prior-aware", victim)


DIGITS, FULL = "digits-elu10-200-trace", "digits, full batches"
SAMPLED = "digits-elu10-200-trace-sampled"
MNIST = "mnist-relu10-999-trace"
BOUNDED = (
    Plot(
        "bounded", "epsilon", "training", ("success", "bound", "bound_zcdp", "orthogonal", "chance"), logarithmic=True
    ),
)
RECONSTRUCTING = tuple(
    cell(attack, DIGITS, epsilon, "released model", FULL, params)
    for attack, params in (("reconn", {"shadows": 600}), ("unroll", FEW))
    for epsilon in WEAK
)
SMOKE = naming(DIGITS, FULL, ("1e1",), TRACE, PAPER, MODEL)

STUDIES: tuple[Study, ...] = (
    Study(
        name="trace",
        summary="which of 8 records a private training had, over epsilon: by its trace, and by the released model",
        paper="Hayes, Mahloujifar, Balle 2023; needs no data set",
        cells=naming(DIGITS, FULL, (*EPSILONS, "1e4"), TRACE, MODEL)
        + naming(SAMPLED, "digits, sampled at .1", EPSILONS, TRACE, PAPER)
        + RECONSTRUCTING,
        smoke=SMOKE,
        plots=BOUNDED,
    ),
    Study(
        name="trace-mnist",
        summary="the same on MNIST, in the configuration of the authors' notebook",
        paper="Hayes, Mahloujifar, Balle 2023",
        cells=naming(MNIST, "MNIST, full batches", EPSILONS, TRACE, PAPER, MODEL),
        smoke=SMOKE,
        plots=BOUNDED,
    ),
    Study(
        name="trace-prior",
        summary="which of 2, 8, 32 or 128 records it was, by the trace",
        paper="Hayes, Mahloujifar, Balle 2023",
        cells=tuple(sized(f"{DIGITS}{size}-eps1e1") for size in ("-prior2", "", "-prior32", "-prior128")),
        smoke=(sized(f"{DIGITS}-prior2-eps1e1"),),
        plots=(Plot("bounded", "N", "training", ("success", "bound", "orthogonal", "chance"), logarithmic=True),),
    ),
)
