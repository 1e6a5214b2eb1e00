"""The two releases of a model, as the attack on a deletion reads them."""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.knowledge import VictimView
from victims.deletion.spec import Deletion, ShallowSpec
from victims.errors import UserError


def described(view: VictimView) -> tuple[ShallowSpec, Deletion]:
    """Return the model and its training.

    Raises:
        TypeError: the victim deletes nothing.
    """
    architecture, training = view.architecture.spec, view.training
    if not (isinstance(architecture, ShallowSpec) and isinstance(training, Deletion)):
        raise TypeError(f"a {architecture.kind} releases no model before and after a deletion")
    return architecture, training


def releases(view: VictimView) -> tuple[Tensor, Tensor]:
    """Return the parameters before the deletion (p,) and those after each of B deletions (B, p), float64.

    Raises:
        UserError: not exactly one earlier release is given, or its parameters have other names or shapes.
    """
    earlier, later = view.earlier_weights, view.weights
    if len(earlier) != 1:
        raise UserError(f"{len(earlier)} releases before the deletion are given; the attack takes one")
    shapes = [{name: tuple(value.shape) for name, value in earlier[0].items()}]
    shapes.append({name: tuple(value.shape[1:]) for name, value in later.items()})
    if shapes[0] != shapes[1]:
        raise UserError(f"the releases are no two of one model: {shapes[0]} before the deletion, {shapes[1]} after it")
    before = torch.cat([value.flatten() for value in earlier[0].values()]).double()
    return before, torch.cat([value.flatten(1) for value in later.values()], 1).double()
