"""The verb `verify --rerun`: the runs that claims speak of are made again, and the claims are held against those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from attacks.context import UNLIMITED
from bench.plan.config import Section, planned
from bench.publish.claims.entries import Claim
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.plan.registry import Registry, Victims
    from bench.plan.run import Run


def measured(claims: Sequence[Claim], tier: Literal["quick", "all"]) -> list[Claim]:
    """Return the claims that a tier measures again: on rows of the leaderboard; "all" has those of "quick", too."""
    tiers = ("quick",) if tier == "quick" else ("quick", "all")
    return [claim for claim in claims if claim.tier in tiers and claim.table == "leaderboard" and not claim.unsupported]


def runs_of(claims: Sequence[Claim], attacks: Registry[type[Attack[Any]]], victims: Victims) -> list[Run]:
    """Return the runs whose rows claims speak of, none of them twice.

    Raises:
        UserError: a claim names no attack and victim, or ones that are not there.
    """
    sections = []
    for claim in claims:
        if not {"attack", "victim"} <= claim.where.keys():
            raise UserError(f"the claim {claim.text!r} names no attack and victim in `where`; it cannot be rerun")
        section = Section(
            attack=(str(claim.where["attack"]),),
            victim=(str(claim.where["victim"]),),
            variant=str(claim.where.get("variant", "")),
            set=claim.setting(),
            seeds=claim.seeds,
            victim_seeds=claim.victim_seeds,
        )
        sections.append(section)
    return planned(sections, attacks, victims, UNLIMITED)
