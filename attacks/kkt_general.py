"""Reconstruction from any loss, with or without weight decay (Buzaglo et al. 2023, Section 5).

The equation is `victims.equations.stationarity.layer_residuals`; the form that runs is
`victims.equations.adjoint.StationarityResidual`, with free or tied coefficients (`attacks.kkt_family.coefficients`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from attacks.base import Knowledge, VictimView, declined_unless_layered
from attacks.kkt_family.attack import StationarityAttack
from attacks.kkt_family.params import BUZAGLO_RANGES, FAST_RANGES, SearchParams
from attacks.optimisation.initialisation import balanced_labels
from attacks.search_space import Range

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attacks.kkt_family.coefficients import Coefficients
    from victims.equations.network import Network
    from victims.spec import VictimSpec


class KKTGeneralParams(SearchParams):
    """Parameters of `kkt-general`.

    Attributes:
        coefficients: "free" for one coefficient of any sign for each output, which needs neither labels nor loss;
            "tied" for -L'(Phi(x_i), y_i) of the candidate's own outputs times a positive factor, which needs the loss
            and the class balance, and a victim with weight decay.
        lambda_lr: learning rate of free coefficients, in the units of `random_coefficients`, or of the logarithm of the
            factor of tied ones.
    """

    coefficients: Literal["free", "tied"] = "free"
    restarts: PositiveInt = 4
    steps: PositiveInt = 600
    lr: PositiveFloat = 0.3
    lambda_lr: PositiveFloat = 0.03
    alpha: PositiveFloat = 50.0
    coordinate_power: NonNegativeFloat = 0.25
    residual_power: NonNegativeFloat = 0.5
    sparsity: NonNegativeFloat = 0.05


class KKTGeneral(StationarityAttack[KKTGeneralParams]):
    """Candidates and coefficients at which mean loss + (wd / 2) ||theta||^2 is stationary, for any loss.

    There theta = sum_i l_i grad Phi(x_i) holds with l_i = -L'(Phi(x_i), y_i) / (n wd). Without weight decay it is
    assumed that the initial weights are small or forgotten, as on the way to a KKT point.
    """

    name = "kkt-general"
    summary = "stationarity of any loss with weight decay: theta = sum l_i grad Phi(x_i), l_i of any sign"
    paper = "Buzaglo et al. 2023, Deconstructing Data Reconstruction"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = KKTGeneralParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "graduated": {"first_alpha": 5.0, "sparsity": 0.1, "products": "bfloat16"},
        # The authors' released configuration (reconstruct_regression_run1); it leaves lambda_lr at its default.
        "paper": {
            "method": "published",
            "candidates": 1000,
            "restarts": 1,
            "steps": 50_000,
            "lr": 0.9518,
            "lambda_lr": 1e-4,
            "init_scale": 0.01975,
            "alpha": 90.3,
            "dtype": "float64",
        },
        "tied": {"coefficients": "tied", "lambda_lr": 0.1, "sparsity": 0.0},
    }

    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {
        "": FAST_RANGES | {"sparsity": Range(0, 0.2)},
        "graduated": FAST_RANGES | {"sparsity": Range(0, 0.2)},
        "tied": FAST_RANGES,
        "paper": BUZAGLO_RANGES,
    }

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, and for tied coefficients the loss and the class balance."""
        tie = {Knowledge.LOSS, Knowledge.CLASS_BALANCE}
        return super().knowledge | (tie if self.params.coefficients == "tied" else frozenset())

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline unknown layers, tied coefficients without weight decay, and the fast solver on a convolution."""
        if (reason := declined_unless_layered(victim)) is not None:
            return reason
        if self.params.coefficients == "tied" and not victim.weight_decay:
            return "it has no weight decay, which ties coefficients to the loss: use free ones"
        if victim.architecture.kind == "conv" and self.params.method == "row-space":
            other = "kkt-conv" if victim.architecture.outputs == 1 else "conv-span"
            return f"its first layer is a convolution: use {other}, or the published method"
        return super().supports(victim)

    def labels(self, view: VictimView, m: int) -> Tensor | None:
        """Return classes (m,) in the proportions of the training set; None for free coefficients, which have a sign."""
        return balanced_labels(m, view.class_balance) if self.params.coefficients == "tied" else None

    def coefficients(
        self, view: VictimView, network: Network, labels: Tensor | None, m: int, generator: torch.Generator
    ) -> Coefficients:
        """Return tied coefficients, or Gaussian free ones: of the published size, or small in the units of layer 1."""
        import torch

        from attacks.kkt_family.coefficients import (
            free_coefficients,
            random_coefficients,
            tied_coefficients,
            tied_start,
        )

        outputs = len(network.weights[-1])
        if labels is not None:
            start = tied_start(view.loss, labels, network.weights[0], outputs)
            return tied_coefficients(view.loss, labels, start)
        if self.params.method == "published":
            return free_coefficients(torch.randn(m, outputs, generator=generator).to(network.weights[0]))
        return random_coefficients(network.weights[0], outputs, m, generator)
