"""What a private training gives away by its trace, and what is hidden by releasing only the model that it ends with."""

from __future__ import annotations

from typing import Any

from attacks.studies.base import Cell, Plot, Study

EPSILONS = ("1", "3", "1e1", "3e1", "1e2", "1e3", "1e4", "1e6")
MODEL = {"evidence": "weights"}


def cells(victim: str, training: str, shadows: int, epsilons: tuple[str, ...] = EPSILONS) -> tuple[Cell, ...]:
    """Return what each attack names of the records of private trainings, over epsilon."""
    attacks: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("prior-aware", "trace", {}),
        ("prior-aware", "trace, the paper's rule", {"evidence": "inner-product"}),
        ("prior-aware", "released model", MODEL),
        ("unroll", "released model", {}),
        ("reconn", "released model", {"shadows": shadows}),
    )
    return tuple(
        Cell({"epsilon": float(epsilon), "sees": sees, "training": training}, attack, f"{victim}-eps{epsilon}", params)
        for attack, sees, params in attacks
        for epsilon in epsilons
    )


def sized(victim: str) -> Cell:
    """Return the trace attack with a prior of another size."""
    size = int(victim.partition("-prior")[2].partition("-")[0] or 8)
    return Cell({"N": size, "sees": "trace", "training": "digits, epsilon 10"}, "prior-aware", victim)


DIGITS, SAMPLED = "digits-elu10-200-trace", "digits-elu10-200-trace-sampled"
BOUNDED = (
    Plot(
        "bounded", "epsilon", "training", ("success", "bound", "bound_zcdp", "orthogonal", "chance"), logarithmic=True
    ),
)
SMOKE = cells(DIGITS, "digits, full batches", 100, ("1e1",))[:3]

STUDIES: tuple[Study, ...] = (
    Study(
        name="trace",
        summary="which of 8 records a private training had, over epsilon: by its trace, and by the released model",
        paper="Hayes, Mahloujifar, Balle 2023; needs no data set",
        cells=cells(DIGITS, "digits, full batches", 600) + cells(SAMPLED, "digits, sampled at .1", 600),
        smoke=SMOKE,
        plots=BOUNDED,
    ),
    Study(
        name="trace-mnist",
        summary="the same on MNIST, in the configuration of the authors' notebook",
        paper="Hayes, Mahloujifar, Balle 2023",
        cells=cells("mnist-relu10-999-trace", "MNIST, full batches", 300),
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
