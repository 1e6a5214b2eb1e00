"""Filters answer to pictures as said, and the bank answers the same by products along each axis."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.source_separation import filter_bank, unmixing
from attacks.source_separation import mixed as mixed_rows
from attacks.source_separation.density import Bell, ScaleMixture
from attacks.source_separation.filter_bank import FilterBank, filtered, filtered_maps
from attacks.source_separation.mixed import ContrastFunction, Mixed, Workspace, by_themselves
from attacks.source_separation.relative import descended
from attacks.source_separation.responses import cosines, filters, responses
from attacks.source_separation.unmixing import whitening_of


def test_filters_are_orthonormal_and_see_neither_light_nor_colour_that_is_even() -> None:
    bank = filters(3, torch.zeros(1, dtype=torch.float64))
    assert bank.shape == (24, 3, 3, 3)
    assert torch.allclose(bank.flatten(1) @ bank.flatten(1).T, torch.eye(24, dtype=torch.float64))
    even = torch.tensor([0.2, -3.0, 1.0], dtype=torch.float64).reshape(1, 3, 1, 1).expand(1, 3, 5, 6)
    assert float(F.conv2d(even, bank).abs().max()) < 1e-12


def test_responses_are_of_equal_size_filter_by_filter_and_linear_in_the_picture() -> None:
    pictures = torch.randn(4, 3, 6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pictures *= torch.linspace(0.1, 3, 7, dtype=torch.float64)  # answers differ in size from filter to filter
    answered = responses(pictures)
    assert answered.shape == (4, 8 * 3 * 4 * 5)
    assert torch.allclose(answered.reshape(4, 24, -1).square().mean((0, 2)), torch.ones(24, dtype=torch.float64))
    mixture = torch.tensor([[1.0, 2, 0, -1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float64)
    mixed = responses(torch.einsum("ij,jchw->ichw", mixture, pictures)).reshape(4, 24, -1)
    ratio = mixed / (mixture @ answered).reshape(4, 24, -1)
    assert torch.allclose(ratio, ratio[:1, :, :1].expand_as(ratio))  # one factor a filter


def pictures(rows: int, channels: int = 3, height: int = 8, width: int = 6) -> Tensor:
    """Return pictures (r, C, H, W) whose filters answer with unequal sizes."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(rows, channels, height, width, generator=generator, dtype=torch.float64)
    return drawn.cumsum(2) * torch.linspace(0.1, 3, width, dtype=torch.float64)


def answers(planes: Tensor) -> Tensor:
    """Return by convolutions, (r, C P), what the filters answer to planes (r, C, H, W), each of mean square 1."""
    channels, answered = planes.shape[1], []
    for size, orders in ((2, ((0, 1), (1, 0), (1, 1))), (3, ((0, 2), (1, 2), (2, 0), (2, 1), (2, 2)))):
        waves = cosines(size, planes)
        for down, along in orders:
            kernel = torch.outer(waves[down], waves[along]).expand(channels, 1, -1, -1)
            answer = F.conv2d(planes, kernel, groups=channels)
            answered.append((answer / answer.square().mean((0, 2, 3), keepdim=True).sqrt().detach()).flatten(2))
    return torch.cat(answered, 2).flatten(1)


def planes_of(drawn: Tensor) -> Tensor:
    """Return what the cosines over channels make of pictures."""
    return torch.einsum("ac,rchw->rahw", cosines(drawn.shape[1], drawn), drawn)


def by_size(answered: Tensor, channels: int) -> Tensor:
    """Return answers (r, C P) in order of their sizes, channel by channel: layouts of the places differ."""
    return answered.unflatten(1, (channels, -1)).sort(2).values


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 8, 6), (1, 3, 5), (2, 7, 3)])
def test_a_bank_answers_as_the_filters_do(channels: int, height: int, width: int) -> None:
    drawn = pictures(5, channels, height, width)
    mixed = filtered(drawn)
    assert mixed.count == channels * (3 * (height - 1) * (width - 1) + 5 * (height - 2) * (width - 2))
    expected = answers(planes_of(drawn))
    assert torch.allclose(by_size(mixed.responses(), channels), by_size(expected, channels))
    products = [one @ one.T for one in (mixed.responses(), expected)]
    assert torch.allclose(*products)  # the answers to all pictures lie alike


def test_its_transpose_is_the_transpose() -> None:
    """<F x, s> = <x, F' s> for whatever pictures and responses."""
    mixed, work = filtered(pictures(4)), Workspace()
    generator = torch.Generator().manual_seed(2)
    blocks = tuple(
        torch.randn(one.shape, generator=generator, dtype=torch.float64)
        for one in mixed.linear.blocks(mixed.rows, Workspace())
    )
    back = mixed.linear.transposed(blocks, work)
    products = sum(
        (one * other).sum((0, 2)) for one, other in zip(mixed.linear.blocks(mixed.rows, work), blocks, strict=True)
    )
    assert torch.allclose((back * mixed.rows).sum(1), torch.as_tensor(products))


