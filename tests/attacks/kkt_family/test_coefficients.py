"""The coefficients at their start, and how much a candidate weighs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attacks.base import VictimView
from attacks.kkt import KKT
from attacks.kkt_family.coefficients import SMALL, Coefficients, free_coefficients, margin_coefficients
from attacks.kkt_general import KKTGeneral
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
    torch.testing.assert_close(coefficients.sizes(), coefficients.rows(outputs).norm(dim=1))


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
        rows = KKTGeneral(params).coefficients(UNSEEN, victim, None, M, generator).rows(at)
        torch.testing.assert_close(rows, size * drawn(M, outputs))


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
