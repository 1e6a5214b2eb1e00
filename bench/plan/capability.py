"""What attacks can be told of a victim, decided by its description alone. Imports no torch."""

from __future__ import annotations

from attacks.base import Knowledge
from victims.informed.spec import AnySpec, InformedSpec
from victims.spec import VictimSpec

TOLD_BY_IMAGES = frozenset(
    {Knowledge.CLASS_BALANCE, Knowledge.LABELS, Knowledge.SHADOW_POOL, Knowledge.TRAINING_IMAGES}
)
"""What is known of a released model only if its images are given."""
TOLD_OF_NETWORKS = TOLD_BY_IMAGES | {
    *(Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.N, Knowledge.DATA_MEAN, Knowledge.LOSS),
    *(Knowledge.WEIGHT_DECAY, Knowledge.LOGITS),
}
"""What is told of every network of which all images are to be reconstructed, if those are given."""
TOLD_OF_INFORMED = frozenset(
    {
        *(Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.N, Knowledge.LABELS, Knowledge.SHADOW_POOL),
        *(Knowledge.LOGITS, Knowledge.KNOWN_POINTS, Knowledge.TRAINING, Knowledge.INITIAL_WEIGHTS),
        Knowledge.TRAINING_IMAGES,
    }
)
"""What is told to the informed adversary."""
TOLD_OF_A_TRACE = TOLD_OF_INFORMED | {Knowledge.GRADIENT_TRACE, Knowledge.PRIOR}
"""What is told to the informed adversary who sees a private training, and knows that the record is one of N."""
TOLD_OF_DELETIONS = frozenset(
    {
        *(Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.EARLIER_WEIGHTS, Knowledge.N, Knowledge.SHADOW_POOL),
        *(Knowledge.TRAINING, Knowledge.TRAINING_IMAGES),
    }
)
"""What is told of a model before and after records were deleted."""


def unknown(victim: VictimSpec) -> frozenset[Knowledge]:
    """Return the items that nobody can be told of a victim without its images; empty where these are given."""
    if victim.dataset:
        return frozenset()
    training = victim.training
    told = {Knowledge.CLASS_BALANCE} if training.kind == "released" and training.class_balance else set()
    return TOLD_BY_IMAGES - told


def tellable(victim: AnySpec) -> frozenset[Knowledge]:
    """Return the items of knowledge that attacks can be told of a victim, trained or not."""
    if victim.setting == "deletion":
        return TOLD_OF_DELETIONS
    if victim.setting == "informed":
        return TOLD_OF_A_TRACE if isinstance(victim, InformedSpec) and victim.prior is not None else TOLD_OF_INFORMED
    told = TOLD_OF_NETWORKS - unknown(victim)
    if victim.architecture.kind == "kernel":
        told |= {Knowledge.KERNEL_WIDTH}
    if victim.tells_start:
        told |= {Knowledge.INITIAL_WEIGHTS}
    if victim.tells_momentum:
        told |= {Knowledge.MOMENTUM}
    if victim.tells_checkpoints:
        told |= {Knowledge.CHECKPOINTS}
    if victim.tells_snapshots:
        told |= {Knowledge.SNAPSHOTS}
    if victim.training.kind == "ordinary":
        told |= {Knowledge.TRAINING} | ({Knowledge.EARLIER_WEIGHTS} if victim.training.snapshots else set())
    return told


def untold(knowledge: frozenset[Knowledge], victim: AnySpec) -> str | None:
    """Return why an attack cannot be told all that it needs, None if it can.

    Needs that are no item of `Knowledge` are passed over; they fail when the attack runs.
    """
    if not (lacking := (knowledge & frozenset(Knowledge)) - tellable(victim)):
        return None
    items = ", the ".join(sorted(lacking))
    if victim.setting == "dataset" and lacking <= unknown(victim):
        return f"only {'rows' if victim.tabular else 'images'} would tell it the {items}"
    return f"nobody can tell it the {items}: this victim has none, or keeps it secret"
