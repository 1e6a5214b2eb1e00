"""What two searches agree on, and where a search begins that is given candidates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import attacked, sgd_network, victim_of
from torch import Tensor

from attacks.kkt_delta import KKTDelta
from attacks.known_start import search
from attacks.known_start.ranking import agreed
from attacks.optimisation.restarts import Restart


def restart(*candidates: tuple[float, ...]) -> Restart:
    return Restart(torch.tensor(candidates), torch.ones(len(candidates)), 0.1)


FIRST = restart((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.6, 0.0, 0.8))
SECOND = restart((0.0, 0.0, -1.0), (0.0, 4.0, 0.4), (1.0, 0.0, 0.1))


def test_each_two_that_are_each_others_most_similar_agree() -> None:
    found = agreed([FIRST, SECOND], 0.6)
    assert found is not None
    # the third of the first resembles (1, 0, .1), which resembles the first one more
    torch.testing.assert_close(found, torch.tensor([(1.0, 0.0, 0.05), (0.0, 3.0, 0.2)]))


def test_the_last_two_count() -> None:
    other = restart((0.0, 0.0, 1.0))
    assert torch.equal(agreed([other, FIRST, SECOND], 0.6), agreed([FIRST, SECOND], 0.6))  # type: ignore[arg-type]
    assert agreed([FIRST, other, SECOND], 0.6) is None


@pytest.mark.parametrize(
    ("ended", "cosine"), [([FIRST, SECOND], None), ([FIRST], 0.6), ([], 0.6), ([FIRST, SECOND], 1.0)]
)
def test_without_two_that_agree_nothing_is_given(ended: list[Restart], cosine: float | None) -> None:
    assert agreed(ended, cosine) is None


def test_a_search_begins_at_what_the_two_before_it_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[tuple[Tensor | None, Tensor]]()

    class Watched(search.Search):
        def __init__(self, equation: Any, params: Any, generator: Any, given: Tensor | None = None) -> None:
            super().__init__(equation, params, generator, given)
            begun.append((given, (self.coordinates * self.scaling @ equation.basis.T).detach()))

    monkeypatch.setattr(search, "Search", Watched)
    victim = victim_of(sgd_network("photos", 10, (70, 40), lr=0.02, batch_size=3, epochs=10))
    found = attacked(KKTDelta(KKTDelta.Params(restarts=3, steps=40, agreement=0.2)), victim)
    one, two, three = found.candidates.flatten(1).chunk(3)
    assert begun[0][0] is begun[1][0] is None
    expected = agreed([Restart(each, each[:, 0], 0.1) for each in (one, two)], 0.2)
    given, start = begun[2]
    assert expected is not None
    assert given is not None
    torch.testing.assert_close(given, expected)
    torch.testing.assert_close(start[: len(given)], given, rtol=1e-3, atol=1e-3)
    assert len(start) == len(three) > len(given)
