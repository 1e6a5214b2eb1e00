"""Ten-class networks of other shapes than the papers': narrow, shallow, deep, of 1,000 images; and trained otherwise.

All are trained with a weight decay of 1e-4 from the standard initialisation, as `cifar-mlp-100-c10-wd1e-4` is
(`victims/zoo/buzaglo2023.py`). Names tell the widths of the hidden layers after the number of images, as
`cifar-mlp-500-100-100` of Haim et al. 2022 does. What differs from the recipe stands at their end.
One network learns digits.
"""

from __future__ import annotations

from victims.spec import DecayedDescent, MLPSpec, VictimSpec

WIDTHS = (50, 75, 100, 110, 125, 150, 200, 300)
"""Widths of both hidden layers, for 100 images."""
DEPTHS = ((1000,), (1000, 1000, 1000), (1000, 500, 100), (1000, 500, 100, 50))
"""Widths of the hidden layers of the deeper networks, and of the one with a single layer, for 100 images."""
STANDARD, SHALLOW = (1000, 1000), (1000,)
"""Widths of the papers' hidden layers, which a name leaves out, and of a single hidden layer."""
RECIPES = {
    "": DecayedDescent(weight_decay=1e-4),
    "-rate45e-3": DecayedDescent(weight_decay=1e-4, rate=(4.5e-2, 1e-5)),
    "-long": DecayedDescent(weight_decay=1e-4, steps=9000),
    "-quick": DecayedDescent(weight_decay=1e-4, steps=1500, rate=(0.12, 1e-5), products="bfloat16"),
}
"""Trainings, by the ending of the victim's name."""


def shaped(n: int, hidden: tuple[int, ...], dataset: str = "cifar", ending: str = "") -> VictimSpec:
    """Return a softmax of ten classes on n images, with these hidden layers, trained as the ending of its name says."""
    widths = "" if hidden == STANDARD else "-" + "-".join(map(str, hidden))
    return VictimSpec(
        name=f"{dataset}-mlp-{n}{widths}-c10-wd1e-4{ending}",
        dataset=dataset,
        n=n,
        architecture=MLPSpec(hidden=hidden, outputs=10, first_layer_scale=None),
        training=RECIPES[ending],
    )


VICTIMS: tuple[VictimSpec, ...] = (
    *(shaped(100, (width, width)) for width in WIDTHS),
    *(shaped(100, hidden) for hidden in DEPTHS),
    *(shaped(n, SHALLOW) for n in (300, 500)),
    shaped(100, SHALLOW, "photos"),
    shaped(500, STANDARD, ending="-quick"),
    shaped(500, STANDARD, "mnist", ending="-quick"),
    shaped(500, STANDARD, ending="-long"),
    shaped(1000, STANDARD),
    shaped(1000, (2000, 2000)),
    shaped(1000, (2000, 2000), ending="-rate45e-3"),
)
