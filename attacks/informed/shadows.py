"""Attacks that learn to invert training from shadow models: what they share. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, PositiveInt

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.errors import UserError
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

if TYPE_CHECKING:
    from torch import Tensor

MOST_SHADOWS = 5000
"""How many shadows are trained, if the pool has as many, unless the parameters say otherwise."""

SMALLEST = 10
"""The fewest shadows that can be learned from and validated on."""


class ShadowParams(AttackParams):
    """Parameters of an attack that learns from shadow models.

    Attributes:
        shadows: how many, of the first images of the shadow pool; None for all of them, at most 5,000.
        released: what the attack sees of a released model: its parameters, or (black box) its logits on `queries`
            images of the fixed set.
        layers: the layers whose parameters it sees, from 1; none named means all.
        queries: see `released`.
        validation: share of the shadows that is kept apart to choose what was learned.
    """

    shadows: PositiveInt | None = None
    released: Literal["parameters", "logits"] = "parameters"
    layers: tuple[PositiveInt, ...] = ()
    queries: PositiveInt = 200
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.1


ParamsT = TypeVar("ParamsT", bound=ShadowParams)


@dataclass(frozen=True)
class Shadows:
    """Shadow models of one fixed set that did not diverge, as `released` shows them, and the records they hold.

    Attributes:
        features: (k, p).
        images: (k, C, H, W) in [0, 1].
        diverged: how many were dropped.
    """

    features: Tensor
    images: Tensor
    diverged: int

    def split(self, validation: float) -> tuple[Shadows, Shadows]:
        """Return those to learn from, and the last ones, a share `validation` of all, which are kept apart."""
        apart = max(1, round(validation * len(self.images)))
        whole = slice(None, -apart), slice(-apart, None)
        first, second = (Shadows(self.features[part], self.images[part], self.diverged) for part in whole)
        return first, second

    @property
    def flags(self) -> tuple[str, ...]:
        """What the reader of the row should know."""
        dropped = f", {self.diverged} more diverged and were dropped" if self.diverged else ""
        return (f"{len(self.images)} shadows{dropped}",)


class ShadowAttack(Attack[ParamsT]):
    """Trains shadow models as the released ones were trained, and learns to tell the record from the model."""

    needs = frozenset(
        {
            Knowledge.ARCHITECTURE,
            Knowledge.WEIGHTS,
            Knowledge.KNOWN_POINTS,
            Knowledge.TRAINING,
            Knowledge.INITIAL_WEIGHTS,
            Knowledge.SHADOW_POOL,
        }
    )
    setting = "informed"
    protocol = "balle2022"

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What `needs` says, but logits in the place of weights where they are all that is seen."""
        if self.params.released == "parameters":
            return self.needs
        return self.needs - {Knowledge.WEIGHTS} | {Knowledge.LOGITS}

    def supports(self, victim: Any) -> str | None:
        """Decline generalised linear models: there `glm` needs no shadows."""
        return None if victim.kind == "network" else "for networks; `glm` reconstructs from this model in closed form"

    @abstractmethod
    def decode(self, view: VictimView, shadows: Shadows, released: Tensor, ctx: AttackContext) -> Reconstruction:
        """Learn from the shadows and reconstruct the records of the released models, features (T, p)."""

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Train the shadows and decode."""
        images, labels = view.shadow_pool
        wanted = self.params.shadows or min(len(images), MOST_SHADOWS)
        if wanted > len(images):
            raise UserError(f"{wanted} shadows, but the shadow pool has {len(images)} images")
        if wanted < SMALLEST:
            raise UserError(f"{wanted} shadows; expected at least {SMALLEST}")
        released = self._released(view)
        shadows = self.shadows(view, view.known_points, (images[:wanted], labels[:wanted]), ctx)
        return self.decode(view, shadows, released, ctx)

    def shadows(
        self, view: VictimView, fixed: tuple[Tensor, Tensor], extra: tuple[Tensor, Tensor], ctx: AttackContext
    ) -> Shadows:
        """Train a shadow model on a fixed set and each extra record.

        Raises:
            UserError: too few are left of those that diverged.
        """
        from attacks.informed.features import parameter_features
        from victims.informed.networks import forward_many
        from victims.informed.shadows import train_shadows
        from victims.informed.training import finite

        def report(done: int, total: int) -> None:
            ctx.report(done, total, shadows=done)

        spec, training = view.architecture.spec, view.training
        assert isinstance(spec, DenseSpec | SmallCNNSpec)
        assert isinstance(training, Descent)
        parameters = train_shadows(spec, training, fixed, extra, view.initial_weights, ctx.device, report)
        kept = finite(parameters)
        if int(kept.sum()) < SMALLEST:
            raise UserError(f"{int((~kept).sum())} of {len(kept)} shadows diverged; too few are left to learn from")
        parameters = {name: value[kept] for name, value in parameters.items()}
        if self.params.released == "logits":
            features = forward_many(spec, parameters, self._queries(view)).flatten(1)
        else:
            features = parameter_features(parameters, self.params.layers)
        return Shadows(features, extra[0][kept], int((~kept).sum()))

    def _released(self, view: VictimView) -> Tensor:
        """Return the released models (T, p) as the shadows' features show them."""
        from attacks.informed.features import parameter_features

        if self.params.released == "logits":
            return view.logits(self._queries(view)).flatten(1)
        return parameter_features(view.weights, self.params.layers)

    def _queries(self, view: VictimView) -> Tensor:
        images, _ = view.known_points
        if self.params.queries > len(images):
            raise UserError(f"{self.params.queries} queries, but the fixed set has {len(images)} images")
        return images[: self.params.queries]
