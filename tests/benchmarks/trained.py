"""The victims on which the benchmarks measure."""

from __future__ import annotations

from pathlib import Path

import torch

from bench.plan import registry
from victims.base import Victim
from victims.obtain import obtain
from victims.spec import VictimSpec

CPU = torch.device("cpu")


def trained(name: str | VictimSpec, data_dir: Path, retraining: int = 0) -> Victim:
    """Return a trained victim, one of the registry's if it is named."""
    spec = registry.victims().items[name] if isinstance(name, str) else name
    assert isinstance(spec, VictimSpec)
    return obtain(spec.retrained(retraining), data_dir, CPU, lambda progress: None, lambda notice: None)
