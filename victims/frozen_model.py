"""The base of every description of a victim: it is hashed, so it must not change."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


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
