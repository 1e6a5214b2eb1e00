"""Null controls of twins for a row whose reconstruction is stored elsewhere, or nowhere any more.

A twin's candidates are compared with the training images, and need neither what the attack found nor the victim's
weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.run.nulls.kinds import wanted
from bench.store.good_images import decode
from bench.store.records import ABSENT, LOST, RAISED, TWINS, RunRecord, Status
from victims.errors import UserError

if TYPE_CHECKING:
    from bench.plan.run import Run
    from bench.run.nulls.controls import NullControls

LATER = "attacked later"
"""What ends the flag of a twin's count that was added to a row that was there."""


def lacks_twins(record: RunRecord) -> bool:
    """Return whether all that a row lacks is what attacks get of twins of its victim."""
    from bench.run.scorer import lacking

    lost = {f"{LOST}{name}" for name in TWINS}
    flags = ";".join(flag for flag in record.flags.split(";") if flag.partition(":")[0] not in lost)
    complete = record.status is Status.OK and not lacking(record.model_copy(update={"flags": flags}), twins=False)
    return complete and bool(lacking(record, twins=True))


def add_twins(record: RunRecord, run: Run, controls: NullControls) -> RunRecord:
    """Return a row with the twins' counts that it lacked; what it counts itself stays.

    The attack chooses on the twin the parameters that are left to it.

    Args:
        record: the row, scored under today's protocol and metrics.
        run: what it is a record of.
        controls: attack the twins.

    Raises:
        UserError: the victim's data are missing, or it has another definition now.
    """
    import torch

    from attacks.base import Reconstruction
    from bench.scoring.evaluation import Reference
    from bench.scoring.protocols import protocol_named
    from victims.spec import VictimSpec

    protocol = protocol_named(record.protocol)
    lacked = [name for name in wanted(protocol, twins=True) if name in TWINS and getattr(record, name) is None]
    assert isinstance(run.victim, VictimSpec)  # rows of others have no controls of twins
    if record.victim_key not in ("", controls.session.definition(run.victim)):
        raise UserError(f"{record.victim} has another definition now than this run attacked; `run` attacks it")
    same_images = controls.session.victim(run.victim.as_twin("untrained"))
    nothing = Reconstruction(torch.empty(0, *same_images.input_shape))  # so nothing is resolved
    nulls = controls.count(run, protocol, nothing, same_images, Reference.of(same_images), lacked)
    flags = [flag for flag in record.flags.split(";") if flag and flag.partition(":")[0] not in _outdated(lacked)]
    flags += [f"{name}: {LATER}" for name in nulls.by_control]
    flags += [f"{flag}: {reason.replace(';', ',')}" for flag, reason in nulls.missing.items()]
    return record.model_copy(update={**_stricter(record, nulls.columns(record.n_good)), "flags": ";".join(flags)})


def _outdated(controls: list[str]) -> set[str]:
    return {f"{why}{name}" for why in (ABSENT, RAISED, LOST) for name in controls}


def _stricter(record: RunRecord, added: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of runs.csv after some controls were added: of each count the strictest null stays."""
    had = record.model_dump()
    columns = {name: count for name, count in added.items() if name in TWINS}
    strictest = {name: count for name, count in added.items() if name.startswith("null_n_good")}
    columns |= {name: max(count, had[name] or 0) for name, count in strictest.items()}
    if strictest and (record.null_n_good is None or strictest["null_n_good"] > record.null_n_good):
        columns["null_control"] = added["null_control"]
    if "null_images" in added and decode(added["null_images"], record.n).sum() > _images(record):
        columns["null_images"] = added["null_images"]
    if strictest and record.n_good is not None:
        columns["gain_over_null"] = record.n_good - columns["null_n_good"]
    return columns


def _images(record: RunRecord) -> int:
    return int(decode(record.null_images, record.n).sum()) if record.null_images else -1
