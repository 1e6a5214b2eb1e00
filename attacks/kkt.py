"""KKT margin reconstruction (Haim, Vardi, Yehudai, Shamir, Irani 2022).

The equation, eq. 3 of the paper, is `victims.equations.stationarity.layer_residuals`; the form that runs is
`victims.equations.adjoint.StationarityResidual`, with coefficients lambda_i y_i
(`attacks.kkt_family.coefficients.margin_coefficients`). The fast solver is `attacks.kkt_family.search.search`, the
authors' loop `attacks.kkt_family.published.published_search`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from attacks.base import Knowledge, declined_unless_layered
from attacks.kkt_family.attack import MarginAttack
from attacks.kkt_family.params import FAST_RANGES, MarginParams
from attacks.search_space import Range

if TYPE_CHECKING:
    from victims.spec import VictimSpec


class KKT(MarginAttack[MarginParams]):
    """Finds candidates and multipliers that satisfy the stationarity of the margin problem at the released weights."""

    name = "kkt"
    summary = "stationarity of the margin problem: theta = sum lambda_i y_i grad Phi(x_i)"
    paper = "Haim et al. 2022, Reconstructing Training Data from Trained Neural Networks"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE})
    Params = MarginParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # Gates that sharpen, alike for neurons of all norms, and the price and powers of kkt-general.
        "graduated": {
            "restarts": 4,
            "steps": 600,
            "lr": 0.3,
            "lambda_lr": 0.03,
            "alpha": 50.0,
            "first_alpha": 5.0,
            "gate_power": 1.0,
            "coordinate_power": 0.25,
            "residual_power": 0.5,
            "sparsity": 0.1,
            "products": "bfloat16",
        },
        # The authors' released CIFAR configuration (run b9dfyspx of their sweep) and their 50,000 steps.
        "paper": {
            "method": "published",
            "candidates": 1000,
            "restarts": 1,
            "steps": 50_000,
            "lr": 0.5549,
            "lambda_lr": 1e-4,
            "init_scale": 8.857e-4,
            "lambda_min": 0.4983,
            "alpha": 19.14,
            "dtype": "float64",
        },
    }

    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": FAST_RANGES,
        "graduated": FAST_RANGES | {"sparsity": Range(0, 0.2)},
        # Haim et al. 2022, Appendix B.
        "paper": {
            "lr": Range(1e-5, 1, log=True),
            "init_scale": Range(1e-6, 1, log=True),
            "lambda_min": Range(1e-4, 1, log=True),
            "alpha": Range(10, 500),
        },
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline unknown layers, several outputs and regressions: only a binary classifier has this margin."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        if victim.architecture.outputs > 1:
            return f"it has {victim.architecture.outputs} outputs, and kkt takes one: use kkt-multiclass"
        if victim.loss != "cross-entropy":
            return f"it is a regression ({victim.loss}), which has no margin: use kkt-general"
        return super().supports(victim)
