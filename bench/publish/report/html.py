"""The report as a page: what comes out, the boards of each network with their figures, and all attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from attacks.base import Threat
from bench.publish.numbers import ARROWS, MISSING, ONE_TRAINING, number, processor
from bench.publish.page import page
from bench.publish.published import Published, beside
from bench.publish.ranking import Board, Row, cell_of
from bench.publish.report.answer import Answer, answer
from bench.publish.report.collect import Entry, Report, gain_share, good_count
from bench.publish.report.columns import LEGEND, SHOWN, filled, glossary
from bench.publish.report.figures.frames import sharing_frames, sharing_runs
from bench.publish.report.figures.overview import gains
from bench.publish.report.figures.svg import labelled, sharing_styles
from bench.publish.report.files import GROUPS, Panel
from bench.publish.report.former import mark
from bench.publish.report.galleries import Gallery, cell_mark, gallery, shown, time_figures
from bench.publish.report.profiles import Named, definition, networks_of, profiles, recipe, reported_accuracy
from bench.store.records import ALIGNED_NULLS, FAILED, NULLS, Status

HERE = Path(__file__).parent
MOST_PICTURES = 400
"""About how many reconstructions the page shows, which keeps it below ten megabytes; shared between the cells.

Where three a cell are more, the cells of a network behind the one that gains most, or is on the first screen, show
their best one, and those of controls none.
"""
MOST_A_GROUP = 4
MOST_FIRST = 8
"""Reconstructions of each group on the first screen."""
OPEN = 3
"""Cells of a victim whose figures are unfolded from the start."""


@dataclass(frozen=True)
class HeatMap:
    """Gain over the null control as a share of n, of all cells that one protocol and metric suite scored.

    Attributes:
        title: the protocol and its version.
        networks: the columns.
        rows: name of an attack with its parameters, whether it is a control, and its entry for each network.
    """

    title: str
    networks: list[Named]
    rows: list[tuple[str, bool, list[Entry | None]]]


@dataclass(frozen=True)
class First:
    """The first screen.

    Attributes:
        answer: what comes out, by whom and at what cost.
        chart: attacks on kinds of networks; None where nothing was scored.
        best: the entry that leads those with pictures; None where none of them beats its null control.
    """

    answer: Answer
    chart: Panel | None
    best: Gallery | None


@dataclass(frozen=True)
class Section:
    """All that concerns one network.

    Attributes:
        network: which.
        facts: the row of one of its runs; the leaderboard's row if none ended well.
        recipe: how its name is described today; an older definition of the name was another.
        reported: the test accuracy that its paper reports, None where it reports none.
        boards: who competes on it.
        time: a figure for each protocol.
        papers: each number of a paper, and ours of each cell beside it.
        galleries: of each cell.
        entries: the attack of each cell and who can mount it, a tab between, a line each.
    """

    network: Named
    facts: Row
    recipe: dict[str, str]
    reported: float | None
    boards: list[Board]
    time: list[Panel]
    papers: dict[Published, list[tuple[Entry, str]]]
    galleries: list[Gallery]
    entries: str


def render(report: Report) -> str:
    """Return the page."""
    started = [text[:10] for text in report.runs["started_utc"] if text]
    networks = networks_of(report)
    said = answer(report)
    sections = _sections(report, networks, said.best)
    found = profiles(report)
    text = page(
        HERE / "report.html.j2",
        script=(HERE / "report.js").read_text(encoding="utf-8"),
        report=report,
        first=_first(said),
        sections=sections,
        network_of=lambda row: networks[definition(row)],
        families=list(dict.fromkeys(section.network.family for section in sections)),
        profiles=[(one, shown(one.pictured, 1)) for one in found],
        attack_at={one.name: f"attack-{place}" for place, one in enumerate(found, start=1)},
        attackers=[one for one in Threat if any(f"\t{one}" in section.entries for section in sections)],
        maps=_heat_maps(report, networks),
        failed=int(report.runs["status"].isin(FAILED).sum()),
        skipped=int((report.runs["status"] == Status.SKIPPED).sum()),
        since=min(started, default=""),
        until=max(started, default=""),
        columns=SHOWN,
        filled=filled,
        arrows=ARROWS,
        legend=LEGEND,
        glossary=glossary(),
        missing=MISSING,
        one_training=ONE_TRAINING,
        nulls=NULLS | ALIGNED_NULLS,
        open=OPEN,
        cell_of=cell_of,
        mark=mark,
        good_count=good_count,
        gain_share=gain_share,
        number=number,
        processor=processor,
        drawn=lambda panel: Markup(labelled(panel.svg, panel.caption)),
        isnan=math.isnan,
        Status=Status,
    )
    return sharing_runs(sharing_frames(sharing_styles(text)))


def _first(found: Answer) -> First:
    caption = (
        "A dot is an attack's best row on a kind of network, on one trained several times if there is one, with its "
        "95% interval. The large dot is the attack that "
        "is named, on the network that is named; small grey dots are other attacks, on others: the boards below have "
        f"all. A hollow dot is of one training, whose interval holds {ONE_TRAINING}. Behind a kind stands on how many "
        "of its networks an attack surely beats its null controls; the others are not shown to be safe."
    )
    chart = Panel(Markup(gains(found.kinds)), caption) if found.kinds else None
    best, seen = found.best, shown(found.best, MOST_FIRST)
    return First(found, chart, Gallery(best, [], seen) if best is not None and seen is not None else None)


def _heat_maps(report: Report, networks: dict[tuple[str, str], Named]) -> list[HeatMap]:
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in report.entries.values():
        grouped.setdefault((entry.row["protocol"], entry.row["metric_suite"]), []).append(entry)
    maps = []
    for (protocol, suite), entries in sorted(grouped.items()):
        met = {definition(entry.row) for entry in entries}
        columns = [one for one in networks if one in met]
        rows: dict[tuple[str, str], dict[tuple[str, str], Entry]] = {}
        for entry in entries:
            rows.setdefault((entry.label, entry.row["params_hash"]), {})[definition(entry.row)] = entry
        ordered = sorted(rows.values(), key=_strength, reverse=True)
        maps.append(
            HeatMap(
                title=f"{protocol}, metric suite {suite}",
                networks=[networks[one] for one in columns],
                rows=[(_any(row).label, _any(row).control, [row.get(one) for one in columns]) for row in ordered],
            )
        )
    return maps


def _strength(row: dict[tuple[str, str], Entry]) -> tuple[bool, float]:
    """Return what a row of the heat map is sorted by: attacks before controls, then the mean gain."""
    shares = [share for share in (gain_share(entry.row) for entry in row.values()) if not math.isnan(share)]
    return not _any(row).control, sum(shares) / len(shares) if shares else -math.inf


def _any(row: dict[tuple[str, str], Entry]) -> Entry:
    return next(iter(row.values()))


def _fewer(entry: Entry) -> tuple[str, ...]:
    """Return the groups of pictures that a cell shows where there are many: its best, and of a control none."""
    return GROUPS[: 0 if entry.control else 1]


def _gain(entry: Entry) -> float:
    """Return an entry's gain over its null controls, minus infinity where it has none."""
    gain = number(entry.row, "gain")
    return -math.inf if math.isnan(gain) else gain


