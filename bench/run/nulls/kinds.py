"""Which null controls a row has, and which twins of the victim these attack. Imports no torch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attacks.base import Knowledge
from bench.plan.run import Run
from bench.store.records import ALIGNED_NULLS, NULLS, TWINS

if TYPE_CHECKING:
    from bench.scoring import Protocol

TWIN_SEED = 0
"""The seed of the attack on a twin, whatever that of the run."""


UNTRAINED_LACKS = {
    Knowledge.INITIAL_WEIGHTS: "an untrained network is its own start",
    Knowledge.MOMENTUM: "an untrained network's optimiser has kept nothing",
    Knowledge.CHECKPOINTS: "an untrained network's optimiser has kept nothing",
    Knowledge.SNAPSHOTS: "an untrained network was not released on the way",
}
"""Why an attack that is told an item has no null control by an untrained network."""


def wanted(protocol: Protocol, twins: bool) -> tuple[str, ...]:
    """Return the columns of null controls that a complete row under a protocol has, those of twins if `twins`."""
    if protocol.matching == "aligned":
        return tuple(ALIGNED_NULLS)
    return tuple(name for name in NULLS if twins or name not in TWINS)


def twins_of(run: Run) -> tuple[Literal["untrained", "disjoint"], ...]:
    """Return the twins that null controls of a run's own protocol attack, none if the attack does not take the victim.

    They are attacked once for all seeds.
    """
    from bench.scoring.protocols import PROTOCOLS

    if run.protocol not in PROTOCOLS or not run.possible():
        return ()
    twins = (TWINS[name] for name in wanted(PROTOCOLS[run.protocol], True) if name in TWINS)
    return tuple(kind for kind in twins if no_twin(run, kind) is None)


def no_twin(run: Run, kind: Literal["untrained", "disjoint"]) -> str | None:
    """Return why no null control of a run attacks this twin of its victim, None if one does."""
    if run.victim.setting != "dataset":
        return f"a victim of the {run.victim.setting} setting has no twin"
    if kind == "untrained":
        for item, why in UNTRAINED_LACKS.items():
            if item in run.knowledge:
                return why
    if run.victim.training.kind == "released":
        return "its training is not known here, so it has no twin"
    if kind == "untrained" and run.victim.training.kind == "kernel":
        return "a kernel machine that is not fitted stores nothing"
    return None
