"""The coefficients at their start, and how much a candidate weighs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attacks.base import VictimView
from attacks.kkt import KKT
from attacks.kkt_family.coefficients import (
    SMALL,
    Coefficients,
    free_coefficients,
    margin_coefficients,
    margin_gradients,
    tied_coefficients,
    tied_start,
)
from attacks.kkt_general import KKTGeneral
from victims.equations.losses import rival_margins, sample_losses
from victims.equations.network import Network
from victims.spec import MLPSpec, VictimSpec

M = 50
UNSEEN = VictimView({}, frozenset())


def network(outputs: int) -> Network:
    generator = torch.Generator().manual_seed(0)
    return Network((torch.randn(8, 6, generator=generator), torch.randn(outputs, 8, generator=generator)), (None, None))


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["free", "margin", "plain margin"])
def test_a_candidate_weighs_as_much_as_its_coefficients(kind: str) -> None:
    """Units included: the sizes of two kinds are compared where candidates are ranked."""
    labels, start, outputs = torch.arange(M) % 2, drawn(M).abs(), drawn(M, 1)
    coefficients: Coefficients = {
        "free": free_coefficients(drawn(M, 1), unit=7.0),
        "margin": margin_coefficients(labels, start),
        "plain margin": margin_coefficients(labels, start, positive=False),
    }[kind]
    torch.testing.assert_close(coefficients.sizes(), coefficients.at(outputs).norm(dim=1))


@pytest.mark.parametrize("outputs", [1, 3])
def test_free_coefficients_start_as_published_or_small_in_their_units(outputs: int) -> None:
    """The authors' code draws them from N(0, 1); the fast search has a tenth of ||W1||^2 / m for that deviation."""
    victim, at = network(outputs), torch.zeros(M, outputs)
    unit = float(victim.weights[0].square().sum()) / M
    for params, size in (
        (KKTGeneral.Params(method="published"), 1.0),
        (KKTGeneral.Params(), SMALL * unit),
    ):
        generator = torch.Generator().manual_seed(1)
        found = KKTGeneral(params).coefficients(UNSEEN, victim, None, M, generator).at(at)
        torch.testing.assert_close(found, size * drawn(M, outputs))


def test_multipliers_start_as_published_or_alike_in_sum() -> None:
    """The authors' code draws them from U(0, 1); the fast search has (1/2 + U(0, 1)) / m, whose sum is about 1."""
    uniform = torch.rand(M, generator=torch.Generator().manual_seed(1))
    labels = torch.zeros(M, dtype=torch.long)
    for params, expected in (
        (KKT.Params(method="published"), uniform),
        (KKT.Params(), (0.5 + uniform) / M),
    ):
        generator = torch.Generator().manual_seed(1)
        found = KKT(params).coefficients(UNSEEN, network(1), labels, M, generator)
        torch.testing.assert_close(found.sizes(), expected)


@pytest.mark.parametrize("outputs", [2, 3, 10])
def test_a_margin_of_two_signs_is_for_one_output(outputs: int) -> None:
    spec = VictimSpec(name="digits-mlp-20-out", dataset="digits", n=20, architecture=MLPSpec(outputs=outputs))
    assert f"{outputs} outputs, and kkt takes one" in str(KKT(KKT.Params()).supports(spec))
    one = spec.model_copy(update={"architecture": MLPSpec()})
    assert KKT(KKT.Params()).supports(one) is None


@pytest.mark.parametrize("outputs", [1, 2, 3, 10])
def test_margin_gradients_are_those_of_autograd(outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(M) % max(outputs, 2)
    values = torch.randn(M, outputs, generator=generator, dtype=torch.float64, requires_grad=True)
    margins = rival_margins(values[:, 0] if outputs == 1 else values, labels)
    soft, hard = -torch.logsumexp(-margins, 1), margins.amin(1)
    (soft_gradients,) = torch.autograd.grad(soft.sum(), values, retain_graph=True)
    (hard_gradients,) = torch.autograd.grad(hard.sum(), values)
    torch.testing.assert_close(margin_gradients(values.detach(), labels, "all"), soft_gradients)
    torch.testing.assert_close(margin_gradients(values.detach(), labels, "runner-up"), hard_gradients)


@pytest.mark.parametrize("loss", ["cross-entropy", "l2", "l2.5", "huber"])
def test_tied_coefficients_are_those_of_a_gradient_step(loss: str) -> None:
    """theta + sum_i c_i grad Phi(x_i) at equal factors f is one step of size f n down the mean loss."""
    generator = torch.Generator().manual_seed(5)
    labels, factors = torch.arange(M) % 2, torch.full((M,), 0.3, dtype=torch.float64)
    outputs = torch.randn(M, 1, generator=generator, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(sample_losses(loss, outputs[:, 0], labels).sum(), outputs)  # type: ignore[arg-type]
    found = tied_coefficients(loss, labels, factors).at(outputs)  # type: ignore[arg-type]
    torch.testing.assert_close(found.detach(), -0.3 * slope)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("loss", ["cross-entropy", "l2"])
def test_tied_coefficients_start_as_small_as_free_ones_where_outputs_are_0(loss: str, outputs: int) -> None:
    """A tenth of the unit ||W||^2 / m."""
    weight, labels = torch.full((3, 4), 0.5, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    start = tied_start(loss, labels, weight, outputs)  # type: ignore[arg-type]
    nothing = torch.zeros(5, outputs, dtype=torch.float64, requires_grad=True)
    sizes = tied_coefficients(loss, labels, start).at(nothing).norm(dim=1)  # type: ignore[arg-type]
    assert sizes.tolist() == pytest.approx([0.1 * 3 / 5] * 5)
