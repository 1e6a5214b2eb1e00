"""The deletion of records from a trained model: refit, one Newton step, gradient ascent.

Bertran et al. 2024 compare a model before and after a deletion; the Newton step is that of Guo et al. 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.deletion.newton import Precondition, newton_step, settled
from victims.deletion.objective import Objective
from victims.deletion.spec import Deletion


def without(objective: Objective, deleted: Tensor) -> Objective:
    """Return the objective without the records with indices `deleted` (k,)."""
    stays = torch.ones(len(objective.seen), dtype=torch.bool)
    stays[deleted] = False
    return objective.part(stays, objective.penalty)


def forget(
    training: Deletion, objective: Objective, theta: Tensor, deleted: Tensor, precondition: Precondition
) -> Tensor:
    """Return the model (p,) after a deletion; after an ascent that diverged it is not finite.

    Args:
        training: how records are deleted.
        objective: on all records.
        theta: (p,) its minimum.
        deleted: (k,) indices of the records to delete.
        precondition: of the Hessian at theta.

    Raises:
        UserError: a refit does not reach a stationary point.
    """
    if training.method == "refit":
        return settled(without(objective, deleted), theta, precondition)
    if training.method == "newton":
        return theta + newton_step(without(objective, deleted), theta, precondition)
    lost = objective.part(deleted, 0.0)
    for _ in range(training.steps):
        theta = theta + training.lr * lost.gradient(theta)
    return theta
