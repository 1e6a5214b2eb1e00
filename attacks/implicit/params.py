"""The parameters by which both levels of a bilevel problem are solved; imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from attacks.base import AttackParams


class ImplicitParams(AttackParams):
    """How training is solved, and how it is differentiated.

    Attributes:
        inverse: how H^-1 is multiplied by: "cg", "neumann" (the truncated series) or "quasi-newton" (L-BFGS).
        inverse_tolerance: relative residual at which that ends.
        inverse_steps: the most Hessian products for it.
        lower: how theta(x) is found, by "lbfgs" or by "gd", gradient descent with momentum.
        lower_tolerance: it is found when ||grad E|| <= this * (weight decay + damping) * ||theta||.
        lower_steps: the most iterations for it.
    """

    inverse: Literal["cg", "neumann", "quasi-newton"] = "cg"
    inverse_tolerance: PositiveFloat = 1e-5
    inverse_steps: PositiveInt = 500
    lower: Literal["lbfgs", "gd"] = "lbfgs"
    lower_tolerance: PositiveFloat = 1e-5
    lower_steps: PositiveInt = 1000
