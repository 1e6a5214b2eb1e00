"""One cell of a plan, and what determines its result."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from attacks.context import UNLIMITED, Budget
from bench.plan.options import parse_budget
from bench.plan.registry import ROOT, Registry
from victims.errors import UserError
from victims.informed.spec import AnySpec

if TYPE_CHECKING:
    from attacks.base import Attack, AttackParams, Knowledge
    from bench.store.records import RunRecord


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

    @classmethod
    def of(cls, record: RunRecord, attacks: Registry[type[Attack[Any]]], victims: Registry[AnySpec]) -> Run:
        """Return the run that a record is of.

        Raises:
            UserError: its attack or victim is not known here, or its parameters are none of that attack.
        """
        for registry, name in ((attacks, record.attack), (victims, record.victim)):
            if name not in registry.items:
                raise UserError(f"{record.run_id}: no {registry.kind} is called {name!r} here; give its --plugin-dir")
        attack = attacks.items[record.attack]
        try:
            params = attack.Params.model_validate(json.loads(record.params_json))
        except (ValueError, ValidationError, RecursionError):
            raise UserError(f"{record.run_id}: {record.attack} has other parameters now; run it again") from None
        victim, budget = victims.items[record.victim], parse_budget(record.budget)
        return cls(attack, params, record.variant, record.tuned_by, victim, record.seed, budget)

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
