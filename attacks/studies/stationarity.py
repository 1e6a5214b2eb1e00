"""How stationary a network must be: one training, stopped at several stationarity residuals (new here).

The attacks differ in what a candidate has to satisfy: `kkt-general` asks that all candidates make up W1 together,
`kkt-span` also that each stays in the spans that the weights show.
"""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.buzaglo2023 import RESIDUALS

END = 0.04
"""The residual that the training reaches with all its steps."""
ATTACKS: dict[str, dict[str, int]] = {"kkt-general": {"restarts": 1}, "kkt-span": {}}
"""One restart each; the one of `kkt-general` takes a third of the time."""
SMOKE = {"restarts": 1, "steps": 60}


def cells(classes: int, victim: str) -> tuple[Cell, ...]:
    """Return both attacks on a victim as it ends and as it stops at each residual."""
    stopped = {float(residual): f"{victim}-residual{residual}" for residual in RESIDUALS}
    return tuple(
        Cell({"classes": classes, "stopped_at": residual}, attack, name, params)
        for residual, name in (stopped | {END: victim}).items()
        for attack, params in ATTACKS.items()
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="stationarity",
        summary="how many images come out of a training that stopped before it was stationary, with and without spans",
        paper="new here",
        cells=(*cells(10, "cifar-mlp-100-c10-wd1e-4"), *cells(2, "cifar-mlp-100-wd1e-4")),
        smoke=(Cell({"classes": 2, "stopped_at": 0.4}, "kkt-general", "digits-mlp-50-wd1e-2-residual4e-1", SMOKE),),
        plots=(Plot("curve", "stopped_at", "classes", ("n_good_unique", "null_n_good_unique"), True),),
    ),
)
