"""The null control: random candidates in the subspace that `kkt` searches (`victims.equations.row_space`)."""

from __future__ import annotations

from attacks.base import Attack, AttackContext, ControlParams, Knowledge, Reconstruction, VictimView
from victims.networks import DENSE_FIRST


class Random(Attack[ControlParams]):
    """Draws Gaussian images in the row space of W1: their scores are those of no attack.

    They have the spectrum of W1 if it has a gap, and a flat one otherwise. Behind a convolution they are noise on all
    pixels.
    """

    name = "random"
    summary = "null control: random candidates in the row space of W1"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = ControlParams
    control = True

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return random images (candidates, C, H, W) of the contrast; on all pixels if W1 shows no image subspace."""
        import torch

        from victims.equations.row_space import row_space

        shape = view.architecture.input_shape
        if view.architecture.spec.kind not in DENSE_FIRST:  # the first layer shows no subspace of images
            noise = torch.randn(self.params.candidates, *shape, generator=ctx.generator)
            return Reconstruction(candidates=noise.to(ctx.device) * self.params.contrast)
        space = row_space(view.weights["layers.0.weight"].float())
        draw = torch.randn(self.params.candidates, space.rank, generator=ctx.generator).to(space.basis)
        pixels = (draw * space.singular) @ space.basis.T
        pixels = pixels / pixels.std(1, keepdim=True) * self.params.contrast
        return Reconstruction(candidates=pixels.reshape(-1, *shape))
