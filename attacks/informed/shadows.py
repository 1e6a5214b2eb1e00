"""The attack that `reconn` and `reconn-linear` share: it learns to invert training from shadow models. No torch."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import Field, PositiveInt, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.errors import UserError
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

if TYPE_CHECKING:
    from torch import Tensor

MOST_SHADOWS = 5000
"""The number of shadows that are trained by default, if the pool has as many images."""

SHARE_FOR_SHADOWS = 0.5
"""The share of a budget of time after which no more shadows are trained; the rest is for learning from them."""

SMALLEST = 10
"""The smallest number of shadows to learn from and validate on."""


class ShadowParams(AttackParams):
    """Parameters of an attack that learns from shadow models.

    Attributes:
        shadows: number of shadow models, trained on the first images of the shadow pool; None for all images, at most
            5,000.
        released: the part of a released model that the attack sees: "parameters", or (black box) its "logits" on
            `queries` images of the fixed set.
        layers: for "parameters" alone: the layers whose parameters it sees, from 1; empty for all.
        queries: for "logits" alone: the number of images.
        validation: share of the shadows that is kept apart for validation.
    """

    shadows: PositiveInt | None = None
    released: Literal["parameters", "logits"] = "parameters"
    layers: tuple[PositiveInt, ...] = ()
    queries: PositiveInt = 200
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.1

    @field_validator("layers", "queries")
    @classmethod
    def _used(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a value, other than the default, that says nothing of what is released."""
        name, released = str(info.field_name), info.data.get("released", "")
        unused = {"parameters": "queries", "logits": "layers"}.get(released)
        if name == unused and value != cls.model_fields[name].default:
            raise PydanticCustomError("unused", "released={released} does not use it", {"released": released})
        return value


ParamsT = TypeVar("ParamsT", bound=ShadowParams)


@dataclass(frozen=True)
class Shadows:
    """The shadow models of one fixed set that did not diverge, and the records that they were trained on.

    Attributes:
        features: (k, p) the part of each model that `released` names.
        images: (k, C, H, W) in [0, 1], the record of each model.
        diverged: number of models that diverged and were dropped.
        left_out: number of models that the budget left no time for.
    """

    features: Tensor
    images: Tensor
    diverged: int
    left_out: int

    def split(self, validation: float) -> tuple[Shadows, Shadows]:
        """Return the shadows to learn from, and the last ones, a share `validation` of all, to validate on.

        Of two shadows or more each part has one at least.
        """
        apart = max(1, min(round(validation * len(self.images)), len(self.images) - 1))
        whole = slice(None, -apart), slice(-apart, None)
        first, second = (replace(self, features=self.features[part], images=self.images[part]) for part in whole)
        return first, second

    @property
    def flags(self) -> tuple[str, ...]:
        """Remarks for the reader of the row."""
        dropped = f", {self.diverged} more diverged and were dropped" if self.diverged else ""
        left_out = f", {self.left_out} more left out for the budget" if self.left_out else ""
        return (f"{len(self.images)} shadows{dropped}{left_out}",)


class ShadowAttack(Attack[ParamsT]):
    """Trains shadow models like the released ones, and learns to reconstruct the record from the model."""

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
        """The items of `needs`, with logits instead of weights in the black box."""
        if self.params.released == "parameters":
            return self.needs
        return self.needs - {Knowledge.WEIGHTS} | {Knowledge.LOGITS}

    def supports(self, victim: Any) -> str | None:
        """Decline generalised linear models: there `glm` needs no shadows."""
        return None if victim.kind == "network" else "for networks; `glm` reconstructs from this model in closed form"

    @abstractmethod
    def decode(self, view: VictimView, shadows: Shadows, released: Tensor, ctx: AttackContext) -> Reconstruction:
        """Return the records of the released models, whose features are `released` (T, p), learnt from the shadows."""

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Train the shadows and decode."""
        images, labels = view.shadow_pool
        wanted = self.wanted(view)
        if wanted > len(images):
            raise UserError(f"{wanted} shadows, but the shadow pool has {len(images)} images")
        if wanted < SMALLEST:
            raise UserError(f"{wanted} shadows; expected at least {SMALLEST}")
        released = self._released(view)
        shadows = self.shadows(view, view.known_points, (images[:wanted], labels[:wanted]), ctx)
        return self.decode(view, shadows, released, ctx)

    def wanted(self, view: VictimView) -> int:
        """Return the number of shadows of the true fixed set; they are trained on the first images of the pool."""
        return self.params.shadows or min(len(view.shadow_pool[0]), MOST_SHADOWS)

    def shadows(
        self, view: VictimView, fixed: tuple[Tensor, Tensor], extra: tuple[Tensor, Tensor], ctx: AttackContext
    ) -> Shadows:
        """Return shadow models, each of the fixed set and one extra record, as many as the budget leaves time for.

        Args:
            view: the victim.
            fixed: images (n, C, H, W) and classes (n,) of the fixed set.
            extra: images (k, C, H, W) and classes (k,) of the extra records.
            ctx: context of the attack.

        Raises:
            UserError: too few are left, because others diverged.
        """
        from attacks.informed.standardisation import parameter_features
        from victims.informed.networks import forward_many
        from victims.informed.shadows import train_shadows
        from victims.informed.training import finite

        def report(done: int, total: int) -> None:
            ctx.report(done, total, shadows=done)

        def enough() -> bool:
            limit = ctx.budget.seconds
            return limit is not None and ctx.seconds > SHARE_FOR_SHADOWS * limit

        spec, training = view.architecture.spec, view.training
        assert isinstance(spec, DenseSpec | SmallCNNSpec)
        assert isinstance(training, Descent)
        parameters = train_shadows(spec, training, fixed, extra, view.initial_weights, ctx.device, report, enough)
        kept = finite(parameters)
        if int(kept.sum()) < SMALLEST:
            raise UserError(f"{int((~kept).sum())} of {len(kept)} shadows diverged; too few are left to learn from")
        parameters = {name: value[kept] for name, value in parameters.items()}
        if self.params.released == "logits":
            features = forward_many(spec, parameters, self._queries(view)).flatten(1)
        else:
            features = parameter_features(parameters, self.params.layers)
        images = extra[0][: len(kept)]
        return Shadows(features, images[kept], int((~kept).sum()), len(extra[0]) - len(kept))

    def _released(self, view: VictimView) -> Tensor:
        """Return the features (T, p) of the released models, computed like the shadows' features."""
        from attacks.informed.standardisation import parameter_features

        if self.params.released == "logits":
            return view.logits(self._queries(view)).flatten(1)
        return parameter_features(view.weights, self.params.layers)

    def _queries(self, view: VictimView) -> Tensor:
        """Return the images (queries, C, H, W) whose logits are seen; raises UserError if there are too few."""
        images, _ = view.known_points
        if self.params.queries > len(images):
            raise UserError(f"{self.params.queries} queries, but the fixed set has {len(images)} images")
        return images[: self.params.queries]
