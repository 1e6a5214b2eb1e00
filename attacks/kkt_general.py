"""Reconstruction from any loss, with or without weight decay (Buzaglo et al. 2023, Section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from attacks.base import Knowledge, VictimView
from attacks.search_space import Range
from attacks.stationarity.attack import StationarityAttack
from attacks.stationarity.params import BUZAGLO_RANGES, FAST_RANGES, SearchParams

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attacks.stationarity.coefficients import Coefficients
    from attacks.stationarity.network import Network


class KKTGeneral(StationarityAttack[SearchParams]):
    """Candidates with coefficients of any sign, one for each output; neither labels nor loss need be known.

    At a stationary point of mean loss + (wd / 2) ||theta||^2 the equation holds with l_i = -L'(Phi(x_i), y_i) / (n wd).
    Without weight decay it is assumed that the initial weights are small or forgotten, as on the way to a KKT point.
    """

    name = "kkt-general"
    summary = "stationarity of any loss with weight decay: theta = sum l_i grad Phi(x_i), l_i of any sign"
    paper = "Buzaglo et al. 2023, Deconstructing Data Reconstruction"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = SearchParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        # The authors' released configuration (reconstruct_regression_run1).
        "paper": {
            "method": "published",
            "candidates": 1000,
            "restarts": 1,
            "steps": 50_000,
            "lr": 0.9518,
            "lambda_lr": 0.9518,
            "init_scale": 0.01975,
            "alpha": 90.3,
            "dtype": "float64",
        },
    }

    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {"": FAST_RANGES, "paper": BUZAGLO_RANGES}

    def labels(self, view: VictimView, m: int) -> None:
        """Return None: the sign of a coefficient stands for the label."""

    def coefficients(self, network: Network, labels: Tensor | None, m: int, generator: torch.Generator) -> Coefficients:
        """Return Gaussian coefficients, of the published size or such that their sum is of order one."""
        import torch

        from attacks.stationarity.coefficients import free_coefficients

        draw = torch.randn(m, len(network.weights[-1]), generator=generator).to(network.weights[0])
        return free_coefficients(draw if self.params.method == "published" else draw / m)
