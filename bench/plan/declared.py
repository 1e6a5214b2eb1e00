"""What others declare: the entry points of installed packages, and the class attributes of attacks.

An attribute of a wrong type would break lists, and the runs of other attacks.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, InstanceOf, ValidationError

from attacks.base import Attack, AttackParams, Resources
from attacks.search_space import Range

Folders = tuple[tuple[str, int], ...]
"""The path on which packages lie, and when each of its folders was changed, in ns; 0 for one that is not there."""
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


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group."""
    return _read(group, tuple((place, _changed(Path(place))) for place in sys.path))


@lru_cache(maxsize=16)
def _read(group: str, folders: Folders) -> metadata.EntryPoints:
    """Return them as they are; those of some hundred packages take longer to read than a short verb otherwise takes."""
    return metadata.entry_points(group=group)


def _changed(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
