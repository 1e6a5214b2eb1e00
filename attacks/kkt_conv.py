"""Reconstruction from a convolutional network, in the space of its features (beyond Buzaglo et al. 2023, Section 5).

The equation is `victims.equations.convolution`: the stationarity residual of the layer after the convolutions, on
features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import Knowledge, VictimView, declined_unless_layered
from attacks.kkt_family.attack import StationarityAttack
from attacks.kkt_family.params import FAST_RANGES, SearchParams
from attacks.search_space import Range

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attacks.kkt_family.coefficients import Coefficients
    from victims.equations.network import Network
    from victims.spec import VictimSpec


class KKTConvParams(SearchParams):
    """Parameters of `kkt-conv`.

    Attributes:
        activation_span: cost, over sqrt(r), of a candidate whose features are orthogonal to the r directions that W2,
            the weight after one convolution, shows.
        lambda_lr: learning rate of the coefficients, in their units; see `random_coefficients`.
    """

    method: Literal["row-space"] = "row-space"
    restarts: PositiveInt = 4
    steps: PositiveInt = 1000
    lr: PositiveFloat = 0.1
    lambda_lr: PositiveFloat = 0.004
    init_scale: PositiveFloat = 0.1
    coordinate_power: NonNegativeFloat = 1.0
    residual_power: NonNegativeFloat = 0.15
    activation_span: NonNegativeFloat = 0.8
    smoothness: NonNegativeFloat = 3e-2


class KKTConv(StationarityAttack[KKTConvParams]):
    """Candidates whose features make up W2, with coefficients of any sign, and lie in the span that W2 shows.

    No subspace of images is known, so it searches on cosines, and candidates pay for fine ones as natural images are
    distributed: a prior that holds for all natural images and depends on no data set.
    """

    name = "kkt-conv"
    version = 2
    summary = "stationarity of the layer after convolutions, on features that lie in the row space of its weights"
    paper = "after Buzaglo et al. 2023, Section 5; span check after Petrov et al. 2024 (DAGER)"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = KKTConvParams
    protocol = "buzaglo2023-conv"
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": FAST_RANGES
        | {"coordinate_power": Range(0, 3), "activation_span": Range(0.01, 10, log=True)}
        | {"smoothness": Range(1e-4, 1, log=True)},
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline networks whose layers are not known, those without a convolution, or with several outputs."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        if victim.architecture.kind != "conv":
            return f"{victim.architecture.label} has no convolution: use kkt-general"
        if victim.architecture.outputs > 1:
            return f"it has {victim.architecture.outputs} outputs, and this is for one: use conv-span"
        return super().supports(victim)

    def labels(self, view: VictimView, m: int) -> None:
        """Return None: the sign of a coefficient stands for the label."""

    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return small free coefficients, in the units of the layer after the convolutions."""
        from attacks.kkt_family.coefficients import random_coefficients

        return random_coefficients(network.after_convolutions().weights[0], 1, m, generator)
