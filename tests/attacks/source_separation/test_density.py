"""Densities of responses: their derivatives are those of their costs, and what channels share tells sources apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import attacked, context, sgd_network, victim_of
from picard import picard
from picard.densities import Tanh
from torch import Tensor

from attacks.cocktail_party import CocktailParty
from attacks.context import Budget
from attacks.independent_components.params import CocktailPartyParams
from attacks.optimisation.parts import Parts
from attacks.source_separation import unmixing
from attacks.source_separation.density import SPARSE, Bell, ScaleMixture
from attacks.source_separation.mixed import by_themselves
from attacks.source_separation.responses import thinned
from attacks.source_separation.unmixing import unmix, whitening_of

CHANNELS, PLACES, SOURCES = 3, 400, 12
PHOTOS = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=4, epochs=10)


def sources(count: int = SOURCES, places: int = PLACES) -> Tensor:
    """Return responses (r, T) that are normal, of one size in all channels of a place."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randn(count, 1, places, generator=generator, dtype=torch.float64).exp()
    drawn = torch.randn(count, CHANNELS, places, generator=generator, dtype=torch.float64)
    return F.normalize((sizes * drawn).flatten(1)) * (CHANNELS * places) ** 0.5


@pytest.mark.parametrize("least", [0.01, 1.0])
def test_the_score_is_the_derivative_of_the_cost(least: float) -> None:
    sizes = torch.linspace(0.5, 2, SOURCES, dtype=torch.float64)[:, None]
    rows = (sources() * sizes).requires_grad_()
    density = ScaleMixture(CHANNELS, least)
    (slope,) = torch.autograd.grad(density.cost(rows), rows)
    score = torch.empty_like(rows)
    mixed = by_themselves(rows.detach(), CHANNELS)
    value = mixed.evaluate(density, mixed.rows, score)

    for one, row in zip(value, rows.detach(), strict=True):
        assert float(one) == pytest.approx(float(density.cost(row[None])))
    assert torch.allclose(score, slope * rows.shape[1])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("least", [0.01, 1.0])
def test_the_curvature_of_a_pair_is_the_second_derivative_of_the_cost(channels: int, least: float) -> None:
    """d^2 cost / d D_ij^2, where row i gets D_ij times row j: large at the same places, else independent."""
    rows = sources(4, 20_000) * torch.linspace(0.5, 2, 4, dtype=torch.float64)[:, None]
    sizes = rows[0].unflatten(0, (channels, -1)).square().mean(0).sqrt()
    rows[1] = (rows[1].unflatten(0, (channels, -1)) * sizes).flatten()
    density, mixed = ScaleMixture(channels, least), by_themselves(rows, channels)
    bent = mixed.curvature(density, rows)

    def cost(entry: Tensor, i: int, j: int) -> Tensor:
        return density.cost((rows[i] + entry * rows[j])[None])

    for i, j in ((0, 1), (1, 0), (2, 3)):
        begun = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(cost(begun, i, j), begun, create_graph=True)
        (second,) = torch.autograd.grad(slope, begun)
        assert float(bent[i, j]) == pytest.approx(float(second), rel=0.1)


def test_of_fastica_the_score_and_the_curvature_are_those_of_its_contrast() -> None:
    rows = sources()
    bell, score = (rows.square() / -2).exp(), torch.empty_like(rows)
    mixed = by_themselves(rows, CHANNELS)
    curvature = mixed.evaluate(Bell(), mixed.rows, score)
    assert torch.allclose(score, rows * bell)
    assert torch.allclose(curvature, ((1 - rows.square()) * bell).mean(1))
    assert torch.allclose(by_themselves(3 * rows, CHANNELS).contrast(), bell.mean(1))  # rows of unit variance


def test_no_size_is_likelier_than_another() -> None:
    """Twice the picture costs log 2 more, which is what the determinant of twice the mixture gives back."""
    density, rows = ScaleMixture(CHANNELS), sources()
    more = float(density.cost(2 * rows) - density.cost(rows)) / SOURCES
    assert more == pytest.approx(float(torch.tensor(2.0).log()))


