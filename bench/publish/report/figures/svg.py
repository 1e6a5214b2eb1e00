"""A figure as SVG that takes its colours and its fonts from the page it stands in."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
from markupsafe import escape
from matplotlib.figure import Figure
from matplotlib.image import imread

from bench.publish.report.pictures import webp_uri

INK, MUTED, LINE, ACCENT, PAGE = "#010101", "#020202", "#030303", "#040404", "#050505"
_THEME = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    PAGE: "var(--page)",
}
"""Colours that stand for those of the page, light or dark."""
SVG = "http://www.w3.org/2000/svg"
DOTS_DPI = 120
"""Dots an inch of the parts of a figure that are pictures."""
LEVELS = 8
"""Levels of each colour in these pictures: the many shades at edges of overlapping dots were half of the bytes."""

_CIRCLE = re.compile(r'<path((?: id="[^"]+")?) d="M0 ([\d.]+)(?:C(?: ?-?[\d.]+){6}){8}z?"', re.IGNORECASE)
"""A dot, which matplotlib draws as eight curves around the origin."""
_NUMBER = r"(-?[\d.]+)"
_LINE = re.compile(rf'<path d="m{"(?: |(?=-))".join([_NUMBER] * 4)}" style="([^"]*)"/>')
"""A path of one step."""
_TEXT = re.compile(r"</?(?:text|tspan)\b")
_RULE = re.compile(r"^(?:svg )?\.(s\d+) \{ (.*) \}\n", re.MULTILINE)
"""A style that figures share; pages of before named the element around it too."""


def svg(figure: Figure) -> str:
    """Return the figure as an SVG element: no size, fonts or unused ids of its own, and the page's colours.

    Coordinates have one decimal of a point, other numbers two, and rotations by 0 are left out: that saves a quarter of
    the text.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, dpi=DOTS_DPI, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg ") :]
    # page.css says once what the style of each figure says
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style .*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1))
    used = set(re.findall(r"[\"(]#([\w-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r"<[^>]+>", lambda match: _shortened(match[0]), text)
    text = re.sub(r'style="[^"]*"', lambda match: _themed(match[0]), text)
    text = re.sub(r"data:image/png;base64,\s*([^\"]*)", lambda match: _smaller(match[1]), text)
    return re.sub(r">\s+<", "><", text)


def labelled(svg: str, caption: str) -> str:
    """Return an SVG element as one picture, which is read aloud as the first sentence of its caption beside it."""
    bare = re.sub(r'^<svg role="img" aria-label="[^"]*"', "<svg", svg)
    first = re.split(r"(?<=\.) ", caption, maxsplit=1)[0]
    return bare.replace("<svg", f'<svg role="img" aria-label="{escape(first)}"', 1)


def sharing_styles(page: str) -> str:
    """Return a page whose figures name their styles in place of repeating them, less what draws nothing.

    Ids are short, and each is its figure's own.

    Args:
        page: HTML with a style element in its head. Names from tables are escaped in it, so each tag is our own.
    """
    names: dict[str, str] = {}
    ids: dict[tuple[int, str], str] = {}

    def shared(figure: re.Match[str]) -> str:
        def named(tag: re.Match[str]) -> str:
            text = re.sub(r'style="([^"]*)"', lambda style: f'class="{_name(style[1])}"', tag[0])
            return re.sub(r'( id="| href="#|url\(#)([\w-]+)', lambda place: place[1] + _id(place[2]), text)

        def _id(long: str) -> str:
            return ids.setdefault((figure.start(), long), f"i{len(ids):x}")

        return re.sub(r"<[^>]+>", named, _bare(figure[0]))

    def _name(style: str) -> str:
        return names.setdefault(style, f"s{len(names)}")

    page = re.sub(r"<svg .*?</svg>", shared, page, flags=re.DOTALL)
    # no element stands before the class: what a <use> draws has none of those around the original (SVG 2, 5.6.3)
    rules = "".join(f".{name} {{ {style} }}\n" for style, name in names.items())
    return page.replace("</style>", f"{rules}</style>", 1)


def with_own_styles(page: str) -> str:
    """Return a page whose figures repeat their styles: what `sharing_styles` was given, less its rules."""
    head, end, body = page.partition("</style>")
    styles = dict(_RULE.findall(head))

    def repeated(tag: re.Match[str]) -> str:
        return re.sub(r'class="(s\d+)"', lambda name: f'style="{styles.get(name[1], "")}"', tag[0])

    body = re.sub(r"<svg .*?</svg>", lambda figure: re.sub(r"<[^>]+>", repeated, figure[0]), body, flags=re.DOTALL)
    return _RULE.sub("", head) + end + body


def _smaller(png: str) -> str:
    pixels = imread(io.BytesIO(base64.b64decode(png)), format="png")
    shades = ((LEVELS - 1) * pixels).round() / (LEVELS - 1)
    shades[shades[:, :, 3] == 0] = 0
    return webp_uri((255 * shades).round().astype(np.uint8))


def _shortened(tag: str) -> str:
    """Return a tag with shorter numbers, without a rotation by 0 and without names of XML that HTML does not need."""
    tag = re.sub(r' (?:xmlns:xlink="[^"]*|version="[^"]*|transform="rotate\(-?0 [^"]*)"', "", tag)
    tag = re.sub(r"(?<=\.\d\d)\d+", "", tag.replace(" xlink:href=", " href="))
    return re.sub(r' (?:d|x|y|transform)="[^"]*"', lambda places: re.sub(r"(?<=\.\d)\d+", "", places[0]), tag)


def _bare(svg: str) -> str:
    """Return an SVG element without groups that set nothing, paths that draw nothing, and what HTML knows of itself.

    Dots are circles, and the other paths are short.
    """
    nothing: list[bool] = []

    def needed(tag: re.Match[str]) -> str:
        if tag[0] != "</g>":
            nothing.append(tag[0] == "<g>")
            return "" if nothing[-1] else tag[0]
        return "" if nothing.pop() else tag[0]

    svg = re.sub(r"</?g\b[^>]*(?<!/)>", needed, svg.replace("<g/>", "").replace(f' xmlns="{SVG}"', "", 1))
    svg = re.sub(r'<path [^>]*style="fill: none"/>', "", svg).replace("<defs></defs>", "")
    svg = re.sub(r' d="([^"]*)"', lambda path: f' d="{_straightened(_relative(path[1]))}"', svg)
    svg = _CIRCLE.sub(r'<circle\1 r="\2"', _joined(_unclipped(svg)))
    return re.sub(r' (?:x|y|transform)="[^"]*"', lambda places: re.sub(r"\.0(?!\d)", "", places[0]), svg)


def _relative(path: str) -> str:
    """Return a path whose points are told from the one before, which is shorter; one with curves as it is.

    They are told in tenths of a point, as they are drawn, so that no rounding adds up.
    """
    path = re.sub(r"\s*([MLCQz])\s*|\s+$", r"\1", path)
    if re.search(r"[^MLz\d. -]|zL", path):
        return path
    told, place, first = "", (0, 0), (0, 0)
    for command, across, down in re.findall(r"([ML])([\d.-]+) ([\d.-]+)|z", path):
        if not command:
            told, place = f"{told}z", first
            continue
        before, place = place, (round(10 * float(across)), round(10 * float(down)))
        first = place if command == "M" else first
        told += ("m" if command == "M" else " ") + " ".join(map(_tenths, np.subtract(place, before)))
    return told.replace(" -", "-")


def _straightened(path: str) -> str:
    """Return a path of `_relative` without the points inside its level and upright stretches, which draw nothing."""
    if re.search(r"[^mz\d. -]", path):
        return path
    told = ""
    for part, closed in re.findall(r"m([^mz]*)(z?)", path):
        tenths = [round(10 * float(number)) for number in re.findall(r"-?[\d.]+", part)]
        begin, *steps = zip(tenths[::2], tenths[1::2], strict=True)
        kept: list[tuple[int, int]] = []
        for across, down in steps:
            before = kept[-1] if kept else (0, 0)
            level = down == before[1] == 0 and across * before[0] > 0
            if level or (across == before[0] == 0 and down * before[1] > 0):
                kept[-1] = (before[0] + across, before[1] + down)
            else:
                kept.append((across, down))
        told += "m" + " ".join(" ".join(map(_tenths, step)) for step in (begin, *kept)) + closed
    return told.replace(" -", "-")


def _unclipped(svg: str) -> str:
    """Return an SVG element whose level and upright lines, most of them a grid's, have no clip that cuts nothing."""
    frames = re.findall(r'<clipPath id="([^"]+)"><rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"', svg)
    inside = {name: [float(number) for number in frame] for name, *frame in frames}

    def freed(line: re.Match[str]) -> str:
        x, y, across, down = (float(number) for number in re.findall(r"-?[\d.]+", line[1]))
        left, top, width, height = inside.get(line[2], (0, 0, 0, 0))
        horizontal = left - 0.1 <= min(x, x + across) <= max(x, x + across) <= left + width + 0.1
        vertical = top - 0.1 <= min(y, y + down) <= max(y, y + down) <= top + height + 0.1
        uncut = horizontal and vertical and 0 in (across, down)
        return line[0].replace(f' clip-path="url(#{line[2]})"', "") if uncut else line[0]

    return re.sub(r'<path d="m(-?[\d.]+(?:[ -][\d.]+){3})" clip-path="url\(#([^)]+)\)"', freed, svg)


def _joined(svg: str) -> str:
    """Return an SVG element whose level and upright lines of one style, most of them a grid's, are one path.

    They are drawn where the first of them is, so that only those are joined between which nothing but texts is drawn.
    """
    begun: dict[str, int] = {}
    parts = list[str]()
    for tag in re.split(r"(<[^>]+>)", svg):
        line = _LINE.fullmatch(tag)
        if line is None or 0 not in (float(line[3]), float(line[4])):
            begun = begun if not tag.startswith("<") or _TEXT.match(tag) else {}
            parts.append(tag)
            continue
        x, y, across, down, style = line.groups()
        stroke = f"h{across}" if float(down) == 0 else f"v{down}"
        if style in begun:
            parts[begun[style]] = parts[begun[style]].replace('" style', f'M{x} {y}{stroke}" style', 1)
        else:
            begun[style] = len(parts)
            parts.append(f'<path d="M{x} {y}{stroke}" style="{style}"/>')
    return "".join(parts)


def _tenths(number: int) -> str:
    """Return a tenth of a number, without zeros that need not be written."""
    return re.sub(r"\b0(?=\.[1-9])|\.0$", "", f"{number / 10:.1f}")


def _themed(style: str) -> str:
    style = re.sub(r"font-family: [^;]*; ", "", style)
    for stand_in, colour in _THEME.items():
        style = style.replace(stand_in, colour)
    return style
