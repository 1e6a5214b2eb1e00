"""What a span says of its own directions."""

from __future__ import annotations

import torch

from attacks.independent_components.span import UpdateSpan
from victims.equations.network import Network


def test_no_more_directions_are_said_than_there_are() -> None:
    drawn = (torch.randn(*size, generator=torch.Generator().manual_seed(0)) for size in ((12, 30), (4, 12), (12, 30)))
    first, last, added = drawn
    start, end = (Network((weight, last), (None, None)) for weight in (first, first + added))
    span = UpdateSpan.added_to(start, end, 500)
    assert len(span.basis) == 12
    assert span.flag.endswith(" 12 directions")
