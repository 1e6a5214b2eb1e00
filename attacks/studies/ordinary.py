"""The studies of ordinary training: which habit gives the training images away, with the start known and unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attacks.studies.base import Cell, Plot, Study
from victims.zoo.ordinary_factors import MORE, NETWORKS, TRAININGS

BASE = "cifar-mlp-100-c10-sgd"
OTHERS = {
    "(base)": BASE,
    "n = 50": "cifar-mlp-50-c10-sgd",
    "n = 300": "cifar-mlp-300-c10-sgd",
    "epochs3000": "cifar-mlp-100-c10-sgd3000",
    "two classes": "cifar-mlp-100-sgd",
    "adamw": "cifar-mlp-100-c10-adamw",
    "fine-tuned": "cifar-mlp-100-c10-finetuned",
    "papers' recipe": "cifar-mlp-100-c10-wd1e-3",
}
HABITS = OTHERS | {habit: f"{BASE}-{habit}" for habit in (*TRAININGS, *NETWORKS)}
NO_START = frozenset({"papers' recipe"})
"""Victims whose start is not kept."""
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown": ("kkt-general", {"restarts": 1}),
    "known": ("kkt-delta", {}),
    "known, n told": ("kkt-delta", {"images": "told"}),
}
"""By knowledge of the start, the attack and its parameters. Where a network is not stationary, spans find less."""
UNIFORM = {"start": "uniform", "coordinate_power": 0.3, "total_variation": 0.5}
"""`kkt-delta --variant uniform` with one search: the attacker knows no more of the start than that torch drew it."""
TOLD = frozenset({"adam", "adamw"})
"""Habits under which the difference does not show n: the attacker is told it, too."""

OTHERWISE = ("jitter", "erasing", "cutmix", "smoothing", "bf16", "ema")
"""Habits that are no moves of the images, which no attack undoes."""
AUGMENTED: dict[str, tuple[str, dict[str, Any]]] = {
    **{habit: (habit, {}) for habit in ("flips", "mixup", "dropout", *OTHERWISE)},
    "crops1": ("crops1", {"crops": 1}),
    "crops": ("crops", {"crops": 4}),
    "crops, left": ("crops", {}),
    "flips-crops": ("flips-crops", {"crops": 4, "flips": True}),
    "recipe": ("recipe", {"crops": 4, "flips": True}),
}
"""Changes at every step of a training, as `victims.zoo.ordinary` has them, and what the attack undoes of them."""
SEPARATED: dict[str, tuple[str, dict[str, Any]]] = {
    "cifar-mlp-100-c10-sgd-lr5e-3": ("cocktail-party", {}),
    "cifar-mlp-100-c10-adamw": ("cocktail-party", {}),
    "cifar-mlp-100-c10-finetuned": ("cocktail-party", {}),
    "cifar-mlp-100-c10-finetuned-adamw": ("cocktail-party", {}),
    "cifar-cnn-100-c10-sgd-lr5e-3": ("cocktail-party-features", {"missed": 3e-4}),
    "cifar-cnn-100-c10-finetuned": ("cocktail-party-features", {}),
    "cifar-cnn-100-c10-finetuned-adamw": ("cocktail-party-features", {}),
}
"""By victim, the attack on what its training has added, and its parameters; for CNNs from scratch `scratch`."""

SHARES = ("share_good_unique", "null_share_good_unique")


def _cells(habits: Iterable[tuple[str, str]], **fewer: int) -> tuple[Cell, ...]:
    """Return each victim attacked with the weights alone, and with the start where it is known."""
    return tuple(
        Cell({"habit": habit, "start": start}, attack, victim, params | fewer)
        for habit, victim in habits
        for start, (attack, params) in ATTACKS.items()
        if (start == "unknown" or habit not in NO_START) and (start != "known, n told" or habit in TOLD)
    )


def _many(dataset: str, habits: Mapping[int, Iterable[str]], **fewer: int) -> tuple[Cell, ...]:
    """Return victims of n images attacked with the start known, with and without the habits, by n."""
    named = [(n, habit) for n, chosen in habits.items() for habit in ("", *chosen)]
    return tuple(
        Cell(
            {"habit": habit or "(base)", "n": n}, "kkt-delta", f"{dataset}-mlp-{n}-c10-sgd{habit and '-'}{habit}", fewer
        )
        for n, habit in named
    )


def _augmented(victims: Mapping[str, tuple[str, dict[str, Any]]], habits: Iterable[str]) -> tuple[Cell, ...]:
    """Return each victim with one habit more, attacked with the start known."""
    return tuple(
        Cell({"habit": habit, "training": victim}, attack, f"{victim}-{trained}", params | undone)
        for victim, (attack, params) in victims.items()
        for habit in habits
        for trained, undone in (AUGMENTED[habit],)
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="ordinary",
        summary="how many images come out of networks trained as people train, one habit at a time",
        paper="after Buzaglo et al. 2023; new here",
        cells=_cells(HABITS.items()),
        smoke=_cells(((habit, f"digits-mlp-20-c10-sgd-{habit}") for habit in ("epochs30", "bias1")), steps=40),
        plots=(Plot("dots", "habit", "start", values=SHARES),),
    ),
    Study(
        name="ordinary-unknown",
        summary="the same networks, attacked from the weights alone by who knows how torch draws a start",
        paper="after Buzaglo et al. 2023; new here",
        cells=tuple(Cell({"habit": habit}, "kkt-delta", victim, UNIFORM) for habit, victim in HABITS.items()),
        smoke=tuple(
            Cell({"habit": habit}, "kkt-delta", f"digits-mlp-20-c10-sgd-{habit}", UNIFORM | {"steps": 40})
            for habit in ("epochs30", "bias1")
        ),
        plots=(Plot("dots", "habit", values=SHARES),),
    ),
    Study(
        name="ordinary-many",
        summary="300 and 500 images from scratch: under which habits they come out of a network whose start is known",
        paper="after Buzaglo et al. 2023; new here",
        cells=_many("cifar", MORE),
        smoke=_many("digits", {20: ("epochs30",)}, steps=40),
        plots=(Plot("dots", "habit", "n", values=SHARES),),
    ),
    Study(
        name="augmentation",
        summary="whether flips, crops, mixup or dropout hide the images from who knows the start",
        paper="after Kariyappa et al. 2023; new here",
        cells=_augmented(SEPARATED, AUGMENTED),
        smoke=_augmented({"digits-mlp-20-c10-finetuned": ("cocktail-party", {})}, ("flips", "crops1")),
        plots=(Plot("dots", "habit", "training", values=SHARES),),
    ),
)
