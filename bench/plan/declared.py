"""The types of an attack's class attributes: a wrong one would break lists, and the runs of other attacks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, InstanceOf, ValidationError

from attacks.base import Attack, AttackParams, Resources
from attacks.search_space import Range

REQUIRED = ("name", "summary", "needs", "Params")


class _Declared(BaseModel):
    """The class attributes of an attack; `check` looks at their values."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    name: str
    summary: str
    paper: str
    needs: frozenset[str]
    Params: type[AttackParams]
    variants: dict[str, dict[str, Any]]
    search_spaces: dict[str, dict[str, Range]]
    control: bool
    setting: str
    protocol: str
    audits: tuple[str, ...]
    resources: InstanceOf[Resources]
    version: int


def require_declared(attack: type[Attack[Any]]) -> None:
    """Check that an attack declares what it must, each attribute of its type, each parameter with a default.

    Raises:
        TypeError: it does not.
    """
    missing = [name for name in REQUIRED if not hasattr(attack, name)]
    if missing:
        raise TypeError(f"{attack.__name__} lacks the class attribute {', '.join(missing)}")
    try:
        _Declared.model_validate({name: getattr(attack, name) for name in _Declared.model_fields})
    except ValidationError as error:
        first = error.errors()[0]
        attribute, *where = map(str, first["loc"])
        place = f" at {' '.join(where)}" if where else ""
        raise TypeError(f"{attack.__name__}.{attribute}{place}: {first['msg']}") from None
    bare = [name for name, field in attack.Params.model_fields.items() if field.is_required()]
    if bare:
        raise TypeError(f"{attack.__name__}.Params: {', '.join(bare)} needs a default that works")
