"""A CNN whose activations are SiLU, with layer normalisation and dropout in its head, from a public checkpoint."""

from __future__ import annotations

from pathlib import Path

from owners.tuned_cnn import WIDTH, make_with
from torch import nn


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    return make_with(folder, nn.SiLU(), nn.LayerNorm(WIDTH), nn.SiLU(), nn.Dropout(0.1))
