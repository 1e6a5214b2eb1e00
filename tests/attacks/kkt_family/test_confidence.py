"""The confidence of the KKT family on planted candidates."""

from __future__ import annotations

import pytest
import torch

from attacks.kkt_family.ranking.confidence import agreement, confidence
from victims.equations.row_space import RowSpace

SPACE = RowSpace(torch.eye(12), torch.ones(12), gap=True)


def draw(m: int, seed: int) -> torch.Tensor:
    return torch.randn(m, 12, generator=torch.Generator().manual_seed(seed))


def test_what_every_restart_finds_comes_first() -> None:
    image = draw(1, 0)
    candidates = torch.cat([torch.cat([draw(5, seed), image + 0.1 * draw(1, seed + 9)]) for seed in (1, 2, 3)])
    candidates = torch.nn.functional.normalize(candidates, dim=1)
    sure = confidence(candidates, torch.ones(18), torch.ones(18), [6, 6, 6], SPACE, 0.5)
    assert sorted(sure.topk(3).indices.tolist()) == [5, 11, 17]


def test_restarts_need_not_have_equally_many_candidates() -> None:
    image = draw(1, 0)
    parts = [
        torch.cat([draw(others, seed), image + 0.1 * draw(1, seed + 9)]) for seed, others in ((1, 2), (2, 6), (3, 4))
    ]
    found = agreement(torch.cat(parts), None, [3, 7, 5])
    directions = [torch.nn.functional.normalize(part, dim=1) for part in parts]
    for own, part in enumerate(directions):
        others = [(part @ other.T).amax(1).clamp(min=0) for index, other in enumerate(directions) if index != own]
        torch.testing.assert_close(found.split([3, 7, 5])[own], others[0] + others[1])
    assert sorted(found.topk(3).indices.tolist()) == [2, 9, 14]


def test_agreement_counts_within_a_label_only() -> None:
    image = torch.nn.functional.normalize(draw(1, 0), dim=1)
    signs = torch.tensor([1.0, -1.0])
    assert confidence(image.repeat(2, 1), torch.ones(2), signs, [1, 1], SPACE, 0.5).tolist() == [0, 0]
    alike = confidence(image.repeat(2, 1), torch.ones(2), torch.ones(2), [1, 1], SPACE, 0.5)
    torch.testing.assert_close(alike, torch.ones(2))


def test_one_restart_is_ranked_by_its_terms_in_the_sum() -> None:
    candidates, multipliers = draw(4, 0), torch.tensor([0.1, 2.0, 0.0, 1.0])
    sure = confidence(candidates, multipliers, torch.ones(4), [4], SPACE, 0.5)
    torch.testing.assert_close(sure, multipliers * candidates.norm(dim=1))


def test_fine_directions_weigh_as_much_as_coarse_ones() -> None:
    """Coordinates are divided by their singular values to the power, in the length and in the cosines."""
    space = RowSpace(torch.eye(2), torch.tensor([4.0, 1.0]), gap=True)
    candidates, sizes = torch.tensor([[4.0, 0.0], [0.0, 3.0]]), torch.tensor([1.0, 2.0])
    alone = confidence(candidates, sizes, None, [2], space, 0.5)
    assert alone.tolist() == pytest.approx([2.0, 6.0])
    mixed = torch.cat([candidates, torch.tensor([[2.0, 1.0]])])  # (1, 1) on the coordinates of the search
    agreed = confidence(mixed, torch.ones(3), None, [2, 1], space, 0.5)
    assert agreed.tolist() == pytest.approx([2 * 0.5**0.5, 3 * 0.5**0.5, 1])
