"""The report's figures, as SVG: what each draws, where names stand in it, and how it takes the page's colours."""

from __future__ import annotations

from bench.publish.report.figures.drawn import (
    CLASSES,
    THRESHOLDS,
    Timed,
    passing,
    precision_recall,
    quality_against_time,
    share_against_threshold,
    ssim_against_output,
)
from bench.publish.report.figures.overview import Gained, gains
from bench.publish.report.figures.svg import labelled, sharing_styles, with_own_styles

__all__ = [
    "CLASSES",
    "THRESHOLDS",
    "Gained",
    "Timed",
    "gains",
    "labelled",
    "passing",
    "precision_recall",
    "quality_against_time",
    "share_against_threshold",
    "sharing_styles",
    "ssim_against_output",
    "with_own_styles",
]