def _sections(report: Report, networks: dict[tuple[str, str], Named], first: Entry | None) -> list[Section]:
    pictured = sum(entry.files.examples is not None for entry in report.entries.values())
    many = len(GROUPS) * pictured > MOST_PICTURES
    most = 1 if many else min(MOST_A_GROUP, MOST_PICTURES // (len(GROUPS) * max(pictured, 1)))
    sections = []
    for key, named in networks.items():
        entries = [entry for entry in report.entries.values() if definition(entry.row) == key]
        runs = [entry.run for entry in entries if entry.run is not None]
        leading = max((entry for entry in entries if entry.files.examples is not None), key=_gain, default=None)
        sections.append(
            Section(
                network=named,
                facts=runs[0] if runs else entries[0].row,
                recipe=recipe(key[0]),
                reported=reported_accuracy(key[0]),
                boards=[board for board in report.boards if (board.victim, board.victim_key) == key],
                time=time_figures(entries),
                papers=_papers(entries),
                galleries=[
                    gallery(entry, most, GROUPS if not many or entry is leading or entry is first else _fewer(entry))
                    for entry in entries
                ],
                entries="\n".join(map(cell_mark, entries)),
            )
        )
    return sections


def _papers(entries: list[Entry]) -> dict[Published, list[tuple[Entry, str]]]:
    """Return what papers report of some cells, each number once, and of each cell ours beside it."""
    found: dict[Published, list[tuple[Entry, str]]] = {}
    for entry in entries:
        for ours, paper in beside(entry.row):
            found.setdefault(paper, []).append((entry, ours))
    return found