@pytest.mark.parametrize("cached", [1, 3 * 225 * 3 * 8, 1 << 30])
@pytest.mark.parametrize("function", [ScaleMixture(3, 0.05), Bell()])
def test_pictures_are_evaluated_as_their_responses_are(
    function: ContrastFunction, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a few at a time as by all, and twice as once: what is computed in is used again."""
    monkeypatch.setattr(mixed_rows, "CACHED", cached)
    drawn = pictures(7)
    mixed = filtered(drawn)
    planes = planes_of(drawn).requires_grad_()
    answered = answers(planes)
    plain = by_themselves(answered.detach(), 3)
    score, ours = torch.empty_like(plain.rows), torch.empty_like(mixed.rows)
    expected = plain.evaluate(function, plain.rows, score)
    (wanted,) = torch.autograd.grad((answered * score).sum(), planes)
    for _ in range(2):
        assert torch.allclose(mixed.evaluate(function, mixed.rows, ours), expected)
    assert torch.allclose(ours, wanted.flatten(1))
    assert torch.allclose(mixed.contrast(), plain.contrast())
    bent = [one.curvature(ScaleMixture(3, 0.05), one.rows) for one in (mixed, plain)]
    assert torch.allclose(*bent)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_go_where_their_responses_go(channels: int) -> None:
    """A descent and a rotation by the rows of pictures are those by the rows of what is answered to them."""
    drawn = pictures(6, channels)
    mixed, answered = filtered(drawn), by_themselves(answers(planes_of(drawn)), channels)
    whitening = whitening_of(answered.rows)
    begun = torch.linalg.qr(pictures(6, 1, 6, 6)[:, 0, 0]).Q
    ours, theirs = ((one.by(whitening), one.count) for one in (mixed, answered))
    assert ours[1] == theirs[1]
    for move in (partial(descended, ScaleMixture(channels)), rotated):
        found, expected = (move(one, begun, 3)[0] for one, _ in (ours, theirs))
        assert torch.allclose(found, expected, atol=1e-9)
        assert not torch.allclose(found, begun, atol=1e-2)


def rotated(mixed: Mixed, begun: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    return unmixing._rotated(mixed, begun, steps)


def test_what_no_filter_sees_is_not_rounded_with_the_rest() -> None:
    """In float32 a tint is large beside the colours of a grey picture, of which filters see next to nothing."""
    generator = torch.Generator().manual_seed(0)
    tinted = torch.randn(20, 1, 16, 14, generator=generator) + 5 * torch.randn(20, 3, 1, 1, generator=generator)
    mixture = torch.linalg.qr(torch.randn(20, 20, generator=generator)).Q
    mixed = filtered(tinted)
    expected = mixture @ mixed.responses()
    assert float((mixed.by(mixture).responses() - expected).norm() / expected.norm()) < 1e-4


def test_the_channels_of_maps_have_no_order_and_no_axes() -> None:
    """Channels that a rotation has mixed answer the same: the density sums their squares at each place."""
    maps = pictures(6, channels=4)
    rotation = torch.linalg.qr(pictures(4, 1, 3, 4)[:, 0, 0]).Q
    score = torch.empty(6, 4 * 8 * 6, dtype=torch.float64)
    plain, turned = (
        one.evaluate(ScaleMixture(4), one.rows, score)
        for one in (filtered_maps(maps), filtered_maps(torch.einsum("ac,rchw->rahw", rotation, maps)))
    )
    assert torch.allclose(plain, turned)
    uneven = filtered_maps(maps * torch.tensor([1.0, 2, 3, 4])[:, None, None])
    assert not torch.allclose(uneven.evaluate(ScaleMixture(4), uneven.rows, score), plain, rtol=1e-3)


def test_differences_of_neighbours_have_no_correlation_from_one_channel_of_maps_to_another() -> None:
    maps = pictures(6, channels=3)
    maps[:, 1] += 2 * maps[:, 0]
    planes = filtered_maps(maps).rows.unflatten(1, maps.shape[1:])
    stepped = torch.cat([planes.diff(dim=axis).transpose(0, 1).flatten(1) for axis in (2, 3)], 1)
    shares = stepped @ stepped.T
    assert torch.allclose(shares, shares.diagonal().diag(), atol=1e-9 * float(shares.max()))


def test_of_large_maps_filters_answer_at_every_other_place(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = pictures(5, channels=2)
    plain = filtered_maps(maps)
    monkeypatch.setattr(filter_bank, "ENOUGH", 8 * 2 * 8 * 6 // 4)
    thin = filtered_maps(maps)
    assert thin.count == 2 * (3 * 4 * 3 + 5 * 3 * 2)
    first, some = (one.responses().unflatten(1, (2, -1))[:, :, 0] for one in (plain, thin))  # where no filter skips
    assert torch.allclose(first / first[0], some / some[0])
    monkeypatch.setattr(filter_bank, "ENOUGH", 8 * 2 * 8 * 6 // 3)
    assert filtered_maps(maps).count == plain.count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_left_of_a_channel_that_others_make_up_is_not_taken_for_answers(dtype: torch.dtype) -> None:
    maps = pictures(6, channels=3).to(dtype)
    maps[:, 2] = maps[:, 0] / 3 - 0.7 * maps[:, 1]
    mixed = filtered_maps(maps)
    answered = mixed.responses().unflatten(1, (3, -1)).square().sum((0, 2))
    assert (answered > 0).tolist() == [False, True, True]  # in the order of their squares


def test_filters_that_answer_nothing_do_no_harm() -> None:
    planes = pictures(5)
    planes[:, 1] = 0
    mixed = Mixed(planes.flatten(1), FilterBank.of(planes))
    score = torch.empty_like(mixed.rows)
    density = ScaleMixture(3)
    for one in (mixed.evaluate(density, mixed.rows, score), mixed.curvature(density, mixed.rows), score):
        assert bool(one.isfinite().all())


def test_memory_that_is_used_again_is_of_one_precision() -> None:
    work, single = Workspace(), torch.zeros(1)
    assert work.empty("one", (2,), single) is work.empty("one", (2,), single)
    assert work.empty("one", (2,), single.double()).dtype == torch.float64
    assert work.empty("one", (3,), single).shape == (3,)
    assert work.empty("other", (2,), single) is not work.empty("one", (2,), single)
