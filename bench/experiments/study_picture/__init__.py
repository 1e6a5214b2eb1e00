"""The pictures of studies: what each kind of plot draws, and what it calls the columns of a table."""

from __future__ import annotations

from bench.experiments.study_picture.drawn import draw
from bench.experiments.study_picture.samples import strips

__all__ = ["draw", "strips"]
