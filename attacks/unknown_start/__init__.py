"""The start of a training that was not told: its seed is guessed, it is estimated, or later states serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks.knowledge import Knowledge, Threat

if TYPE_CHECKING:
    from victims.spec import VictimSpec

NO_UPDATE = "no low-rank update: its layers moved by full ranks, or its biases moved"
UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
THREATS = {
    "known": Threat.START,
    "guess": Threat.SEED,
    "uniform": Threat.WEIGHTS,
    "forgotten": Threat.WEIGHTS,
    "momentum": Threat.MOMENTUM,
    "snapshots": Threat.SNAPSHOTS,
    "checkpoints": Threat.CHECKPOINTS,
}
"""Who can mount an attack, by how it has the start: told, guessed, estimated, forgotten by the training, or replaced by
the optimiser's state, by an earlier release, or by two states of the training."""
STANDING_IN = {
    "momentum": Knowledge.MOMENTUM,
    "snapshots": Knowledge.SNAPSHOTS,
    "checkpoints": Knowledge.CHECKPOINTS,
}
"""What is told in the place of a start."""
NO_MOMENTUM = "its optimiser's state was not released with its weights, or a defence keeps it back"
NO_SNAPSHOTS = "no weights on the way were released, or a defence keeps them back"
NO_CHECKPOINTS = "no two checkpoints of its training were released, or a defence keeps them back"


def untold(victim: VictimSpec, start: str, otherwise: str) -> str | None:
    """Return why an attack declines a victim that does not tell its start, or what stands in for it.

    Args:
        victim: the victim.
        start: how the attack has the start, a key of `THREATS`.
        otherwise: what to set where it was not kept.
    """
    if start == "known" and not victim.tells_start:
        return f"the start of its training is not known; set {otherwise}"
    if start == "snapshots" and not victim.tells_snapshots:
        return NO_SNAPSHOTS
    if start == "checkpoints" and not victim.tells_checkpoints:
        return NO_CHECKPOINTS
    return NO_MOMENTUM if start == "momentum" and not victim.tells_momentum else None


def knowledge_of(needs: frozenset[Knowledge], start: str) -> frozenset[Knowledge]:
    """Return what an attack is told, by how it has the start, of needs that hold the initial weights."""
    if start == "known":
        return needs
    other = {STANDING_IN[start]} if start in STANDING_IN else set()
    return needs - {Knowledge.INITIAL_WEIGHTS} | other
