"""One cell of a plan."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attacks.context import UNLIMITED, Budget
from bench.plan.registry import ROOT
from victims.informed.spec import AnySpec

if TYPE_CHECKING:
    from attacks.base import Attack, AttackParams, Knowledge


@dataclass(frozen=True)
class Run:
    """One cell of a plan: an attack with its parameters and its budget, a victim and a seed."""

    attack: type[Attack[Any]]
    params: AttackParams
    variant: str
    tuned_by: str
    victim: AnySpec
    seed: int
    budget: Budget = UNLIMITED

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What the attack is told with these parameters."""
        return self.attack(self.params).knowledge

    def declined(self) -> str | None:
        """Return why the attack cannot run on this victim, None if it can."""
        if self.attack.setting != self.victim.setting:
            return f"the attack is for {self.attack.setting} victims, this one is {self.victim.setting}"
        return self.attack(self.params).supports(self.victim)

    @property
    def title(self) -> str:
        """Short text for people."""
        return f"{self.attack.name}{':' + self.variant if self.variant else ''} on {self.victim.name} seed {self.seed}"


def attack_sources(attack: type[Attack[Any]]) -> list[Path]:
    """Return the attack's own file and those of the helpers that it declares."""
    module = sys.modules[attack.__module__]
    own = Path(module.__file__ or "")
    helpers = [path for name in attack.helpers for path in _sources(ROOT / name.replace(".", "/"))]
    return [own, *helpers]


def _sources(helper: Path) -> list[Path]:
    """Return the files of a package, or the one of a module."""
    return list(helper.rglob("*.py")) if helper.is_dir() else [helper.with_suffix(".py")]
