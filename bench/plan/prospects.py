"""Which attacks can work on a victim, and why the others cannot: what they support, and what they doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from attacks.base import Attack, AttackParams, Threat, threat_of
from bench.plan.capability import untold
from bench.plan.last_record import TOLD, NoLinearModelError, linear_model
from bench.plan.options import attack_params
from bench.terminal.text import describe, variant_name

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
        variant: name of its parameter set, "" for the defaults.
        params: all parameters of that set.
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
        return variant_name(self.attack.name, self.variant)


def prospects(
    attacks: Iterable[type[Attack[Any]]], victim: VictimSpec, exposure: Exposure | None
) -> Iterator[Prospect]:
    """Yield each attack with each variant that an audit runs of it; controls are left out.

    Args:
        attacks: all that are known.
        victim: the victim.
        exposure: its exposure card; None before it is measured, and then no attack is doubted.
    """
    for kind in attacks:
        for variant in kind.audits:
            params, threat = kind.Params(), None if kind.control else threat_of(kind.needs)
            try:
                params = attack_params(kind, variant, {})
                attack = kind(params)
                threat = attack.threat
                outlook, reason = _outlook(attack, victim, exposure)
            except Exception as error:  # a plug-in's own methods, which must cost only itself
                outlook, reason = Outlook.DECLINED, f"it cannot say whom it takes: {describe(error)}"
            if threat is not None:
                yield Prospect(kind, variant, params, threat, outlook, reason)


def _outlook(attack: Attack[Any], victim: VictimSpec, exposure: Exposure | None) -> tuple[Outlook, str]:
    """Return what can be said of an attack before it runs, and why."""
    if attack.setting != victim.setting:
        declined = _declined_by_setting(attack, victim)
    else:
        declined = attack.supports(victim) or untold(attack.knowledge, victim)
    if declined is not None:
        return Outlook.DECLINED, declined
    doubted = None if exposure is None or attack.setting != victim.setting else attack.doubt(exposure)
    return (Outlook.OPEN, "") if doubted is None else (Outlook.DOUBTED, doubted)


def _declined_by_setting(attack: Attack[Any], victim: VictimSpec) -> str | None:
    """Return why an attack of another setting cannot be tried on a victim, None if an audit of a released one can."""
    if attack.setting == "deletion":
        return "it compares a model before and after a deletion, and is for victims that delete records"
    if victim.training.kind != "released":
        return "it attacks victims with one unknown record"
    try:
        model = linear_model(victim)
    except NoLinearModelError as error:
        return str(error)
    if attack.knowledge - TOLD:
        return "it needs the training itself, to repeat it, which an audit cannot"
    return attack.supports(model)
