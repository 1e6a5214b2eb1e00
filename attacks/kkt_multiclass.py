"""KKT reconstruction from multiclass networks (Buzaglo, Haim, Yehudai, Vardi, Oz, Nikankin, Irani 2023).

The equation is the same as for `kkt` (`victims.equations.stationarity.layer_residuals`), with multipliers on multiclass
margins, eq. 7 of the paper (`attacks.kkt_family.coefficients.margin_gradients`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attacks.base import Knowledge, declined_unless_layered
from attacks.kkt_family.attack import MarginAttack
from attacks.kkt_family.params import BUZAGLO_RANGES, FAST_RANGES, MarginParams
from attacks.search_space import Range

if TYPE_CHECKING:
    from victims.spec import VictimSpec


class KKTMulticlassParams(MarginParams):
    """Parameters of `kkt-multiclass`.

    Attributes:
        rivals: "runner-up" puts a candidate's multiplier on Phi_y - max_{j != y} Phi_j, as published; "all" shares it
            between the rival classes by the softmax of the candidate's own outputs.
    """

    rivals: Literal["all", "runner-up"] = "all"


class KKTMulticlass(MarginAttack[KKTMulticlassParams]):
    """Candidates of every class, and one multiplier each on its margin against the rival classes."""

    name = "kkt-multiclass"
    summary = "stationarity of the multiclass margin problem: lambda_i on Phi_y against its rivals"
    paper = "Buzaglo et al. 2023, Deconstructing Data Reconstruction"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.CLASS_BALANCE})
    Params = KKTMulticlassParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # The authors' released configuration (reconstruct_multiclass_run2).
        "paper": {
            "method": "published",
            "candidates": 1000,
            "restarts": 1,
            "steps": 50_000,
            "lr": 1.362e-3,
            "lambda_lr": 0.4793,
            "init_scale": 6.23e-5,
            "lambda_min": 0.2032,
            "alpha": 39.5,
            "rivals": "runner-up",
            "dtype": "float64",
        },
        # The published coefficients in the fast solver.
        "runner-up": {"rivals": "runner-up"},
    }

    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": FAST_RANGES,
        "paper": BUZAGLO_RANGES | {"lambda_min": Range(0.01, 0.5)},
    }

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline networks whose layers are not known, and those of one output, which have no rival classes."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        if victim.architecture.outputs == 1:
            return "it has one output, and no rival classes: use kkt or kkt-general"
        return super().supports(victim)

    @property
    def rivals(self) -> Literal["all", "runner-up"]:
        """The rival classes that a margin is measured against."""
        return self.params.rivals
