"""Reconstruction in the spans that the weights show, for networks of several outputs (beyond Buzaglo et al. 2023).

The equation is that of `kkt-general`; the spans are `victims.equations.spans`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.kkt_family.params import FAST_RANGES
from attacks.kkt_general import KKTGeneral, KKTGeneralParams
from attacks.search_space import Range

if TYPE_CHECKING:
    from victims.spec import VictimSpec


class KKTSpanParams(KKTGeneralParams):
    """Parameters of `kkt-span`: those of `kkt-general`, with free coefficients in the fast solver."""

    method: Literal["row-space"] = "row-space"
    coefficients: Literal["free"] = "free"
    restarts: PositiveInt = 1
    steps: PositiveInt = 2500
    lr: PositiveFloat = 0.1
    lambda_lr: PositiveFloat = 0.01
    alpha: PositiveFloat = 35.0
    coordinate_power: NonNegativeFloat = 0.5
    signal_span: NonNegativeFloat = 0.15
    activation_span: NonNegativeFloat = 0.45


class KKTSpan(KKTGeneral):
    """`kkt-general`, where each candidate pays for leaving the spans that the weights show.

    If layer 2 shows no span of activations, as with one output, candidates pay for their back-propagated errors alone,
    and `kkt-general` reconstructs more images.
    """

    name = "kkt-span"
    summary = "kkt-general, whose candidates' errors and activations stay in the spans that W1 and W2 show"
    paper = "after Buzaglo et al. 2023; span checks after Petrov et al. 2024 (DAGER), Dimitrov et al. 2024 (SPEAR)"
    Params = KKTSpanParams
    candidates_per_direction = 1.4
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # Gates that sharpen, alike for neurons of all norms; they bear higher prices and take fewer steps.
        "graduated": {
            "steps": 1000,
            "first_alpha": 5.0,
            "gate_power": 1.0,
            "signal_span": 0.3,
            "activation_span": 1.0,
            "products": "bfloat16",
        },
    }
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        name: FAST_RANGES
        | {
            "sparsity": Range(0, 0.2),
            "signal_span": Range(0.01, 10, log=True),
            "activation_span": Range(0.01, 10, log=True),
        }
        for name in ("", "graduated")
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline convolutions, which `kkt-conv` is for."""
        if victim.architecture.kind == "conv":
            return "its first layer is a convolution: use kkt-conv"
        return super().supports(victim)
