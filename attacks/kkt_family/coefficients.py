"""The coefficients c (m, C) of theta = sum_ij c_ij grad Phi_j(x_i): multipliers on margins, free, or tied to the loss.

Each kind is a map from the candidates' outputs to the coefficients, with variables of its own that the search moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from victims.spec import Loss

Rivals = Literal["all", "runner-up"]
SMALL = 0.1
"""Standard deviation of free coefficients at their start, in the units of `random_coefficients`."""


@dataclass(frozen=True)
class Coefficients:
    """Coefficients that depend on outputs and on variables.

    Attributes:
        variables: leaf tensors that the search moves.
        at: maps outputs (m, C) to coefficients (m, C), differentiably.
        sizes: returns the weight (m,) of each candidate, differentiably: ||c_i|| of free coefficients, the multiplier
            lambda_i on a margin, the factor of tied coefficients.
    """

    variables: list[Tensor]
    at: Callable[[Tensor], Tensor]
    sizes: Callable[[], Tensor]


def margin_gradients(outputs: Tensor, labels: Tensor, rivals: Rivals) -> Tensor:
    """Return the gradient (m, C) of each sample's margin with respect to its outputs.

    With one output the margin is y Phi. With several, "runner-up" is Buzaglo et al.'s Phi_y - max_{j != y} Phi_j (2023,
    eq. 7). "all" gives every rival its share: at a KKT point of the multiclass margin problem a sample has a
    multiplier for each rival whose constraint is tight. The cross-entropy, whose limit that problem is, shares them in
    proportion to exp(Phi_j), so the candidate's own outputs determine the shares.

    Args:
        outputs: (m, C).
        labels: (m,) class indices.
        rivals: the rival classes that a margin is measured against.
    """
    if outputs.shape[1] == 1:
        return 2.0 * labels[:, None].to(outputs) - 1.0
    own = F.one_hot(labels, outputs.shape[1])
    others = outputs.masked_fill(own.bool(), -torch.inf)
    if rivals == "all":
        return own - others.softmax(1)
    return (own - F.one_hot(others.argmax(1), outputs.shape[1])).to(outputs)


def margin_coefficients(
    labels: Tensor, start: Tensor, rivals: Rivals = "all", *, positive: bool = True
) -> Coefficients:
    """Return coefficients lambda_i times the gradient of candidate i's margin; the search moves lambda.

    Args:
        labels: (m,) class indices given to the candidates.
        start: (m,) lambda at the start.
        rivals: as for `margin_gradients`.
        positive: True for lambda_i = exp(u_i) where u_i moves, False for lambda_i that moves itself, as in the
            authors' code.
    """
    variable = (start.log() if positive else start.clone()).requires_grad_()

    def multipliers() -> Tensor:
        return variable.exp() if positive else variable

    return Coefficients(
        [variable],
        lambda outputs: multipliers()[:, None] * margin_gradients(outputs, labels, rivals),
        multipliers,
    )


def free_coefficients(start: Tensor, unit: float = 1.0) -> Coefficients:
    """Return coefficients of any sign, unit times variables that start at `start` (Buzaglo et al. 2023, eq. 10).

    Args:
        start: (m, C).
        unit: the size of a coefficient whose variable is 1.
    """
    values = start.clone().requires_grad_()
    return Coefficients([values], lambda outputs: unit * values, lambda: unit * values.norm(dim=1))


def rescaled_coefficients(start: Tensor, lr: Tensor) -> Coefficients:
    """Return free coefficients whose variables are c_i / s_i, so that Adam moves c_i by s_i times its learning rate.

    Args:
        start: c (m, C).
        lr: s (m,) > 0.
    """
    scale = lr[:, None]
    values = (start / scale).requires_grad_()
    return Coefficients([values], lambda outputs: scale * values, lambda: (scale * values).norm(dim=1))


def random_coefficients(weight: Tensor, outputs: int, m: int, generator: torch.Generator) -> Coefficients:
    """Return free coefficients that start small and Gaussian, in units of ||W||^2 / m.

    At a stationary point of a network without biases sum_ij c_ij Phi_j(x_i) = ||W_l||^2 for every layer l: theta_l =
    sum_ij c_ij grad_l Phi_j(x_i), and Phi is linear in each layer on the pieces of its ReLUs (Euler). So |c_ij| is of
    the order of ||W_l||^2 / (m |Phi|), where |Phi| is 1 for a regression to +-1 and somewhat larger for a classifier.

    Args:
        weight: W of the layer whose residual is minimised.
        outputs: C.
        m: the number of candidates.
        generator: CPU generator of the start.
    """
    unit = coefficient_unit(weight, m)
    return free_coefficients(SMALL * torch.randn(m, outputs, generator=generator).to(weight), unit)


def tied_coefficients(loss: Loss, labels: Tensor, start: Tensor) -> Coefficients:
    """Return coefficients -exp(u_i) L'(Phi(x_i), y_i), tied to the loss but for a positive factor of each candidate.

    At a stationary point of mean loss + (wd / 2) ||theta||^2 the factors are 1 / (n wd) (Buzaglo et al. 2023, Section
    3). They are variables because several candidates may share one training image, or stand for none.

    Args:
        loss: the loss that the victim was trained with.
        labels: (m,) class indices given to the candidates.
        start: (m,) the factors at the start.
    """
    logarithms = start.log().requires_grad_()
    return Coefficients(
        [logarithms], lambda outputs: -logarithms.exp()[:, None] * _slopes(loss, outputs, labels), logarithms.exp
    )


def tied_start(loss: Loss, labels: Tensor, weight: Tensor, outputs: int) -> Tensor:
    """Return start factors (m,) at which tied coefficients are as small as free coefficients are at their start.

    The sizes agree at outputs of 0. The factor 1 / (n wd) is right at the training images, where the loss is almost
    flat; at random candidates it would give far larger coefficients.

    Args:
        loss: the loss that the victim was trained with.
        labels: (m,) class indices given to the candidates.
        weight: W of the layer whose residual is minimised.
        outputs: C.
    """
    nothing = torch.zeros(len(labels), outputs, requires_grad=True).to(weight)
    start: Tensor = SMALL * coefficient_unit(weight, len(labels)) / _slopes(loss, nothing, labels).norm(dim=1)
    return start.detach()


def _slopes(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the derivatives (m, C) of the samples' losses by outputs (m, C), differentiable themselves."""
    from victims.equations.losses import sample_losses

    with torch.enable_grad():
        given = outputs if outputs.requires_grad else outputs.detach().requires_grad_()
        shaped = given[:, 0] if given.shape[1] == 1 else given
        (slope,) = torch.autograd.grad(sample_losses(loss, shaped, labels).sum(), given, create_graph=True)
    return slope


def coefficient_unit(weight: Tensor, m: int) -> float:
    """Return ||W||^2 / m, the unit of free coefficients of m candidates; see `random_coefficients`."""
    return float(weight.square().sum()) / m
