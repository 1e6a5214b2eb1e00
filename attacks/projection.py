"""Reconstruction from a wide last layer alone, on features that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from attacks.base import Attack, AttackContext, Knowledge, Reconstruction, VictimView, no_reconstruction
from attacks.known_start.params import ProjectionParams

if TYPE_CHECKING:
    from torch import Tensor

    from attacks.known_start.projection_loss import ProjectionLoss
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

UNEQUAL = "Adam scales each entry of a gradient by its own factor: what was learnt is no sum over the images' features"
FADED = "weight decay shrank the start of its last layer, which does not show by how much"
MORE = "more than its last layer moved, and the features with it: use kkt-delta, or kkt-delta-features"
BATCHED = "it has, or may have, batch normalisation, and then its features were those of a batch, not of an image"
STOOD = "its last layer did not move: nothing was learnt"


class Projection(Attack[ProjectionParams]):
    """Images whose features span what the last layer has learnt, W - W(0) = sum_i c_i phi(x_i)'.

    No label and no coefficient is searched: for given images the best coefficients are a least-squares solution. The
    published attack descends from n candidates, as `--variant plain` does, on the sphere that its images lie on.
    """

    name = "projection"
    summary = "images whose features span the update of the last layer: W - W(0) = sum c_i phi(x_i)'"
    paper = "Iurada et al. 2026; candidates to spare are new here"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.INITIAL_WEIGHTS, Knowledge.N})
    Params = ProjectionParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {"plain": {"surplus": 0, "rounds": 1, "steps": 2000}}

    def supports(self, victim: VictimSpec) -> str | None:
        """Return why not: it needs a start that was kept, and a last layer that moved alone, by sums of gradients."""
        if not victim.tells_start:
            return "the start of its training is not known"
        if victim.architecture.kind in ("module", "tail", "smooth"):
            return f"{victim.architecture.label}: its last layer is not known"
        if victim.architecture.kind in ("cnn", "front"):
            return BATCHED
        if victim.training.kind == "ordinary" and victim.training.last_layers != 1:
            return MORE
        if victim.training.kind == "ordinary" and victim.training.optimiser != "sgd":
            return UNEQUAL
        return FADED if victim.weight_decay else None

    def doubt(self, exposure: Exposure) -> str | None:
        """Doubt a network of which more than the last layer moved, or with fewer weights than there are unknowns."""
        if exposure.start is not None and exposure.start.stayed < exposure.hidden:
            return MORE
        if exposure.equations_per_unknown < 1:
            return f"{exposure.equations_per_unknown:.2g} weights for each unknown pixel are too few to tell them"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search for n images, with candidates to spare, until the update is spanned.

        Raises:
            ValueError: the victim has no one start.
        """
        import torch

        from attacks.known_start.projection_loss import ProjectionLoss
        from attacks.known_start.pursuit import Pursuit
        from victims.equations.network import layer_weights

        params, shape = self.params, view.architecture.input_shape
        m = params.candidates or view.n
        if (start := view.initial_weights) is None:
            raise ValueError("the victim has no one start")
        network = view.architecture.build()
        network.load_state_dict(end := view.weights)
        moved = [name for name in end if not torch.equal(start[name], end[name])]
        last = f"layers.{len(layer_weights(end)) - 1}."
        if others := [name for name in moved if not name.startswith(last)]:
            return no_reconstruction(shape, f"{MORE} ({len(others)} other tensors differ)")
        if not moved:
            return no_reconstruction(shape, STOOD)
        loss = ProjectionLoss.of(network.to(getattr(torch, params.dtype)).requires_grad_(False), start, shape)
        pursuit = Pursuit(loss, (m, shape[0] * shape[1] * shape[2]), params, ctx)
        pursuit.run()
        images, told = _sized(loss, pursuit.best, params.pixel_size)
        added = loss.added(pursuit.best)
        if params.signs == "both":
            images, added = torch.cat([images, -images]), added.repeat(2)
        ratio = loss.learnt.numel() / (view.n * images.shape[1])
        return Reconstruction(
            candidates=images.reshape(-1, *shape).float(),
            confidence=added.float(),
            resolved={} if params.candidates else {"candidates": m},
            loss=pursuit.loss,
            grad_evals=pursuit.spent,
            flags=(f"{ratio:.3g} weights of the last layer for each unknown pixel", *told),
        )


def _sized(loss: ProjectionLoss, found: Tensor, pixel_size: float) -> tuple[Tensor, tuple[str, ...]]:
    """Return candidates (m, d) of the length that the features tell, or of a common one where they tell none."""
    import torch

    with torch.no_grad():
        once, twice = loss.features(found), loss.features(2 * found)
    if not torch.allclose(2 * once, twice, rtol=1e-4):
        return found, ()
    lengths = found.norm(dim=1, keepdim=True).clamp_min(torch.finfo(found.dtype).tiny)
    return found / lengths * pixel_size * found.shape[1] ** 0.5, ("features tell no length: all candidates have one",)
