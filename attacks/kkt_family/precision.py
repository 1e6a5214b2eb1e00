"""The precision of the fast solver's matrix products, which are nearly all of its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Products = Literal["float32", "bfloat16"]


@contextmanager
def products_in(precision: Products) -> Iterator[None]:
    """Let products of float32 matrices round their factors to bfloat16, until the block ends.

    Sums are float32 all the same. A processor without units for it multiplies in float32. The setting is torch's, of
    the whole process.
    """
    before = torch.get_float32_matmul_precision()
    if precision == "bfloat16":
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