def test_what_channels_share_tells_sources_apart() -> None:
    """Each response by itself is as heavy-tailed under both."""
    truth = sources()
    mixed = torch.randn(SOURCES, SOURCES, generator=torch.Generator().manual_seed(1), dtype=torch.float64) @ truth
    missed = []
    for density in (SPARSE, ScaleMixture(CHANNELS)):
        found = unmix(by_themselves(mixed, density.channels), (100, 60), Parts(context(), 160), density)
        near = (F.normalize(found.mixture @ mixed) @ F.normalize(truth).T).abs().amax(0)
        missed.append(float((1 - near).mean()))
    assert missed[1] < 0.7 * missed[0]


def test_a_smooth_likelihood_leads_to_sources_that_a_rugged_one_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty sources of two hundred places, whose sizes differ little: at the last level alone mixtures stay."""
    generator = torch.Generator().manual_seed(0)
    sizes = (torch.randn(60, 1, 200, generator=generator, dtype=torch.float64) / 2).exp()
    truth = (sizes * torch.randn(60, CHANNELS, 200, generator=generator, dtype=torch.float64)).flatten(1)
    mixed = torch.randn(60, 60, generator=generator, dtype=torch.float64) @ truth
    near = []
    for levels in (unmixing.LEVELS, ((unmixing.LEVELS[-1][0], 1.0),)):
        monkeypatch.setattr(unmixing, "LEVELS", levels)
        found = unmix(by_themselves(mixed, CHANNELS), (20, 600), Parts(context(), 620), ScaleMixture(CHANNELS))
        near.append(float((F.normalize(found.mixture @ mixed) @ F.normalize(truth).T).abs().amax(0).mean()))
    assert near[0] > 0.8
    assert near[1] < 0.7


def test_the_levels_share_the_iterations() -> None:
    few = unmix(by_themselves(sources(), CHANNELS), (5, 8), Parts(context(), 13), ScaleMixture(CHANNELS))
    assert (few.steps, few.settled) == (13, False)


def test_sparse_responses_are_separated_by_fastica_and_picard() -> None:
    rows, steps = sources(), unmixing.CHUNK
    rotated = unmix(by_themselves(rows), (100, 0), Parts(context(), 100))
    found = unmix(by_themselves(rows), (100, steps), Parts(context(), 100 + steps))
    whitening = whitening_of(rows)
    begun = (rotated.mixture @ torch.linalg.inv(whitening)).numpy()
    options = {"ortho": False, "whiten": False, "centering": False, "max_iter": steps, "tol": 1e-3}
    _, theirs, _ = picard((whitening @ rows).numpy(), fun=Tanh({"alpha": 3.0}), w_init=begun, **options)
    assert torch.allclose(found.mixture, torch.from_numpy(theirs) @ whitening, rtol=1e-9, atol=1e-12)


def test_the_responses_of_one_place_stay_together_where_a_part_is_taken() -> None:
    numbers = torch.arange(CHANNELS * 40).reshape(1, -1)
    taken = thinned(numbers, 60, CHANNELS)
    assert taken.reshape(CHANNELS, -1).tolist() == [[40 * c + p for p in range(0, 40, 2)] for c in range(CHANNELS)]
    assert torch.equal(thinned(numbers, 60, 1), numbers[:, ::2])
    assert torch.equal(thinned(numbers, 1000, CHANNELS), numbers)


@pytest.mark.parametrize("rounds", [0, 1])
def test_photographs_come_back_nearer(rounds: int) -> None:
    victim = victim_of(PHOTOS)
    images = F.normalize(torch.from_numpy(victim.split.inputs).flatten(1))
    near = []
    for density in ("sparse", "scale_mixture"):
        params = CocktailPartyParams.model_validate({"density": density, "rounds": rounds, "round_steps": 40})
        found = attacked(CocktailParty(params), victim)
        near.append(float((images @ F.normalize(found.candidates.flatten(1)).T).amax(1).mean()))
    assert near[1] > near[0]


@pytest.mark.parametrize("steps", [1, 3, 6, 10, 2000])
def test_the_levels_share_all_iterations(steps: int) -> None:
    assert sum(most for _, most, _ in unmixing._descents(ScaleMixture(CHANNELS), steps)) == steps


def test_a_budget_is_kept_to_the_step() -> None:
    ctx = replace(context(), budget=Budget(steps=25))
    mixed = by_themselves(sources(), CHANNELS)
    assert unmix(mixed, (100, 100), Parts(ctx, 200), ScaleMixture(CHANNELS)).steps == 25
