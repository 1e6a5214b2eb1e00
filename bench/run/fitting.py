"""Whether what an attack returned fits its victim and the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from numbers import Integral, Real

from torch import Tensor

from attacks.base import Reconstruction
from bench.terminal.text import one_line

EACH = ("labels", "coefficients", "confidence")
"""What a reconstruction may say of each candidate."""


def misfits(found: Reconstruction, shape: tuple[int, int, int], targets: int | None) -> Iterator[str]:
    """Yield what is wrong with it and what is expected, one line each.

    Args:
        found: what the attack returned.
        shape: (C, H, W) of the victim's inputs.
        targets: how many candidates are expected, None for any number above 0.
    """
    candidates = found.candidates
    given = _shape(candidates)
    if isinstance(given, str) or len(given) != 4 or given[0] == 0 or given[1:] != shape:
        yield f"candidates are {given}; expected a tensor (m, {', '.join(map(str, shape))}), m > 0"
        return
    count = len(candidates)
    if targets not in {None, count}:
        yield f"{count} candidates for {targets} targets; return one each, in their order, NaN where there is none"
    if not candidates.is_floating_point():
        yield f"candidates are {candidates.dtype}; expected float32"
    if candidates.is_meta:
        yield "candidates are on the device meta, which holds no values"
    for name in EACH:
        value = getattr(found, name)
        if value is not None and _shape(value) != (count,):
            yield f"{name} are {_shape(value)}; expected a tensor ({count},), one a candidate, or None"
    if not isinstance(found.loss, Real) and _shape(found.loss) != ():
        yield f"loss is {_shape(found.loss)}; expected a number"
    if not isinstance(found.grad_evals, Integral) or found.grad_evals < 0:
        yield f"grad_evals is {found.grad_evals!r}; expected a whole number from 0"
    if isinstance(found.flags, str) or not all(isinstance(flag, str) for flag in found.flags):
        yield "flags are no texts; expected a tuple of short lines"
    try:
        json.dumps(found.resolved)
    except (TypeError, ValueError) as error:
        yield f"resolved is no JSON, {one_line(str(error))}; expected plain numbers, texts and lists"


def _shape(value: object) -> tuple[int, ...] | str:
    """Return a tensor's shape, or what else a value is."""
    return tuple(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
