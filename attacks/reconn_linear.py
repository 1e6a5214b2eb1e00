"""The baseline of RecoNN: ridge regression from a model's parameters to the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks.base import AttackContext, Reconstruction, VictimView
from attacks.informed.shadows import ShadowAttack, ShadowParams, Shadows

if TYPE_CHECKING:
    from torch import Tensor


class ReconnLinear(ShadowAttack[ShadowParams]):
    """Ridge regression from the features of shadow models to the records that they hold."""

    name = "reconn-linear"
    summary = "baseline of reconn: ridge regression from shadow models' parameters to their records"
    paper = "baseline, after Balle, Cherubin, Hayes 2022"
    Params = ShadowParams

    def decode(self, view: VictimView, shadows: Shadows, released: Tensor, ctx: AttackContext) -> Reconstruction:
        """Return the records that the fitted map reads off the released models' features (T, p)."""
        from attacks.informed.ridge import fit_ridge
        from attacks.informed.standardisation import Standardisation

        learned, apart = shadows.split(self.params.validation)
        scale = Standardisation.of(learned.features)
        pairs = [(scale(part.features), part.images.flatten(1)) for part in (learned, apart)]
        ridge = fit_ridge(*pairs[0], pairs[1])
        ctx.record(0, validation_mse=ridge.error, strength=ridge.strength)
        return Reconstruction(
            candidates=ridge(scale(released)).view(-1, *shadows.images.shape[1:]),
            loss=ridge.error,
            flags=shadows.flags,
        )
