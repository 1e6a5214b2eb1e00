"""What more time of an attack is worth (new here): images that come out over the seconds of the attack.

A point is a whole run whose search was planned for that long, not a longer run that was stopped early: learning rates
and gates follow the number of steps. `forgotten` of `cocktail-party` stands beside, as the cheapest that was found.
"""

from __future__ import annotations

from typing import Any

from attacks.studies.base import Cell, Plot, Study

STEPS = (300, 600, 1200, 2500)
"""Steps of a search without rounds; the last is the default."""
ROUNDS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "rounds": ({}, (1, 3, 6)),
    "kinks": ({"round_steps": 1000, "round_offset_price": 1e-6, "products": "bfloat16"}, (1, 2, 4, 6)),
}
"""By variant of `kkt-span` its parameters, and how many rounds are tried; the last are the variant's own."""
FORGOTTEN = {"start": "forgotten", "pixel_size": 0.25}
ITERATIONS = ((50, 0), (300, 0), (300, 100))
"""Of FastICA at most, and of the descent on the likelihood after it; the last are the default."""


def cells(victim: str) -> tuple[Cell, ...]:
    """Return the runs on a victim, those of a search together."""
    return (
        *(Cell({"search": "alone", "planned": steps}, "kkt-span", victim, {"steps": steps}) for steps in STEPS),
        *(
            Cell({"search": name, "planned": count}, "kkt-span", victim, params | {"rounds": count})
            for name, (params, counts) in ROUNDS.items()
            for count in counts
        ),
        *(
            Cell({"search": "forgotten", "planned": sum(most)}, "cocktail-party", victim, FORGOTTEN | steps_of(*most))
            for most in ITERATIONS
        ),
    )


def steps_of(rotations: int, free: int) -> dict[str, int]:
    """Return the parameters for so many iterations."""
    return {"steps": rotations, "free_steps": free}


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
