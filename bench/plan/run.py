"""One run: an attack with its parameters and its budget, a victim and a seed."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attacks.context import UNLIMITED, Budget
from bench.plan.capability import untold
from bench.plan.options import value_text
from bench.terminal.text import LONGEST_QUOTE, one_line, variant_name
from victims.errors import UserError
from victims.files import sha256_json
from victims.informed.spec import AnySpec, InformedSpec
from victims.source import Sources

if TYPE_CHECKING:
    from attacks.base import Attack, AttackParams, Knowledge

TABULAR = "vero2023"
"""The protocol of victims whose records are rows of a table."""
NAMING = "hayes2023"
"""The protocol of victims that have a prior."""
SOUGHT = {
    "dataset": "all training records",
    "informed": "the one record that the attacker does not know",
    "deletion": "the records that a release has deleted",
}
"""What is sought of the victims of a setting."""


@dataclass(frozen=True)
class Run:
    """One run: an attack with its parameters and its budget, a victim and a seed.

    Attributes:
        attack: the attack's class.
        params: all of its parameters.
        variant: name of the parameter set that they come from, "" for the defaults.
        tuned_by: who chose them: the column of that name.
        victim: the victim's description, with its defences and its retraining.
        seed: of the attack.
        budget: what the attack may spend.
        apart: its parameters that tell it from another run of its title, as `told_apart` says them; empty without one.
    """

    attack: type[Attack[Any]]
    params: AttackParams
    variant: str
    tuned_by: str
    victim: AnySpec
    seed: int
    budget: Budget = UNLIMITED
    apart: str = ""

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What the attack is told with these parameters."""
        return self.attack(self.params).knowledge

    @property
    def params_hash(self) -> str:
        """Hash of all parameters, by name, defaults included: the column of that name."""
        return sha256_json(self.params.model_dump(mode="json"))[:10]

    @property
    def protocol(self) -> str:
        """The scoring protocol of its row."""
        return protocol_of(self.attack, self.victim)

    def declined(self) -> str | None:
        """Return why the attack cannot run on this victim, None if it can; the description alone tells, untrained."""
        if self.attack.setting != self.victim.setting:
            sought = SOUGHT.get(self.attack.setting, self.attack.setting)  # a plug-in may name one that there is not
            return f"the attack seeks {sought}; here it is {SOUGHT[self.victim.setting]}"
        attack = self.attack(self.params)
        return attack.supports(self.victim) or untold(attack.knowledge, self.victim)

    def possible(self) -> bool:
        """Return whether the attack takes this victim, False if it raises instead of saying so; its row tells why."""
        try:
            return self.declined() is None
        except Exception:
            return False

    @property
    def title(self) -> str:
        """Short text for people."""
        name = " ".join(filter(None, (variant_name(self.attack.name, self.variant), self.apart)))
        return f"{name} on {self.victim.name} seed {self.seed}"


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Return runs in their order, each with the parameters in which it differs from others of the same title."""
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        alike[run.title].append(run.params.model_dump(mode="json"))
    return [replace(run, apart=_differing(run, alike[run.title])) for run in runs]


def _differing(run: Run, alike: Sequence[Mapping[str, Any]]) -> str:
    params = run.params.model_dump(mode="json")
    names = [name for name, value in params.items() if any(value != other.get(name) for other in alike)]
    return one_line(" ".join(f"{name}={value_text(params[name])}" for name in names), LONGEST_QUOTE)


def protocol_of(attack: type[Attack[Any]], victim: AnySpec) -> str:
    """Return the protocol of a run: the attack's own, except on victims with a prior and on rows of a table."""
    if isinstance(victim, InformedSpec) and victim.prior is not None:
        return NAMING
    return TABULAR if victim.setting == "dataset" and victim.tabular else attack.protocol


def attack_sha(attack: type[Attack[Any]]) -> str:
    """Return a hash, 16 hex digits, of the syntax trees of an attack's file and all that it imports of this repository.

    It is empty if the source cannot be read.
    """
    try:
        return Sources().sha256(Path(sys.modules[attack.__module__].__file__ or ""))[:16]
    except (OSError, ValueError, SyntaxError):
        return ""


def retraining_of(spec: AnySpec, retraining: int) -> AnySpec:
    """Return a retraining of a victim.

    Raises:
        UserError: it cannot be trained again, since its training is not known here.
    """
    if retraining and spec.training.kind == "released":
        raise UserError(f"--victim-seeds {retraining}: {spec.name} has released weights, and is not trained here")
    return spec.retrained(retraining)
