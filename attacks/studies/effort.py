"""What more time of an attack is worth (new here): images that come out over the seconds of the attack.

A point is a whole run whose search was planned for that long, not a longer run that was stopped early: learning rates,
gates and the levels of the descent follow the number of steps.
"""

from __future__ import annotations

from attacks.cocktail_party import CocktailParty
from attacks.kkt_span import KKTSpan
from attacks.studies.base import Cell, Plot, Study

STEPS = (300, 600, 1200, 2500)
"""Steps of a search of `kkt-span` without rounds; the last is the default."""
ITERATIONS = (0, 100, 250, 500, 1000, 2000)
"""Of the descent on the likelihood of the components, at most; the last is the default."""


def cells(victim: str, rounds: tuple[int, ...], kinks: tuple[int, ...]) -> tuple[Cell, ...]:
    """Return the runs on a victim, those of a search together.

    Args:
        victim: its name.
        rounds: how many rounds are tried of the variant `rounds` of `kkt-span`.
        kinks: and of its variant `kinks`.
    """
    forgotten = CocktailParty.variants["forgotten"]
    return (
        *(Cell({"search": "alone", "planned": steps}, "kkt-span", victim, {"steps": steps}) for steps in STEPS),
        *(
            Cell({"search": name, "planned": count}, "kkt-span", victim, KKTSpan.variants[name] | {"rounds": count})
            for name, counts in (("rounds", rounds), ("kinks", kinks))
            for count in counts
        ),
        *(
            Cell({"search": "forgotten", "planned": count}, "cocktail-party", victim, forgotten | {"free_steps": count})
            for count in ITERATIONS
        ),
        Cell({"search": "forgotten, and a round", "planned": 1}, "cocktail-party", victim, forgotten | {"rounds": 1}),
    )


def study(name: str, what: str, runs: tuple[Cell, ...]) -> Study:
    """Return the study of these runs."""
    return Study(
        name=name,
        summary=f"how many of {what} come out over the seconds of the attack",
        paper="new here",
        cells=runs,
        smoke=(Cell({"search": "alone", "planned": 60}, "kkt-span", "digits-mlp-50-c10", {"steps": 60}),),
        plots=(Plot("curve", "wall_s", "search", ("n_good_unique", "null_n_good_unique"), logarithmic=True),),
    )


STUDIES: tuple[Study, ...] = (
    study("effort", "500 images of ten classes", cells("cifar-mlp-500-c10-wd1e-4-quick", (1, 3), (1,))),
    study("effort-photos", "100 photographs", cells("photos-mlp-100-c10-wd1e-4", (1, 3, 6), (1, 2, 4, 6))),
)
