"""What more time of an attack is worth (new here): images that come out over the seconds of the attack.

A point is a whole run whose search was planned for that long, not a longer run that was stopped early: learning rates
and gates follow the number of steps. `forgotten` of `cocktail-party` stands beside, each response by itself and with
the signs that are told: by default it ends when it has settled, long before the most iterations that are planned.
"""

from __future__ import annotations

from attacks.cocktail_party import CocktailParty
from attacks.kkt_span import KKTSpan
from attacks.studies.base import Cell, Plot, Study

STEPS = (300, 600, 1200, 2500)
"""Steps of a search without rounds; the last is the default."""
ROUNDS = {"rounds": (1, 3, 6), "kinks": (1, 2, 4, 6)}
"""How many rounds are tried by variant of `kkt-span`; the last are the variant's own."""
FORGOTTEN = CocktailParty.variants["forgotten"] | {"density": "sparse", "signs": "told"}
ITERATIONS = ((50, 0), (300, 0), (300, 100))
"""Of FastICA at most, and of the descent on the likelihood after it."""


def cells(victim: str) -> tuple[Cell, ...]:
    """Return the runs on a victim, those of a search together."""
    return (
        *(Cell({"search": "alone", "planned": steps}, "kkt-span", victim, {"steps": steps}) for steps in STEPS),
        *(
            Cell({"search": name, "planned": count}, "kkt-span", victim, KKTSpan.variants[name] | {"rounds": count})
            for name, counts in ROUNDS.items()
            for count in counts
        ),
        *(
            Cell(
                {"search": "forgotten", "planned": rotations + free},
                "cocktail-party",
                victim,
                FORGOTTEN | {"steps": rotations, "free_steps": free},
            )
            for rotations, free in ITERATIONS
        ),
    )


def study(name: str, victim: str, what: str) -> Study:
    """Return the study on a victim."""
    return Study(
        name=name,
        summary=f"how many of {what} come out over the seconds of the attack",
        paper="new here",
        cells=cells(victim),
        smoke=(Cell({"search": "alone", "planned": 60}, "kkt-span", "digits-mlp-50-c10", {"steps": 60}),),
        plots=(Plot("curve", "wall_s", "search", ("n_good_unique", "null_n_good_unique"), logarithmic=True),),
    )


STUDIES: tuple[Study, ...] = (
    study("effort", "cifar-mlp-300-1000-c10-wd1e-4", "300 images of a network of one hidden layer"),
    study("effort-photos", "photos-mlp-100-c10-wd1e-4", "100 photographs"),
)
