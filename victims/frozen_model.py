"""The base of every description of a victim: it is hashed, so it must not change."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, SerializerFunctionWrapHandler, model_serializer


class FrozenModel(BaseModel):
    """A pydantic model that rejects unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Recipe(FrozenModel):
    """The base of every description of a training.

    Attributes:
        version: raised when the same description and data lead to other weights than before; it is part of a victim's
            key, and no field that a description sets. What all recipes share (the choice of images, the
            initialisation) raises all of them.
        young: fields that were added after victims had been stored; at their defaults they are in no victim's key.
    """

    version: ClassVar[int] = 1
    young: ClassVar[frozenset[str]] = frozenset()

    def at_default(self) -> set[str]:
        """Return the young fields that have their defaults."""
        return {name for name in self.young if getattr(self, name) == type(self).model_fields[name].default}


class Retrainable(FrozenModel):
    """The base of every description of a victim: it can be trained again, on other images and from another seed.

    Attributes:
        name: on the command line; that of a retraining is `NAME@RETRAINING`.
        seed: of the training.
        retraining: 0 is the victim as it is described; k is its recipe with the seed k higher, on images taken in an
            order drawn from k. It is no part of the description where it is 0.
    """

    name: str
    seed: int = 1
    retraining: NonNegativeInt = 0

    @model_serializer(mode="wrap")
    def _without_no_retraining(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if not self.retraining:
            values.pop("retraining", None)
        return values

    def retrained(self, retraining: int) -> Self:
        """Return a retraining of the victim as it is described, which is the retraining 0."""
        if not retraining:
            return self
        changes = {"name": f"{self.name}@{retraining}", "seed": self.seed + retraining, "retraining": retraining}
        return self.model_copy(update=changes)

    @property
    def described(self) -> Self:
        """The victim as it is described, of which this is a retraining."""
        if not self.retraining:
            return self
        changes = {"name": self.name.rpartition("@")[0], "seed": self.seed - self.retraining, "retraining": 0}
        return self.model_copy(update=changes)
