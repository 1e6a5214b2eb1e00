"""What a figure of a page draws, mark by mark: two that draw the same have the same marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
PLACE = r"[A-Za-z]+|-?\d+(?:\.\d)?"
JOINED = re.compile(r"M(-?[\d.]+) (-?[\d.]+)([hv])(-?[\d.]+)")
"""Level and upright lines that are one path."""
DOT = re.compile(r"M 0 ([\d.]+)(?: C(?: -?[\d.]+){6}){8}(?: z)?")


def points(path: str) -> list[tuple[str, float, float]]:
    """Return the commands of a path and where each goes; a figure tells a line's points from the ones before."""
    found, x, y, first = list[tuple[str, float, float]](), 0.0, 0.0, (0.0, 0.0)
    for command, told in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        places = [float(place) for place in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", told)]
        for index, (across, down) in enumerate(zip(places[::2], places[1::2], strict=True)):
            x, y = (x + across, y + down) if command == "m" else (across, down)
            first = (x, y) if command in "mM" and index == 0 else first
            found.append(("L" if index and command in "mM" else command.upper(), round(x, 1) + 0.0, round(y, 1) + 0.0))
        if command == "z":
            (x, y), found = first, [*found, ("z", 0, 0)]
    return [one for place, one in enumerate(found) if not _between(found[place - 1 : place + 2])]


def _between(three: list[tuple[str, float, float]]) -> bool:
    """Say whether the second of three points lies between the others on a level or an upright line."""
    if [one[0] for one in three[1:]] != ["L", "L"]:
        return False
    (_, x, y), (_, across, down), (_, end, last) = three
    level = y == down == last and (across - x) * (end - across) > 0
    upright = x == across == end and (down - y) * (last - down) > 0
    return three[0][0] in "ML" and (level or upright)


def straight(path: str) -> bool:
    """Whether a path is a level or an upright line."""
    ends = [tuple(place) for _, *place in points(re.sub(r"(\.\d)\d+", r"\1", path))] if path else []
    return len(ends) == 2 and any(one == other for one, other in zip(*ends, strict=True))


def in_order(mark: tuple[str, ...]) -> bool:
    """Whether a mark is neither a text nor a straight line, which lie beside one another in any order."""
    return not mark[0].endswith("}text") and not re.search(r"\[\('M', [\d., -]+\), \('L', [\d., -]+\)\]", mark[-1])


def drawn(svg: str, styles: dict[str, str] | None = None) -> list[tuple[str, ...]]:
    """Return what each mark of a figure is, with all that the groups around it set; styles by name if they have one.

    Coordinates are cut to a decimal, and a reference is told by what it refers to.
    """
    root = ElementTree.fromstring(svg)
    meant = {element.get("id"): element for element in root.iter()}

    def told(key: str, value: str) -> str:
        if places := re.findall(r"^#(\S+)$|^url\(#(\S+)\)$", value):
            return str(list(marks(meant["".join(places[0])], ())))
        if key == "d":
            return str(points(re.sub(r"(\.\d)\d+", r"\1", value)))
        if key in ("x", "y", "transform"):
            return " ".join(f"{float(one):g}" if one[-1].isdigit() else one for one in re.findall(PLACE, value))
        return " ".join(value.split())

    def marks(element: ElementTree.Element, around: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for x, y, way, far in (lines := JOINED.findall(element.get("d", ""))):
            step = f"{far} 0" if way == "h" else f"0 {far}"
            yield from marks(ElementTree.Element(element.tag, element.attrib | {"d": f"m{x} {y} {step}"}), around)
        if lines:
            return
        said = {key.split("}")[-1]: value for key, value in element.items() if key not in ("class", "id", "version")}
        if straight(said.get("d", "")):
            said.pop("clip-path", None)
        tag = element.tag
        if dot := DOT.fullmatch(" ".join(said.get("d", "").split())):
            tag, said["r"] = f"{SVG}circle", dot[1]
            del said["d"]
        said = {key: told(key, value) for key, value in said.items()}
        if styles is not None and (style := styles.get(element.get("class", ""))):
            said["style"] = style
        around = around + ((str(sorted(said.items())),) if said else ())
        if not element.tag.endswith(("}g", "}style", "}defs")) and said.get("style") != "fill: none":
            yield tag, (element.text or "").strip(), *around
        for child in element:
            yield from marks(child, around)

    return list(marks(root, ()))
