"""The studies of Runkel et al. 2024: what comes out depends on what goes in."""

from __future__ import annotations

from attacks.studies.base import Cell, Plot, Study

AFFINE = ("cifar-mlp-100-affine-wd", "faces-mlp-20-affine-wd", "digits-mlp-20-affine-wd")
HIDDEN = ("faces-mlp-20-256-wd", "digits-mlp-20-128-wd")
STARTS = ("uniform", "truth", "partition")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
SMOKE = "digits-mlp-20-affine-wd"


def start_cells(victims: tuple[str, ...], attacks: tuple[str, ...], starts: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return a cell for each attack on each victim from each start, noise being uniform with the paper's width."""
    return tuple(
        Cell({"start": start}, attack, victim, {"init": start, "init_scale": 0.5})
        for attack in attacks
        for victim in victims
        for start in starts
    )


def mixture_cells(victim: str, shares: tuple[float, ...], steps: int) -> tuple[Cell, ...]:
    """Return a cell for each attack and each mixture of eq. (10)."""
    return tuple(
        Cell(
            {"truth_share": l1, "image_share": l2},
            attack,
            victim,
            {"init": "mixture", "mixture": (l1, l2), "init_scale": 0.5, "steps": steps},
        )
        for attack in ("bilevel", "deco")
        for l2 in shares
        for l1 in shares
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="starts",
        summary="bilevel and deco from noise, the training images and a disjoint partition",
        paper="Runkel et al. 2024, Figs. 1-4 and Table 1",
        cells=start_cells(AFFINE + HIDDEN, ("bilevel", "deco"), STARTS),
        smoke=start_cells((SMOKE,), ("bilevel",), STARTS),
    ),
    Study(
        name="landscape",
        summary="where bilevel and deco end from each mixture of training images, partition and noise",
        paper="Runkel et al. 2024, Figs. 10-12",
        cells=mixture_cells(AFFINE[0], SHARES, 50),
        smoke=mixture_cells(SMOKE, (0.0, 1.0), 10),
        plots=(Plot("map", "truth_share", "image_share", ("attack_loss", "mse_to_training"), logarithmic=True),),
    ),
    Study(
        name="guessing",
        summary="which realistic candidates were members? candidates in the order of the attacks' own confidence",
        paper="Runkel et al. 2024, Figs. 6-7",
        cells=(
            Cell({"start": "partition"}, "bilevel", AFFINE[0], {"init": "partition"}),
            Cell({"start": "partition"}, "deco", AFFINE[0], {"init": "partition"}),
            Cell({"start": "mixture"}, "bilevel", AFFINE[0], {"init": "mixture", "mixture": (0.5, 1.0)}),
            Cell({"start": "normal, tuned"}, "deco", AFFINE[0], {"init_scale": 0.01}),
        ),
        smoke=(Cell({"start": "partition"}, "deco", SMOKE, {"init": "partition", "steps": 20}),),
    ),
)
