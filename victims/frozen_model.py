"""The base of every description of a victim: it is hashed, so it must not change."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A pydantic model that rejects unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
