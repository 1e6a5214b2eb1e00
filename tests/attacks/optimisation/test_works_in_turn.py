"""Works of several parts that share one budget."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from attacking import context
from torch import Tensor

from attacks.context import Budget
from attacks.optimisation.parts import CUT, Parts


@pytest.mark.parametrize("cut", [(True, False), (False, True), (False, False)])
def test_the_budget_is_spent_if_one_work_has_spent_its_share(cut: tuple[bool, bool]) -> None:
    parts = Parts(context(), 10)

    def work(index: int) -> dict[str, Tensor]:
        assert parts.window == (index / 2, (index + 1) / 2)
        assert not parts.stopped
        parts.stopped = cut[index]
        return {CUT: torch.tensor(cut[index]), "found": torch.tensor(index)}

    ended = parts.in_turn([partial(work, index) for index in (0, 1)])
    assert [int(one["found"]) for one in ended] == [0, 1]
    assert parts.stopped == parts.ctx.stopped == any(cut)


def test_a_part_may_spend_a_share_of_its_window_and_what_was_left_before() -> None:
    ctx = context()
    ctx.budget = Budget(steps=100)
    parts = Parts(ctx, 100)
    parts.window, parts.share = (0.5, 1.0), 0.5
    assert parts.left(0) == 75
    parts.end(60)
    assert parts.left(5) == 10
    assert not parts.expired(14)
    assert parts.expired(15)
    assert not ctx.stopped
