"""The study of ordinary training: which habit gives the training images away, with the start known and unknown."""

from __future__ import annotations

from collections.abc import Iterable

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.ordinary_factors import NETWORKS, TRAININGS

BASE = "cifar-mlp-100-c10-sgd"
OTHERS = {
    "(the others' base)": BASE,
    "adamw": "cifar-mlp-100-c10-adamw",
    "fine-tuned": "cifar-mlp-100-c10-finetuned",
    "n = 50": "cifar-mlp-50-c10-sgd",
    "n = 300": "cifar-mlp-300-c10-sgd",
    "n = 500": "cifar-mlp-500-c10-sgd",
    "n = 300, fine-tuned": "cifar-mlp-300-c10-finetuned",
    "two classes": "cifar-mlp-100-sgd",
    "papers' recipe": "cifar-mlp-100-c10-wd1e-3",
}
HABITS = OTHERS | {habit: f"{BASE}-{habit}" for habit in (*TRAININGS, *NETWORKS)}
NO_START = frozenset({"papers' recipe"})
"""Victims whose start is not kept."""


def _cells(habits: Iterable[tuple[str, str]]) -> tuple[Cell, ...]:
    """Return each victim attacked with the weights alone, and with the start where it is known."""
    return tuple(
        Cell({"habit": habit, "start": start}, attack, victim)
        for habit, victim in habits
        for start, attack in (("unknown", "kkt-span"), ("known", "kkt-delta"))
        if start == "unknown" or habit not in NO_START
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="ordinary",
        summary="how many images come out of networks trained as people train, one habit at a time",
        paper="after Buzaglo et al. 2023; new here",
        cells=_cells(HABITS.items()),
        smoke=tuple(
            Cell(
                {"habit": habit, "start": start}, attack, f"digits-mlp-20-c10-sgd-{habit}", {"restarts": 1, "steps": 40}
            )
            for habit in ("epochs30", "bias1")
            for start, attack in (("unknown", "kkt-span"), ("known", "kkt-delta"))
        ),
        plots=(Plot("dots", "habit", "start", values=("share_good", "null_share_good")),),
    ),
)
