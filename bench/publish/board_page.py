"""leaderboard.md: which attack gets how much out of which network, how sure that is, and what it costs."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping

import pandas as pd

from bench.publish.best import Best, best_of_families, definitions_of, families_of, given_away, has_twin, network, once
from bench.publish.numbers import (
    ARROWS,
    AT_MOST,
    COVERAGE,
    MISSING,
    ONE_TRAINING,
    ROW_BY_ROW,
    fraction,
    number,
    signed,
    took,
    whole,
    written,
)
from bench.publish.published import Published, beside, published
from bench.publish.ranking import BOARD, Row
from bench.publish.ranking import conflicts as conflicts_of
from bench.terminal.text import few, variant_name

LINE = 120
"""Letters of a line of text."""

UP, DOWN = ARROWS["higher"], ARROWS["lower"]
ROW = {
    "network": "a kind of network; under it stand its attackers, told by what they have at hand.",
    "give something away": "on how many of the networks that this attacker tried they surely get something.",
    "best attack": (
        "the one with the largest share of the images. Networks that were trained several times, on other images each "
        "time, come before others."
    ),
}
"""What the headings of the first table mean."""
LEGEND = {
    f"gain {UP}": (
        "training images that come back from a candidate of their own, less what the strictest null control gets, "
        "which cannot have seen them; in brackets the 95% interval over images, seeds of the attack and retrainings of "
        f"the network. With one run it speaks of that run alone. With one training it holds {ONE_TRAINING}. {COVERAGE}"
    ),
    "of": "training images of the network, or records that the attacker lacks.",
    "rank": (
        "by the gain, among the attacks that must know no more; shared where they cannot be told apart at 95%. "
        f"Controls have none, nor has an attack whose gain may be 0. {ROW_BY_ROW} An attack of less gain that knows "
        "less may come first. Where an attack's settings were chosen by its counts on a network, its gain there is too "
        "large; no column tells where."
    ),
    f"time {DOWN}": (
        f'of the attack alone, "{AT_MOST.strip()}" where other runs went on beside it. **runs**: seeds of the attack '
        "times trainings of the network."
    ),
    "protocol": "what counts as come back; `python -m bench show NAME` describes it.",
    "weights": "hash of the network's weights; attacks on other weights are not ranked against each other.",
    "definition not stored": (
        "the row is older than the column `victim_key`; today's network of the name may be another."
    ),
}
"""What the headings mean."""


def markdown(board: pd.DataFrame) -> str:
    """Return the page of a leaderboard."""
    title = "# Which attack gets how much out of which network"
    if board.empty:
        return f"{title}\n\nNo run is stored yet.\n"
    rows: list[Row] = once(board).to_dict("records")
    known, definitions = families_of(rows), definitions_of(rows)
    names = {network(row): _network(row, definitions) for row in rows}
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(network(row), []).append(row)
    told = conflicts_of(board, BOARD)
    conflicts = {network(dict(zip(BOARD, shared, strict=True))): conflict for shared, conflict in told.items()}
    several = [row for group in groups.values() if len(set(map(_attack, group))) > 1 for row in group]
    single = [row for group in groups.values() if len(set(map(_attack, group))) == 1 for row in group]
    parts = [title]
    if ranked := [row for row in rows if network(row) not in conflicts]:
        best = best_of_families(ranked, known)
        parts += [
            _answer(best, any(map(has_twin, ranked))),
            "## The best attack on each kind of network",
            _best(best, names),
        ]
    parts += ["## How to read it", _listed(LEGEND.items())]
    if several:
        parts += ["## All attacks, network by network", _table(several, names, conflicts)]
    if single:
        count = sum(len(set(map(_attack, group))) == 1 for group in groups.values())
        summary = f"<summary>Networks that one attack was tried on: {count}</summary>"
        parts += [f"<details>\n{summary}", _table(single, names, conflicts), "</details>"]
    if papers := _papers(rows):
        parts += ["## Beside the papers", papers]
    if conflicts:
        lines = sorted({f"* {names[found]}: {conflict}." for found, conflict in conflicts.items()})
        parts += ["## Not ranked, and not counted above", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _listed(entries: Iterable[tuple[str, str]]) -> str:
    """Return what headings mean, an item each."""
    lines = (f"* **{name}**: {meaning}" for name, meaning in entries)
    return "\n".join(textwrap.fill(line, LINE, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def _answer(best: Iterable[Best], twin: bool) -> str:
    """Return the sentences that stand first, and what a row of the table below them says.

    Args:
        best: of each kind of network.
        twin: whether a null control of any row attacks a twin.
    """
    found = list(best)
    twins, lead, beaten = (sum(getattr(one, name) for one in found) for name in ("twins", "twins_lead", "beaten"))
    controls = "The null controls are those that were run"
    if twins:
        controls += (
            f"; for {twins} of the {beaten} models that give something away one of them is the same attack on a twin "
            f"of the network, and for {lead} of these it gets more than the others"
        )
    elif not twin:
        controls += "; no twin was attacked"
    return "\n\n".join(
        (textwrap.fill(f"{given_away(found)} {controls}.", LINE), "A row of the table:", _listed(ROW.items()))
    )


def _best(found: Iterable[Best], names: Mapping[str, str]) -> str:
    shown = []
    for best in found:
        for place, (threat, (beaten, tried)) in enumerate((best.by or {None: (0, best.tried)}).items()):
            line = {
                "network": "" if place else best.family,
                "give something away": f"{beaten} of {tried}",
                "the attacker has": threat or MISSING,
                "best attack": "none surely beats its null controls",
            }
            shown.append(line)
            if (row := best.rows.get(threat)) is None:
                continue
            line |= {
                "best attack": _attack(row),
                f"gain {UP}": f"{_gain(row)}{', one training' if row['trainings'] == 1 else ''}",
                "of": str(row["n"]),
                f"time {DOWN}": took(row),
                "runs": str(row["seeds"]),
                "shown on": names[network(row)],
                "must know": _knowledge(row),
            }
    return pd.DataFrame(shown).fillna("").to_markdown(index=False, disable_numparse=True)


def _table(rows: Iterable[Row], names: Mapping[str, str], conflicts: Mapping[str, str]) -> str:
    shown, last = [], ""
    for row in rows:
        here = network(row)
        shown.append(
            {
                "network": "" if here == last else names[here],
                "rank": row["rank"] or ("weights differ" if here in conflicts else MISSING),
                "attack": _attack(row),
                f"gain {UP}": _gain(row),
                "of": str(row["n"]),
                f"SSIM, best ten {UP}": written(row, "ssim_top10", fraction),
                f"MSE {DOWN}": written(row, "mse_mean", lambda value: f"{value:.2g}"),
                "test accuracy": written(row, "test_accuracy", fraction),
                f"time {DOWN}": took(row),
                "must know": _knowledge(row),
                "protocol": str(row["protocol"]),
                "runs": ", ".join([str(row["seeds"]), *([f"{row['failed']} failed"] if row["failed"] else [])]),
                "weights": _weights(row),
            }
        )
        last = here
    return pd.DataFrame(shown).to_markdown(index=False, disable_numparse=True)


def _papers(rows: Iterable[Row]) -> str:
    """Return a line for each number of a paper, beside it ours with default parameters, or else with others."""
    found: dict[Published, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: (bool(row["params"]), bool(row["variant"]))):
        for ours, entry in beside(row):
            line = {
                "attack": _attack(row),
                "network": f"`{row['victim']}`",
                "number": f"`{entry.column}`",
                "here": ours,
                "paper": f"[{entry.value:g}]({entry.link})",
                "of the paper": entry.source,
            }
            found.setdefault(entry, line)
    shown = [found[entry] for entry in published() if entry in found]
    return pd.DataFrame(shown).to_markdown(index=False, disable_numparse=True) if shown else ""


def _attack(row: Row) -> str:
    name = f"`{variant_name(row['attack'], row['variant'])}`"
    budget = f"in {row['budget']}" if row["budget"] else ""
    return " ".join(filter(None, (name, budget, plain(str(row["params"])), "(control)" if row["control"] else "")))


def _gain(row: Row) -> str:
    gain, low, high = (number(row, name) for name in ("gain", "gain_low", "gain_high"))
    if math.isnan(gain):
        return MISSING
    return f"{signed(gain)} [{whole(low)}, {whole(high)}]"


def _network(row: Row, definitions: Mapping[tuple[str, str], str]) -> str:
    """Return a network's name, and which of the definitions it is where several have it."""
    definition = definitions[str(row["victim"]), str(row["victim_key"])]
    return f"`{row['victim']}`{f', {definition}' if definition else ''}"


def _knowledge(row: Row) -> str:
    return str(row["knowledge"]).replace("+", ", ")


def _weights(row: Row) -> str:
    hashes = [pair.partition("=")[2][:6] for pair in str(row["weights"]).split(";")]
    return few(hashes, 1)


def plain(text: str) -> str:
    """Return a text as Markdown shows it, whatever it holds."""
    escaped = re.sub(r"([\\`*_\[\]|~<>])", r"\\\1", text)
    return " ".join(escaped.split())
