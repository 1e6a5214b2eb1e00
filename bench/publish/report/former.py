"""What an earlier report shows of runs whose folders are not here, such as those of a table that came without them.

A figure is taken over as it stands if it holds nothing but what a report draws with; another is left out. The page's
security policy lets it neither run nor load anything.
"""

from __future__ import annotations

import base64
import html
import io
import re
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.image import imread
from numpy.typing import NDArray

from bench.publish.ranking import Row
from bench.publish.report.figures.frames import with_own_frames, with_own_runs
from bench.publish.report.figures.svg import with_own_styles
from bench.publish.report.files import GROUPS, LAYERS, Examples, Panel, RunFiles

_PICTURE = re.compile(
    rf'<figure data-run="([^"]*)" data-group="({"|".join(GROUPS)})" data-image="(\d+)"'
    r' data-ssim="(nan|-?\d+(?:\.\d+)?(?:e-?\d+)?)"><img src="data:image/webp;base64,([^"]*)"'
)
_DRAWN = re.compile(r'<figure data-run="([^"]*)">(<svg.*?</svg>\s*)<figcaption>(.*?)</figcaption>', re.DOTALL)
_ATTRIBUTE = re.compile(r'\s+([\w:-]+)="([^"<>]*)"')
_ELEMENT = re.compile(
    r"</?(?:svg|g|path|defs|clipPath|rect|use|circle|ellipse|line|polyline|polygon|image|text|tspan|title)"
    rf"(?:{_ATTRIBUTE.pattern})*\s*/?>"
)
_INSIDE = ("#", "data:image/")
"""What a link begins with that does not leave the page."""


def mark(run: Row) -> str:
    """Return the key under which a page holds a run; made again, or scored under another protocol, it has another."""
    return f"{run['run_id']} {run['protocol']} {run['started_utc']}"


def former(page: Path) -> dict[str, RunFiles]:
    """Return the pictures and figures of each run that a report shows, by `mark`; nothing if there is no report.

    The pictures are lossless there, so they come back as the run's folder had them. What cannot be read is left out.
    """
    try:
        text = with_own_styles(with_own_frames(with_own_runs(page.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError):
        return {}
    pictures: dict[str, dict[tuple[int, int], tuple[NDArray[np.uint8], float]]] = {}
    for run, group, image, ssim, encoded in sorted(_PICTURE.findall(text), key=lambda one: GROUPS.index(one[1])):
        if (stack := _stack(encoded)) is not None:
            pictures.setdefault(html.unescape(run), {})[GROUPS.index(group), int(image)] = stack, float(ssim)
    drawn: dict[str, list[Panel]] = {}
    for run, svg, caption in _DRAWN.findall(text):
        if not _only_draws(svg):
            continue
        drawn.setdefault(html.unescape(run), []).append(Panel(Markup(svg), html.unescape(caption)))
    return {
        run: RunFiles(examples=_examples(pictures.get(run, {})), drawn=tuple(drawn.get(run, ())))
        for run in {**pictures, **drawn}
    }


def _only_draws(svg: str) -> bool:
    """Say whether a figure has the elements of drawings alone, and neither events nor links out of it."""
    elements = re.findall("<[^<>]*>?", svg)
    attributes = _ATTRIBUTE.findall("".join(elements))
    return all(map(_ELEMENT.fullmatch, elements)) and not any(
        name.lower().startswith("on") or (name.lower().endswith("href") and not value.startswith(_INSIDE))
        for name, value in attributes
    )


def _examples(pictures: dict[tuple[int, int], tuple[NDArray[np.uint8], float]]) -> Examples | None:
    stacks = [stack for stack, _ in pictures.values()]
    if len({stack.shape for stack in stacks}) != 1:
        return None
    group, image = np.array(list(pictures)).T
    return Examples(np.stack(stacks), np.array([ssim for _, ssim in pictures.values()]), image, group)


def _stack(encoded: str) -> NDArray[np.uint8] | None:
    """Return the images (S, H, W, 3) that transparent rows separate in a picture, None if there are none."""
    try:
        canvas = imread(io.BytesIO(base64.b64decode(encoded, validate=True)), format="webp")
    except (ValueError, OSError, SyntaxError):
        return None
    if canvas.ndim != 3 or canvas.shape[2] != 4:
        return None
    parts = np.split(canvas, np.flatnonzero(~canvas[:, :, 3].any(axis=1)))
    images = [part[min(place, 1) :, :, :3] for place, part in enumerate(parts)]
    return np.stack(images) if 1 < len(images) <= len(LAYERS) and len({one.shape for one in images}) == 1 else None
