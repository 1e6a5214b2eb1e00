"""Which attacks can work on a victim, and why the others cannot: what they support, and what they doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from attacks.base import Attack, AttackParams, Threat
from bench.plan.capability import untold
from bench.plan.last_record import TOLD, NoLinearModelError, linear_model
from bench.plan.options import attack_params

if TYPE_CHECKING:
    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec


class Outlook(StrEnum):
    """What can be said of an attack before it runs."""

    OPEN = "can be tried"
    DOUBTED = "cannot work"
    DECLINED = "does not apply"


@dataclass(frozen=True)
class Prospect:
    """An attack with a parameter set, before it is run.

    Attributes:
        attack: the attack.
        variant: its parameter set.
        params: the same in full.
        threat: who can mount it.
        outlook: whether it can work.
        reason: why not; empty where it can be tried.
    """

    attack: type[Attack[Any]]
    variant: str
    params: AttackParams
    threat: Threat
    outlook: Outlook
    reason: str = ""

    @property
    def name(self) -> str:
        """The attack and its parameter set."""
        return named(self.attack.name, self.variant)


def named(attack: str, variant: str) -> str:
    """Return an attack and its parameter set as one name."""
    return f"{attack}:{variant}" if variant else attack


def prospects(
    attacks: Iterable[type[Attack[Any]]], victim: VictimSpec, exposure: Exposure | None
) -> Iterator[Prospect]:
    """Yield each attack that looks at a released model, with each variant that an audit runs.

    Args:
        attacks: all that are known.
        victim: the victim.
        exposure: its exposure card; None before it is measured, and then no attack is doubted.
    """
    for kind in attacks:
        for variant in kind.audits:
            params = attack_params(kind, variant, {})
            attack = kind(params)
            threat = attack.threat
            if threat is None:
                continue
            outlook, reason = Outlook.OPEN, ""
            if kind.setting != victim.setting:
                if (declined := _declined_by_setting(attack, victim)) is not None:
                    outlook, reason = Outlook.DECLINED, declined
            elif (declined := attack.supports(victim)) is not None:
                outlook, reason = Outlook.DECLINED, declined
            elif (lacking := untold(attack.knowledge, victim)) is not None:
                outlook, reason = Outlook.DECLINED, lacking
            elif exposure is not None and (doubted := attack.doubt(exposure)) is not None:
                outlook, reason = Outlook.DOUBTED, doubted
            yield Prospect(kind, variant, params, threat, outlook, reason)


def _declined_by_setting(attack: Attack[Any], victim: VictimSpec) -> str | None:
    """Return why an attack of another setting cannot be tried on a released model, None if it can."""
    if attack.setting == "deletion":
        return "it compares a model before and after a deletion, and is for victims that delete records"
    try:
        model = linear_model(victim)
    except NoLinearModelError as error:
        return str(error)
    if attack.knowledge - TOLD:
        return "it needs the training itself, to repeat it, which an audit cannot"
    return attack.supports(model)
