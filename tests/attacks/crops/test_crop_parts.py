"""The parts that random crops cut out of candidates, and the search for candidates whose parts make up a difference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import attacked, sgd_network, victim_of
from torch import Tensor

from attacks.crops.parts import Parts
from attacks.kkt_delta import KKTDelta
from attacks.known_start.equation import Equation, interpolated
from attacks.known_start.params import KKTDeltaParams, ResolvedParams
from attacks.known_start.search import BLACK, Search
from attacks.optimisation.variation import relative_variation
from bench.plan import registry
from victims.equations.network import Network
from victims.ordinary.difference import difference
from victims.recipes import Augmentation
from victims.spec import VictimSpec

SHAPE, D, H, RANK, M = (2, 5, 6), 60, 70, 8, 3
LEVELS = torch.tensor([-2.0, -1.5], dtype=torch.float64)
STEPS = {0: [0], 1: [-1, 0, 1], 2: [-2, 0, 2], 3: [-2, 0, 2], 4: [-3, 0, 3]}
"""By how many pixels the parts are moved, down and to the right, of crops by at most so many."""


def padded(image: Tensor, down: int, right: int) -> Tensor:
    """An image (C, H, W) moved down and to the right, cut out of what black was added to, as a training does."""
    levels = LEVELS[:, None, None]
    around = F.pad(image - levels, (4, 4, 4, 4)) + levels
    return around[:, 4 - down : 4 - down + SHAPE[1], 4 - right : 4 - right + SHAPE[2]]


def cut(images: Tensor, crop: int, flip: bool) -> Tensor:
    """All parts (m s, d) of images (m, d)."""
    return torch.stack(
        [
            padded(one, down, right).flatten()
            for image in images.unflatten(1, SHAPE)
            for down in STEPS[crop]
            for right in STEPS[crop]
            for one in ((image, image.flip(2)) if flip else (image,))
        ]
    )


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("crop", "flip"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_parts_are_what_a_training_saw(crop: int, flip: bool) -> None:
    images, whole = drawn(M, D), torch.linalg.qr(drawn(D, D, seed=1)).Q
    parts = Parts.of(whole, SHAPE, crop, flip)
    assert (len(parts), parts.channels) == (len(STEPS[crop]) ** 2 * (2 if flip else 1), 2)
    torch.testing.assert_close(parts.cut(images @ whole, LEVELS) @ whole.T, cut(images, crop, flip))
    narrow = whole[:, :RANK]
    inside = images @ narrow @ narrow.T
    found = Parts.of(narrow, SHAPE, crop, flip).cut(images @ narrow, LEVELS)
    torch.testing.assert_close(found, cut(inside, crop, flip) @ narrow)


def network(seed: int) -> Network:
    shapes = [(H, D), (8, H), (3, 8), (H,), (8,), (3,)]
    weights = [drawn(*shape, seed=seed + at) / math.sqrt(shape[-1]) for at, shape in enumerate(shapes)]
    return Network(tuple(weights[:3]), tuple(weights[3:]), SHAPE)


def search_of(equation: Equation, **settings: float) -> Search:
    given = {"images": "told", "points": (0.5,), "candidates": M, "steps": 10, "total_variation": 0.2} | settings
    params: ResolvedParams = KKTDeltaParams(**given).resolved(images=M, moved=0.0)  # type: ignore[arg-type]
    return Search(equation, params, torch.Generator().manual_seed(0))


def equation() -> Equation:
    start = network(0)
    end = replace(interpolated(start, network(10), 0.3), input_shape=SHAPE)
    return Equation.of(start, end, difference(end.weights[0], start.weights[0]), RANK, (0.5,))


@pytest.mark.parametrize(("crop", "flip"), [(1, True), (2, False)])
def test_parts_that_make_up_the_difference_leave_nothing(crop: int, flip: bool) -> None:
    """Each part has the coefficients of its candidate, and the errors of a candidate are those of its parts."""
    found = equation()
    search = search_of(found, crops=crop, flips=flip, total_variation=0.2, signal_span=0.15)
    with torch.no_grad():
        search.black.copy_(LEVELS)
    images = search.coordinates * search.scaling @ found.basis.T
    parts = cut(images, crop, flip) @ found.basis
    each = len(parts) // M
    coefficients = (search.unit * search.coefficients).repeat_interleave(each, 1)
    errors, second = found.terms(parts, coefficients, 7.0)
    assert found.bias is not None
    made = replace(found, weight=(errors.T @ parts).detach(), bias=errors.sum(0).detach(), second=second)
    search.equation = made
    for name in ("weights", "whole"):
        search.__dict__.pop(name, None)
    summed = errors.view(M, each, H).sum(1)
    columns = torch.linalg.qr(made.weight).Q
    outside = 1 - (summed @ columns).square().sum(1) / summed.square().sum(1)
    cost = 0.15 / math.sqrt(RANK) * outside.sum() + 0.2 * relative_variation(images.unflatten(1, SHAPE)).mean()
    torch.testing.assert_close(search.objective(7.0), cost)
    assert search.found().candidates.shape == (M, D)
    assert search.found().weights.shape == (M,)


def test_the_level_of_black_is_searched_where_there_is_some() -> None:
    search = search_of(equation(), crops=1)
    assert search.black.tolist() == [BLACK, BLACK]
    search.objective(2.0).backward()
    assert search.black.grad is not None
    before = search.black.detach().clone()
    search.cycle.step()
    assert not torch.equal(search.black, before)
    assert not search_of(equation(), flips=True).black.requires_grad


PLAIN = sgd_network("photos", 10, (70, 40), lr=0.02, batch_size=3, epochs=10)
MOVED = PLAIN.training.model_copy(update={"augmentation": Augmentation(flip=True, crop=2)})
VICTIM = PLAIN.model_copy(update={"training": MOVED})


def test_mirror_images_follow_behind_all() -> None:
    settings = KKTDelta.variants["flips-crops"] | {"crops": 2, "steps": 3, "restarts": 2}
    found = attacked(KKTDelta(KKTDelta.Params(**settings)), victim_of(VICTIM))
    assert found.flags[0].endswith("30 directions searched")
    images, mirrored = found.candidates.chunk(2)
    assert len(images) == 2 * 15
    assert torch.equal(images.flip(3), mirrored)
    assert found.confidence is not None
    torch.testing.assert_close(found.confidence[30:], found.confidence[:30] - 1)


@pytest.mark.parametrize(("products", "precision"), [("float32", "highest"), ("bfloat16", "medium")])
def test_products_are_rounded_where_it_is_asked(products: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[str]()
    objective = Search.objective

    def watched(searched: Search, alpha: float) -> Tensor:
        seen.add(torch.get_float32_matmul_precision())
        return objective(searched, alpha)

    monkeypatch.setattr(Search, "objective", watched)
    attacked(KKTDelta(KKTDelta.Params(steps=2, products=products)), victim_of(VICTIM))  # type: ignore[arg-type]
    assert seen == {precision}
    assert torch.get_float32_matmul_precision() == "highest"


def test_parts_are_made_where_there_were_some() -> None:
    victims = registry.victims().items
    moved, stayed = (victims[f"cifar-mlp-100-c10-finetuned-{habit}"] for habit in ("crops", "flips"))
    assert isinstance(moved, VictimSpec)
    assert isinstance(stayed, VictimSpec)
    cutting = KKTDelta(KKTDelta.Params(**KKTDelta.variants["crops"]))
    assert cutting.supports(moved) is None
    assert "moved no image" in str(cutting.supports(stayed))


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"crops": 1}, "images=told"), ({"flips": True, "images": "told", "ranking": "evidence"}, "ranking=span")],
)
def test_what_parts_do_not_tell_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        KKTDeltaParams(**settings)  # type: ignore[arg-type]
