"""Random features whose last layer interpolates: what gradient descent on the squared error ends at, in closed form.

They are victims of Iurada et al. 2026.
"""

from __future__ import annotations

import copy
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.architectures import seeded, split_last
from victims.equations.losses import margins, sample_losses, signs
from victims.errors import UserError
from victims.ordinary.descent import Examples, Report
from victims.ordinary.training import Trained
from victims.spec import VictimSpec
from victims.training.loop import REPORT_SECONDS, TrainProgress

LARGEST_CONDITION = 1e12
"""Largest condition of Phi Phi'; above it rounding decides the interpolating layer, not the images."""


def interpolate(spec: VictimSpec, members: Examples, report: Report) -> Trained:
    """Return the start, and the network whose last layer is W(0) + (Y - W(0) Phi') (Phi Phi')^-1 Phi, in float64.

    An untrained twin is its start.

    Args:
        spec: a victim that is trained by `Interpolation`.
        members: what it learns.
        report: called once, if the computation took longer than `REPORT_SECONDS`.

    Raises:
        UserError: two images have the same features, so that no layer tells them apart.
    """
    assert spec.architecture.kind == "rf"
    begun = time.monotonic()
    start = seeded(spec.architecture, members.inputs.shape[1:], spec.seed).double()
    model = copy.deepcopy(start)
    if spec.twin != "untrained":
        below, head = split_last(model)
        with torch.no_grad():
            phi = below(members.inputs.double())
        gram = phi @ phi.T
        if not float(torch.linalg.cond(gram)) < LARGEST_CONDITION:
            hint = "has it the same image twice, or fewer features than images?"
            raise UserError(f"victim {spec.name}: the features of its images are not independent; {hint}")
        wanted = targets(members.labels, spec.architecture.outputs) - phi @ head.weight.detach().T
        with torch.no_grad():
            head.weight += torch.linalg.solve(gram, wanted).T @ phi
    if time.monotonic() - begun > REPORT_SECONDS:
        with torch.no_grad():
            outputs = model(members.inputs.double())
        smallest = margins(outputs, members.labels)
        loss = float(sample_losses(spec.loss, outputs, members.labels).mean())
        report(TrainProgress(1, 1, loss, float((smallest > 0).double().mean()), float(smallest.min())))
    return Trained(start, model, {})


def targets(labels: Tensor, outputs: int) -> Tensor:
    """Return the targets (n, C) float64 of labels (n,): one-hot, or -1 and +1 for one output."""
    return signs(labels.double())[:, None] if outputs == 1 else F.one_hot(labels, outputs).double()
