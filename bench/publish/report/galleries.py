"""The figures and pictures of a network's cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bench.publish.best import attacker
from bench.publish.numbers import number
from bench.publish.ranking import Row
from bench.publish.report.collect import Entry
from bench.publish.report.figures import drawn as figures
from bench.publish.report.files import GROUPS, Panel
from bench.publish.report.pictures import Pictures, pictures
from bench.scoring import PROTOCOLS


@dataclass(frozen=True)
class Gallery:
    """The figures and pictures of one cell.

    Attributes:
        entry: the cell.
        panels: its figures.
        pictures: its pictures.
        mark: its line of `Section.entries`.
        classes: their colours, for figures of an earlier report, some of which have no key.
    """

    entry: Entry
    panels: list[Panel]
    pictures: Pictures | None
    mark: str = ""
    classes: tuple[str, ...] = ()


def shown(entry: Entry | None, most: int, groups: Sequence[str] = GROUPS) -> Pictures | None:
    """Return pictures of an entry, so many of each of these groups, None where there are none."""
    return None if entry is None or entry.files.examples is None else pictures(entry.files.examples, most, groups)


def cell_mark(entry: Entry) -> str:
    """Return what the page's filter reads of a cell: its attack, a tab, and who can mount it."""
    return f"{entry.row['attack']}\t{'' if entry.control else attacker(entry.row) or ''}"


def time_figures(entries: Sequence[Entry]) -> list[Panel]:
    """Return a figure of quality against time for each protocol and size that has two cells with both numbers."""
    grouped: dict[tuple[str, str, int], list[figures.Timed]] = {}
    for entry in entries:
        row = entry.row
        seconds, good = number(row, "wall_s"), number(row, "n_good")
        if not seconds > 0 or math.isnan(good):
            continue
        low, high = number(row, "n_good_low"), number(row, "n_good_high")
        timed = figures.Timed(
            label=entry.label,
            seconds=seconds,
            good=good,
            low=good if math.isnan(low) else low,
            high=good if math.isnan(high) else high,
            null=number(row, "null_n_good"),
            control=entry.control,
        )
        grouped.setdefault((row["protocol"], row["metric_suite"], int(row["n"])), []).append(timed)
    return [
        Panel(
            Markup(figures.quality_against_time(cells, n)),
            f"Quality against wall time. Points are means over runs with their 95% interval, dashes the best null "
            f"control. {protocol}, metric suite {suite}.",
        )
        for (protocol, suite, n), cells in grouped.items()
        if len(cells) > 1
    ]


def gallery(entry: Entry, most: int, groups: Sequence[str] = GROUPS) -> Gallery:
    """Return the figures and pictures of a cell, so many pictures of each of these groups."""
    run, found = entry.run, entry.files
    if run is None:
        return Gallery(entry, [], None, cell_mark(entry))
    seen = shown(entry, most, groups)
    if found.drawn:
        return Gallery(entry, list(found.drawn), seen, cell_mark(entry), _classes(run, found.drawn))
    protocol = PROTOCOLS.get(str(run["protocol"]))
    threshold = protocol.threshold if protocol is not None and protocol.good == "ssim" else math.nan
    drawn = []
    if len(found.per_sample):
        colours = "Colour and marker are the class, the dashed lines are the margin."
        ssim = found.per_sample["ssim"].to_numpy(dtype=float)
        at_1pct = number(run, "ssim_at_1pct")
        held_out = "Dashed: held-out images, that is false positives." if len(found.held_out) else ""
        point = "" if math.isnan(at_1pct) else " The point is where 1% of those pass."
        drawn += [
            (
                figures.ssim_against_output(found.per_sample, int(run["n_classes"])),
                f"SSIM against the model's output, a mark a training image. {colours}",
            ),
            (
                figures.share_against_threshold(ssim, found.held_out, at_1pct, threshold),
                f"Share of training images that pass each SSIM. {held_out}{point}",
            ),
        ]
    random = "" if math.isnan(number(run, "base_rate")) else " Dashed: a random order."
    drawn.append(
        (
            figures.precision_recall(found.confidence, number(run, "base_rate")),
            f"Precision and recall of the attack's own confidence.{random}",
        )
    )
    panels = [Panel(Markup(svg), caption) for svg, caption in drawn if svg]
    return Gallery(entry, panels, seen, cell_mark(entry))


def _classes(run: Row, drawn: Sequence[Panel]) -> tuple[str, ...]:
    """Return the colours of a run's classes if a figure of an earlier report shows them without a key."""
    count = number(run, "n_classes")
    keyless = any("Colour is the class" in panel.caption for panel in drawn)
    return figures.CLASSES[: int(count)] if keyless and count <= len(figures.CLASSES) else ()
