"""The parameters by which both levels of a bilevel problem are solved; imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from attacks.base import AttackParams


class ImplicitParams(AttackParams):
    """Parameters of the solution and the differentiation of a training problem.

    Attributes:
        inverse: method that solves H p = b: "cg", or the paper's "quasi-newton" (L-BFGS).
        inverse_tolerance: relative residual at which `inverse` ends.
        inverse_steps: largest number of Hessian products of `inverse` for each damping that it tries.
        lower: method that finds theta(x), "lbfgs".
        lower_tolerance: `lower` ends when ||grad E|| <= lower_tolerance * (weight decay + damping) * ||theta||.
        lower_steps: largest number of iterations of `lower`.
    """

    inverse: Literal["cg", "quasi-newton"] = "cg"
    inverse_tolerance: PositiveFloat = 1e-5
    inverse_steps: PositiveInt = 500
    lower: Literal["lbfgs"] = "lbfgs"
    lower_tolerance: PositiveFloat = 1e-5
    lower_steps: PositiveInt = 1000
