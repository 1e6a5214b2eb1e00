"""What the figures of a page have in common is there once: grid, ticks and names of axes, and the run they are of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

FEWEST = 3
"""A frame that fewer figures have stays where it is."""
_FIGURE = re.compile(r"(<svg (?!class=\"frames\")[^>]*>)(.*?</svg>)", re.DOTALL)
_FRAME = re.compile(r'(?:<path d="M[^"]*" class="[^"]*"/>|<text [^>]*>[^<]*</text>)+')
_HELD = re.compile(r'<svg class="frames" .*?</svg>', re.DOTALL)
_RUN = re.compile(r'(<figure data-run=")([^"]*)"')
_EACH = re.compile(r'<g id="(f\d+)">(.*?)</g>', re.DOTALL)


def sharing_frames(page: str) -> str:
    """Return a page whose figures use one another's frames: the paths and texts that each of them begins with.

    Args:
        page: HTML whose figures name their styles.
    """
    frames = Counter(frame[0] for figure in _FIGURE.finditer(page) if (frame := _FRAME.match(figure[2])))
    names = {frame: f"f{place}" for place, (frame, count) in enumerate(frames.most_common()) if count >= FEWEST}

    def shared(figure: re.Match[str]) -> str:
        frame = _FRAME.match(figure[2])
        if frame is None or frame[0] not in names:
            return figure[0]
        return f'{figure[1]}<use href="#{names[frame[0]]}"/>{figure[2][frame.end() :]}'

    if not names:
        return page
    page = _FIGURE.sub(shared, page)
    each = "".join(f'<g id="{name}">{frame}</g>' for frame, name in names.items())
    held = f'<svg class="frames" aria-hidden="true" width="0" height="0" style="position: absolute">{each}</svg>'
    return page.replace("</body>", f"{held}</body>", 1) if "</body>" in page else page + held


def with_own_frames(page: str) -> str:
    """Return a page whose figures have their own frames: what `sharing_frames` was given."""
    held = _HELD.search(page)
    if held is None:
        return page
    frames = dict(_EACH.findall(held[0]))
    page = page.replace(held[0], "", 1)
    return re.sub(r'<use href="#(f\d+)"/>', lambda used: frames.get(used[1], ""), page)


def sharing_runs(page: str) -> str:
    """Return a page whose figures name their run once: one without a name is of the run of the figure before."""
    return _resolved(page, lambda run, before: "" if run == before else run)


def with_own_runs(page: str) -> str:
    """Return a page whose figures all name their run: what `sharing_runs` was given."""
    return _resolved(page, lambda run, before: run or before)


def _resolved(page: str, said: Callable[[str, str], str]) -> str:
    before = ""

    def one(figure: re.Match[str]) -> str:
        nonlocal before
        told = said(figure[2], before)
        before = figure[2] or before
        return f'{figure[1]}{told}"'

    return _RUN.sub(one, page)
