"""Images of a kernel machine over the number of queries, and over what its answers hide (Barzilai et al. 2025)."""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study

VICTIM, SMALL = "digits-krr-50", "digits-krr-20"
QUERIES = (200, 300, 400, 600, 800, 1200, 1600, 2400, 4800)
"""With 50 images of 64 pixels and ten outputs there are as many equations as unknowns at 370 queries."""
HIDDEN = {
    "values": "",
    "four decimals": "+round-outputs=4",
    "three decimals": "+round-outputs=3",
    "two decimals": "+round-outputs=2",
    "one decimal": "+round-outputs=1",
    "noise .0001": "+noise-outputs=0.0001",
    "noise .001": "+noise-outputs=0.001",
    "noise .01": "+noise-outputs=0.01",
    "noise .1": "+noise-outputs=0.1",
    "probabilities": "+answers=probabilities",
    "probabilities, two decimals": "+answers=probabilities+round-outputs=2",
    "labels": "+answers=labels",
}
"""By the answers to queries, the defence that makes them so; the values at a training image are near 0 and 1."""


def _queries(victim: str, counts: tuple[int, ...]) -> tuple[Cell, ...]:
    return tuple(Cell({"queries": count}, "kernel-query", victim, {"queries": count}) for count in counts)


def _answers(victim: str, hidden: dict[str, str]) -> tuple[Cell, ...]:
    return tuple(Cell({"answers": name}, "kernel-query", f"{victim}{defence}") for name, defence in hidden.items())


STUDIES: tuple[Study, ...] = (
    Study(
        name="kernel-queries",
        summary="images of a kernel machine over the number of queries; needs no data set",
        paper="Barzilai et al. 2025, who prove that n (d + 2) queries of one output determine the images",
        cells=_queries(VICTIM, QUERIES),
        smoke=_queries(SMALL, (200, 1600)),
        plots=(Plot("curve", "queries", logarithmic=True),),
    ),
    Study(
        name="kernel-answers",
        summary="images of a kernel machine over what its answers hide; needs no data set",
        paper="new here",
        cells=_answers(VICTIM, HIDDEN),
        smoke=_answers(SMALL, {name: HIDDEN[name] for name in ("values", "labels")}),
        plots=(Plot("dots", "answers"),),
    ),
)
