"""The picture of the knowledge lattice: one band an attacker, one box a set of knowledge, a line to what needs more."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from attacks.base import Attack, Knowledge, Threat
from bench.plan.lattice import Node, covers, nodes
from bench.store.picture import save_png

WIDTH, HEIGHT, CHARACTERS = 2.9, 1.35, 34
"""Inches of a box with its margin, and characters of a line in it."""
MARGIN = 1.9
"""Inches at the left for the bands' names."""
LARGEST_PART = 5
"""Boxes of a band in a row; more than these go on in a row above."""
COLOURS = ("#e3eef9", "#d3e5d3", "#f6ecc9", "#f8dcc4", "#efc9cd", "#ddd0ea", "#cfd8dc", "#e4dccf", "#cdeaea")


def draw_lattice(
    attacks: Iterable[type[Attack[Any]]], path: Path, left_out: Callable[[str], object] = lambda line: None
) -> None:
    """Write a PNG of what each attack must know, the attacker with least at hand at the bottom.

    Args:
        attacks: what is drawn.
        path: of the PNG.
        left_out: told, in a line, which attack cannot say what it needs, and why.
    """
    found = nodes(attacks, left_out)
    rows = [
        (threat, part[at : at + LARGEST_PART])
        for threat, band in groupby(found, lambda node: node.threat)
        for part in [list(band)]
        for at in range(0, len(part), LARGEST_PART)
    ]
    across = max((len(part) for _, part in rows), default=1)
    figure = Figure(figsize=(MARGIN + WIDTH * across, HEIGHT * max(len(rows), 1)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, MARGIN + WIDTH * across)
    axes.set_ylim(0, HEIGHT * max(len(rows), 1))
    axes.set_axis_off()
    place: dict[Node, tuple[float, float]] = {}
    named = set[object]()
    for index, (threat, part) in enumerate(rows):
        colour = COLOURS[list(Threat).index(threat) % len(COLOURS)]
        axes.axhspan(index * HEIGHT, (index + 1) * HEIGHT, color=colour, lw=0)
        middle = (index + 0.5) * HEIGHT
        if threat not in named:
            name = "\n".join(textwrap.wrap(threat, 21))
            axes.text(0.12, middle, name, fontsize=10, weight="bold", va="center")
        named.add(threat)
        for column, node in enumerate(part):
            offset = (across - len(part)) / 2
            place[node] = (MARGIN + WIDTH * (column + offset + 0.5), middle)
    for low, high in covers(found):
        bend = f"arc3,rad={-0.12 if place[low][1] == place[high][1] else 0}"
        line = FancyArrowPatch(
            place[low], place[high], arrowstyle="-", connectionstyle=bend, color="#777777", lw=1, zorder=1
        )
        axes.add_patch(line)
    for node, (x, y) in place.items():
        axes.text(
            x,
            y,
            _told(node),
            fontsize=7.5,
            ha="center",
            va="center",
            zorder=2,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "#555555", "lw": 0.8},
        )
    save_png(figure, path, dpi=110)


def _told(node: Node) -> str:
    """Return the text of a box: the attacks, and below them what they must know, the architecture left out."""
    names = textwrap.wrap(", ".join(node.attacks), CHARACTERS)
    items = sorted(node.knowledge - {Knowledge.ARCHITECTURE})
    knows = textwrap.wrap("knows " + ", ".join(items), CHARACTERS)
    return "\n".join([*names, "", *knows])
