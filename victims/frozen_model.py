"""The base of every description of a victim: it is hashed, so it must not change."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt


class FrozenModel(BaseModel):
    """A pydantic model that rejects unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def omitted_if_default(default: Any) -> Any:
    """Return the annotation of a field that a description leaves out where the field has its default.

    A field that is added with this annotation does not change the cache keys of existing victims.
    """
    return Field(exclude_if=lambda value: value == default)


class Recipe(FrozenModel):
    """The base of every description of a training.

    Attributes:
        version: raised when the same description and data lead to other weights than before; it is part of a victim's
            key, and no field that a description sets. A change of what all recipes share (the choice of images, the
            initialisation) raises the versions of all of them.
    """

    version: ClassVar[int] = 1


class Retrainable(FrozenModel):
    """The base of every description of a victim: it can be trained again, on other images and from another seed.

    Attributes:
        name: on the command line; a retraining is called `NAME@RETRAINING`.
        seed: of the training.
        retraining: 0 is the victim as it is described; k is its recipe with the seed k higher, on images taken in an
            order drawn from k. It is no part of the description where it is 0.
    """

    name: str
    seed: int = 1
    retraining: Annotated[NonNegativeInt, omitted_if_default(0)] = 0

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
