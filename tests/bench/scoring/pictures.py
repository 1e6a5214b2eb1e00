"""Pictures that the tests of the scoring share."""

from __future__ import annotations

import torch
from torch import Tensor

from bench.scoring.matching import stretch


def random_images(count: int, *shape: int, seed: int = 0) -> Tensor:
    """Unlike images that fill [0, 1], so that stretching leaves them alone."""
    return stretch(torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed)))
