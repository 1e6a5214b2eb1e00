"""The weights of the first layer, looked at as images (Haim et al. 2022, Appendix, Figs. 14 and 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import PositiveFloat

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.networks import DENSE_FIRST

if TYPE_CHECKING:
    from victims.spec import VictimSpec


class FirstLayerParams(AttackParams):
    """Parameters of `first-layer`.

    Attributes:
        contrast: each neuron's weights are scaled so that the largest has this size, in pixel units.
    """

    contrast: PositiveFloat = 0.5


class FirstLayer(Attack[FirstLayerParams]):
    """Every row of W1 is a candidate: each is a sum of training images, weighted by the KKT multipliers."""

    name = "first-layer"
    summary = "the rows of W1 as images, nothing optimised"
    paper = "Haim et al. 2022, Appendix, Figs. 14-15"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = FirstLayerParams

    def supports(self, victim: VictimSpec) -> str | None:
        """Decline networks whose first layer is not fully connected: its weights are no images."""
        if victim.architecture.kind not in DENSE_FIRST:
            return f"{victim.architecture.label}: it learnt no first layer that sees the whole input"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the rows of W1 as candidates (h_1, C, H, W), their lengths as confidence: long rows learnt most."""
        rows = view.weights["layers.0.weight"].float()
        largest = rows.abs().amax(1, keepdim=True).clamp_min(1e-30)
        images = (rows / largest * self.params.contrast).reshape(-1, *view.architecture.input_shape)
        return Reconstruction(candidates=images, confidence=rows.norm(dim=1))
