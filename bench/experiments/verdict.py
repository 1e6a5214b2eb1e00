"""Three sentences at the end of a sweep: what came out, what chance gets, what to try next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.plan.run import TABULAR
from bench.run.setup import Setup
from bench.scoring.protocols import PROTOCOLS
from bench.store.records import ALIGNED_NULLS, NULLS, RunRecord
from bench.terminal.text import command
from victims.dataset_files import tabular

NEAREST = "nearest-public"
"""The protocol for images that look alike."""
FEW = 10
"""Of fewer images chance gets half without their being alike."""


@dataclass(frozen=True)
class Given:
    """The options of a sweep that a next command needs too, its folders and null controls: words, none for a default.

    A next run with other null controls would attack twins that the user left out, and take three times as long.
    """

    results: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()

    @staticmethod
    def of(setup: Setup) -> Given:
        """Return the options of a sweep. A folder that the environment names needs no option."""
        named = os.environ.get("BENCH_DATA_DIR")
        data = None if setup.data_dir is None or str(setup.data_dir) == named else setup.data_dir
        results = None if setup.results_dir == Path("results") else setup.results_dir
        controls = None if setup.twins else "quick"
        given = {"--results-dir": results, "--data-dir": data, "--plugin-dir": setup.plugin_dir, "--controls": controls}
        return Given(*((option, str(value)) if value is not None else () for option, value in given.items()))


def verdict(records: Sequence[RunRecord], picture: Path | None = None, given: Given | None = None) -> list[str]:
    """Return the sentences on the run with the largest lead over its strictest null control, none if none is scored.

    Counts are one to one where the row has them: a candidate serves one image only.

    Args:
        records: the rows of a sweep.
        picture: of that run, if there is one.
        given: the options of the sweep that the next command needs too; None for the defaults.
    """
    given = given or Given()
    best = leading(records)
    if best is None:
        return []
    found, null = counts(best)
    images = f"training {unit_of(best)}" if best.n_fixed is None else "unknown records"
    alone = ", each from a candidate of its own," if best.n_good_unique else ""
    seed, mean = _among(best, records)
    who = f"by {best.attack}{seed}, which knew {_known(best)}"
    sentences = [f"{found} of {best.n} {images} came out of {best.victim}{alone} {who}{mean}."]
    measured = [name for name in {**NULLS, **ALIGNED_NULLS} if getattr(best, name) is not None]
    if not measured or null is None:
        sentences.append("What chance gets is not known: no null control could be had.")
        return [*sentences, f"Try next: {_again(best, given)}."]
    controls = f"the strictest of {len(measured)} null controls, candidates that cannot have seen those {unit_of(best)}"
    if found > null:
        sentences.append(f"Chance gets {null}: {controls}.")
        look = f"look at {picture}; " if picture is not None else ""
        report = _command("report", given.results)
        sentences.append(
            f"Try next: {look}{report} shows all runs, {_command('list', given.plugins)} what else there is."
        )
    else:
        sentences.append(f"Chance gets {null} ({controls}), so this run shows nothing.")
        alike = _nearer(best, given) if _may_be_alike(best, null) else ""
        sentences.append(f"Try next: {alike}{_again(best, given)}.")
    return sentences


def _among(best: RunRecord, records: Sequence[RunRecord]) -> tuple[str, str]:
    """Return which of several runs of one attack on one victim a run is, and the means of all; empty for the only one.

    The runs differ in the seed of the attack, the training of the victim, or both.
    """
    same = ("attack", "params_json", "victim", "protocol", "device")
    runs = [one for one in records if one.n_good is not None and all(getattr(one, k) == getattr(best, k) for k in same)]
    if len(runs) < 2:
        return "", ""
    seed = f" with seed {best.seed}" * (len({one.seed for one in runs}) > 1)
    training = f" on training {best.victim_seed}" * (len({one.victim_seed for one in runs}) > 1)
    of = [(found, null) for found, null in map(counts, runs) if null is not None]
    chance = f" where chance gets {sum(null for _, null in of) / len(of):.4g}" if len(of) == len(runs) else ""
    mean = f"; the mean of its {len(runs)} runs is {sum(counts(one)[0] for one in runs) / len(runs):.4g}{chance}"
    return f"{seed}{training}", mean


def leading(records: Sequence[RunRecord]) -> RunRecord | None:
    """Return the scored run with the largest lead over its strictest null, controls aside; None if there is none."""
    scored = [record for record in records if record.n_good is not None and not record.control]
    return max(scored, key=_lead, default=None)


def counts(record: RunRecord) -> tuple[int, int | None]:
    """Return the good images and the strictest null, one to one where the row has that."""
    if record.n_good_unique is not None:
        return record.n_good_unique, record.null_n_good_unique
    return record.n_good or 0, record.null_n_good


def unit_of(record: RunRecord) -> str:
    """Return what the records of a victim are: images, or rows of a table."""
    return "rows" if record.protocol == TABULAR or tabular(record.dataset) else "images"


def _lead(record: RunRecord) -> int:
    """Return by how many images a scored run is ahead of its strictest null."""
    found, null = counts(record)
    return found - (null or 0)


def _known(record: RunRecord) -> str:
    """Return the attack's knowledge in words."""
    return record.knowledge.replace("+", ", ") or "nothing"


def _again(record: RunRecord, given: Given) -> str:
    retraining = ["--victim-seeds", str(record.victim_seed)] if record.victim_seed else []
    options = [*retraining, *given.controls, *given.data, *given.plugins, *given.results]
    return f"{_command('run', ['-a', '*', '-v', record.victim, *options])} tries every attack that takes this victim"


def _may_be_alike(record: RunRecord, null: int) -> bool:
    """Return whether chance gets half of not too few images, as of digits, and held-out ones are there to compare."""
    compared = record.n >= FEW and record.null_held_out is not None
    return compared and 2 * null >= record.n and PROTOCOLS[record.protocol].good == "ssim"


def _nearer(record: RunRecord, given: Given) -> str:
    options = [*given.data, *given.plugins, *given.results]
    score = _command("score", ["-v", record.victim, "--protocol", NEAREST, *options])
    return f"where images look alike, {score} counts what is nearer than any held-out image; "


def _command(verb: str, options: Sequence[str]) -> str:
    """Return a command as a text shows it."""
    return f"`{command(verb, *options)}`"
