"""The parameters of the search for sparse codes; imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from attacks.base import AttackParams

Share = Annotated[float, Field(gt=0, le=1)]


class DifferencesParams(AttackParams):
    """Parameters of `neuron-differences`.

    Attributes:
        shares: of the directions of the data subspace that W1 shows, the largest first: what each stage takes. Few
            directions have little noise, many tell many images apart.
        neighbours: neurons that each one is compared with; at least 2, so that there are enough differences.
        starts: differences that a stage starts from, all if there are fewer.
        steps: subgradient steps of a stage.
        lr: the first step of a stage on the unit sphere.
        ridge: of the least squares for the atoms, where the columns of the codes have length 1.
    """

    shares: tuple[Share, ...] = Field((0.35, 0.5, 0.65, 0.8, 0.95), min_length=1)
    neighbours: Annotated[int, Field(ge=2)] = 4
    starts: PositiveInt = 1500
    steps: PositiveInt = 300
    lr: PositiveFloat = 0.1
    ridge: PositiveFloat = 0.3
