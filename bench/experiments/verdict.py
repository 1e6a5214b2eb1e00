"""Three sentences at the end of a sweep: what came out, what chance gets, what to try next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.plan.run import TABULAR
from bench.run.setup import Setup
from bench.store.records import ALIGNED_NULLS, NULLS, RunRecord
from bench.terminal.text import command
from victims.dataset_files import tabular


@dataclass(frozen=True)
class Places:
    """The options that lead a next command to the same folders: words of a command line, none for a default."""

    results: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()

    @staticmethod
    def of(setup: Setup) -> Places:
        """Return the options of a sweep. A folder that the environment names needs no option."""
        named = os.environ.get("BENCH_DATA_DIR")
        data = None if setup.data_dir is None or str(setup.data_dir) == named else setup.data_dir
        results = None if setup.results_dir == Path("results") else setup.results_dir
        given = {"--results-dir": results, "--data-dir": data, "--plugin-dir": setup.plugin_dir}
        return Places(*((option, str(folder)) if folder is not None else () for option, folder in given.items()))


def verdict(records: Sequence[RunRecord], picture: Path | None = None, places: Places | None = None) -> list[str]:
    """Return the sentences on the run with the largest lead over its strictest null control, none if none is scored.

    Counts are one to one where the row has them: a candidate serves one image only.

    Args:
        records: the rows of a sweep.
        picture: of that run, if there is one.
        places: the folders that the sweep was given; None for the defaults.
    """
    places = places or Places()
    best = leading(records)
    if best is None:
        return []
    found, null = counts(best)
    images = f"training {unit_of(best)}" if best.n_fixed is None else "unknown records"
    alone = "" if best.n_good_unique is None else ", each from a candidate of its own,"
    who = f"by {best.attack}, which knew {_known(best)}"
    sentences = [f"{found} of {best.n} {images} came out of {best.victim}{alone} {who}."]
    measured = [name for name in {**NULLS, **ALIGNED_NULLS} if getattr(best, name) is not None]
    if not measured or null is None:
        sentences.append("What chance gets is not known: no null control could be had.")
        return [*sentences, f"Try next: {_again(best, places)}."]
    controls = f"the strictest of {len(measured)} null controls, candidates that cannot have seen those {unit_of(best)}"
    if found > null:
        sentences.append(f"Chance gets {null}: {controls}.")
        look = f"look at {picture}; " if picture is not None else ""
        report = _command("report", places.results)
        sentences.append(
            f"Try next: {look}{report} shows all runs, {_command('list', places.plugins)} what else there is."
        )
    else:
        sentences.append(f"Chance gets {null} ({controls}), so this run shows nothing.")
        sentences.append(f"Try next: {_again(best, places)}.")
    return sentences


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


def _again(record: RunRecord, places: Places) -> str:
    retraining = ["--victim-seeds", str(record.victim_seed)] if record.victim_seed else []
    options = [*retraining, *places.data, *places.plugins, *places.results]
    return f"{_command('run', ['-a', '*', '-v', record.victim, *options])} tries every attack that takes this victim"


def _command(verb: str, options: Sequence[str]) -> str:
    """Return a command as a text shows it."""
    return f"`{command(verb, *options)}`"
