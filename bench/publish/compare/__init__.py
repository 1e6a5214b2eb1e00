"""The verb `compare`: what changed between two tables, how surely, and why."""

from bench.publish.compare.causes import NO_CAUSE
from bench.publish.compare.comparison import Comparison, compare
from bench.publish.compare.entries import Name

__all__ = ["NO_CAUSE", "Comparison", "Name", "compare"]
