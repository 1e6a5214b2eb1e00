"""What two searches agree on, and where a search begins that is given candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from attacking import CPU, Interrupted, Memory, attacked, context, sgd_network, victim_of

from attacks import context as contexts
from attacks.kkt_delta import KKTDelta
from attacks.known_start import search
from attacks.known_start.descent import Decomposition
from attacks.known_start.ranking import agreed
from attacks.optimisation.restarts import Restart
from bench.run.disclosure import view_of

VICTIM = sgd_network("photos", 10, (70, 40), lr=0.02, batch_size=3, epochs=10)


def restart(*candidates: tuple[float, ...]) -> Restart:
    found = torch.tensor(candidates)
    return Restart(found, torch.ones(len(found)), 0.1, None, 10 * found[:, None])


FIRST = restart((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.6, 0.0, 0.8))
SECOND = restart((0.0, 0.0, -1.0), (0.0, 4.0, 0.4), (1.0, 0.0, 0.1))


def test_each_two_that_are_each_others_most_similar_agree() -> None:
    found = agreed([FIRST, SECOND], 0.6)
    assert found is not None
    # the third of the first resembles (1, 0, .1), which resembles the first one more
    candidates, coefficients = found
    torch.testing.assert_close(candidates, torch.tensor([(1.0, 0.0, 0.05), (0.0, 3.0, 0.2)]))
    torch.testing.assert_close(coefficients, 10 * candidates[:, None])


def test_the_last_two_count() -> None:
    other = restart((0.0, 0.0, 1.0))
    three, two = agreed([other, FIRST, SECOND], 0.6), agreed([FIRST, SECOND], 0.6)
    assert three is not None
    assert two is not None
    assert torch.equal(three[0], two[0])
    assert agreed([FIRST, other, SECOND], 0.6) is None


@pytest.mark.parametrize(
    ("ended", "cosine"), [([FIRST, SECOND], None), ([FIRST], 0.6), ([], 0.6), ([FIRST, SECOND], 1.0)]
)
def test_without_two_that_agree_nothing_is_given(ended: list[Restart], cosine: float | None) -> None:
    assert agreed(ended, cosine) is None


def test_a_search_begins_at_what_the_two_before_it_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = list[Any](), list[Decomposition]()

    class Watched(search.Search):
        def __init__(self, equation: Any, params: Any, generator: Any, given: Any = None) -> None:
            super().__init__(equation, params, generator, given)
            begun.append((given, self.found()))

        def run(self, *args: Any) -> Decomposition:
            ends.append(super().run(*args))
            return ends[-1]

    monkeypatch.setattr(search, "Search", Watched)
    attacked(KKTDelta(KKTDelta.Params(restarts=3, steps=40, agreement=0.2)), victim_of(VICTIM))
    assert begun[0][0] is begun[1][0] is None
    expected = agreed([Restart(one.candidates, one.weights, 0.1, None, one.coefficients) for one in ends[:2]], 0.2)
    (candidates, coefficients), start = begun[2]
    assert expected is not None
    assert torch.equal(candidates, expected[0])
    assert torch.equal(coefficients, expected[1])
    assert len(start.candidates) > len(candidates)
    torch.testing.assert_close(start.candidates[: len(candidates)], candidates, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(start.coefficients[: len(candidates)], coefficients)


@pytest.mark.parametrize("most", [17, 40 + 17, 80 + 2 + 17])
def test_after_a_kill_it_goes_on_from_the_same_agreement(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    attack, victim = KKTDelta(KKTDelta.Params(restarts=3, steps=40, agreement=0.2)), victim_of(VICTIM)
    whole, view, memory = attacked(attack, victim), view_of(victim, attack.knowledge, CPU), Memory(most=most)
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=memory))
    memory.most = 10**9
    again = attack.reconstruct(view, replace(context(), checkpoints=memory))
    assert torch.equal(again.candidates, whole.candidates)
    assert again.loss == whole.loss
