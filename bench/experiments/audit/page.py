"""The page of an audit: one file that loads nothing, and prints on a few sheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bench.experiments.audit.candidates import Surest
from bench.experiments.audit.findings import hit_records
from bench.experiments.audit.model import Audit, AuditOutcome, Record
from bench.experiments.audit.scores import ALIKE, Scored
from bench.plan.exposed import exposure_lines
from bench.plan.prospects import Outlook
from bench.publish.numbers import MISSING, duration
from bench.publish.page import page
from bench.publish.report.pictures import stack_uri
from victims.datasets.tables import Units

if TYPE_CHECKING:
    from bench.experiments.audit.rows import SideBySide

HERE = Path(__file__).parent
TELLING = 3
"""Reconstructions on the page."""
MOST_GROUPS, MOST_OVERLAPS, MOST_COLUMNS = 20, 8, 10
"""Rows of the tables of classes, of overlaps and of columns; the rest are counted."""


@dataclass(frozen=True)
class Telling:
    """A reconstruction beside its training image and the held-out image nearest to that.

    Attributes:
        uri: the picture, one image above the other.
        record: the training record.
        layers: what it shows, from top to bottom.
    """

    uri: str
    record: Record
    layers: tuple[str, ...]


def telling(found: Sequence[Record], scored: Scored) -> list[Telling]:
    """Return the reconstructions that say most: those furthest above what chance reaches on the same record.

    Args:
        found: all records.
        scored: the pictures.
    """
    shown = []
    for record in hit_records(found, scored)[:TELLING]:
        attack = record.best_attack
        images = [scored.attacks[attack].reconstruction[record.index], scored.images[record.index]]
        layers = ["reconstruction", "training image"]
        if scored.nearest is not None:
            images.append(scored.nearest[record.index])
            layers.append("nearest held-out image")
        shown.append(Telling(stack_uri(_bytes(images)), record, tuple(layers)))
    return shown


def render(
    audit: Audit,
    shown: Sequence[Telling],
    unverified: Sequence[Surest] = (),
    rows: Sequence[SideBySide] = (),
    units: Units | None = None,
) -> str:
    """Return the page.

    Args:
        audit: what was found.
        shown: reconstructions beside their training images.
        unverified: candidates of a model without training records.
        rows: reconstructions beside their training rows.
        units: of the columns of a table; None for images.
    """
    return page(
        HERE / "audit.html.j2",
        style=(HERE / "audit.css").read_text(encoding="utf-8"),
        audit=audit,
        rule=ALIKE.name,
        shown=shown,
        unverified=[_candidates(one, units) for one in unverified],
        rows=rows,
        most_columns=MOST_COLUMNS,
        found=[finding.sentence for finding in audit.threats if finding.outcome is AuditOutcome.FOUND],
        declined=_declined(audit),
        exposure=list(exposure_lines(audit.exposure)),
        attacks=sorted({name for overlap in audit.overlaps for name in overlap.attacks}),
        most_groups=MOST_GROUPS,
        most_overlaps=MOST_OVERLAPS,
        missing=MISSING,
        duration=duration,
    )


def _declined(audit: Audit) -> dict[str, list[str]]:
    """Return the attacks that do not apply, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for one in audit.attempts:
        if one.outlook is Outlook.DECLINED:
            by_reason.setdefault(one.reason, []).append(one.attack)
    return by_reason


def _candidates(one: Surest, units: Units | None) -> tuple[Surest, list[str], list[tuple[str, list[str]]]]:
    """Return candidates with their pictures, or of a table with its columns' names and the values of each."""
    if units is None:
        return one, [stack_uri(_bytes([image])) for image in one.images], []
    values = units.rows(one.images.numpy()).T[:MOST_COLUMNS]
    return (
        one,
        [],
        [(name, [f"{value:.4g}" for value in row]) for name, row in zip(units.columns, values, strict=False)],
    )


def _bytes(images: Sequence[Tensor]) -> np.ndarray:
    """Return images (C, H, W) in [0, 1] as (S, H, W, 3) uint8, grey ones repeated."""
    stacked = torch.stack(list(images)).clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1)
    return stacked.expand(*stacked.shape[:3], 3).numpy()
