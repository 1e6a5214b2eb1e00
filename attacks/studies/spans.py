"""Where spans help (new here): `kkt-general` beside `kkt-span`, whose candidates also stay in what the weights show.

At a stationary point the columns of W1 lie in the span of n back-propagated errors and the rows of W2 in the span of n
activations (`victims.equations.spans`), while all candidates together make up W1. How wide must a network be that shows
these spans, how deep, and how stationary its training? A layer 1 of no more neurons than images shows no span of the
errors.
"""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.buzaglo2023 import RESIDUALS
from victims.zoo.shapes import DEPTHS, STANDARD, WIDTHS

WIDE = "cifar-mlp-100-c10-wd1e-4"
ATTACKS: dict[str, dict[str, int]] = {"kkt-general": {"restarts": 1}, "kkt-span": {}}
"""One restart each; the one of `kkt-general` takes a third of the time."""
CANDIDATES = 1000
"""Candidates at every width: the attacks' own number where W1 does not show n; elsewhere they would take fewer."""
END = 0.04
"""The stationarity residual that a training reaches with all its steps."""
SMOKE = {"restarts": 1, "steps": 60}


def named(hidden: tuple[int, ...]) -> str:
    """Return the widths of hidden layers as text."""
    return "-".join(map(str, hidden))


NETWORKS = {named(STANDARD): WIDE} | {named(hidden): f"cifar-mlp-100-{named(hidden)}-c10-wd1e-4" for hidden in DEPTHS}
CURVE = ("n_good_unique", "null_n_good_unique")


def stopped(classes: int, victim: str) -> tuple[Cell, ...]:
    """Return both attacks on a victim as it ends and as it stops at each residual."""
    endings = {float(residual): f"{victim}-residual{residual}" for residual in RESIDUALS} | {END: victim}
    return tuple(
        Cell({"classes": classes, "stopped_at": residual}, attack, name, params)
        for residual, name in endings.items()
        for attack, params in ATTACKS.items()
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="stationarity",
        summary="how many images come out of a training that stopped before it was stationary, with and without spans",
        paper="new here",
        cells=(*stopped(10, WIDE), *stopped(2, "cifar-mlp-100-wd1e-4")),
        smoke=(Cell({"classes": 2, "stopped_at": 0.4}, "kkt-general", "digits-mlp-50-wd1e-2-residual4e-1", SMOKE),),
        plots=(Plot("curve", "stopped_at", "classes", CURVE, logarithmic=True),),
    ),
    Study(
        name="width",
        summary="how many of 100 images come out by the width of both hidden layers, with and without spans",
        paper="new here",
        cells=tuple(
            Cell({"width": width}, attack, name, params | {"candidates": CANDIDATES})
            for width, name in (
                *((width, f"cifar-mlp-100-{width}-{width}-c10-wd1e-4") for width in WIDTHS),
                (STANDARD[0], WIDE),
            )
            for attack, params in ATTACKS.items()
        ),
        smoke=(Cell({"width": 1000}, "kkt-general", "digits-mlp-50-c10", SMOKE),),
        plots=(Plot("curve", "width", values=CURVE, logarithmic=True),),
    ),
    Study(
        name="networks",
        summary="how many of 100 images come out of deeper networks and of one hidden layer",
        paper="new here",
        cells=tuple(
            Cell({"network": network}, attack, name, params)
            for network, name in NETWORKS.items()
            for attack, params in ATTACKS.items()
        ),
        smoke=(Cell({"network": named(STANDARD)}, "kkt-general", "digits-mlp-50-c10", SMOKE),),
        plots=(Plot("dots", "network", "attack", CURVE),),
    ),
)
