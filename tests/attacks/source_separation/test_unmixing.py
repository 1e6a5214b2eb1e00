"""Separation: sources are separated, a rotation is the nearest one, and what is interrupted goes on the same."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import Interrupted, Memory, context
from torch import Tensor

from attacks import context as contexts
from attacks.optimisation.parts import Parts
from attacks.source_separation import unmixing
from attacks.source_separation.density import ALPHA
from attacks.source_separation.mixed import by_themselves
from attacks.source_separation.unmixing import nearest_rotation, unmix

SOURCES, SAMPLES = 20, 1000


def mixtures(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return Laplace sources (r, T), and as many mixtures of them."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(SOURCES, SAMPLES, generator=generator) - 0.5
    sources = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    return sources, torch.randn(SOURCES, SOURCES, generator=generator) @ sources


def cosines(found: Tensor, truth: Tensor) -> Tensor:
    """Return the cosine (n,) of each true row with the found row that is nearest to it, whatever the sign."""
    return (F.normalize(truth.flatten(1)) @ F.normalize(found.flatten(1)).T).abs().amax(1)


def test_mixed_sources_are_separated_and_the_likelihood_separates_them_better() -> None:
    sources, mixed = mixtures()
    rotated = unmix(by_themselves(mixed), (200, 0), Parts(context(), 300))
    freed = unmix(by_themselves(mixed), (200, 100), Parts(context(), 300))

    errors = [float((1 - cosines(one.mixture @ mixed, sources)).mean()) for one in (rotated, freed)]
    assert errors[0] < 0.02
    assert errors[1] < 0.75 * errors[0]
    assert rotated.settled
    assert freed.settled
    assert rotated.steps < freed.steps < 300
    assert bool((freed.contrast > 0.72).all())  # .7071 of a normal component


def test_where_all_is_normal_there_is_a_rotation_all_the_same() -> None:
    """Of a normal component FastICA's step is 0 but for chance, and the nearest rotation is nearly undetermined."""
    normal = torch.randn(60, 500, generator=torch.Generator().manual_seed(0))
    found = unmix(by_themselves(normal), (60, 0), Parts(context(), 300))
    components = found.mixture @ normal
    assert torch.allclose(components @ components.T / 500, torch.eye(60), atol=1e-4)
    assert not found.settled


def test_a_rotation_that_goes_to_and_fro_has_settled() -> None:
    mixed = torch.randn(3, 60, generator=torch.Generator().manual_seed(30), dtype=torch.float64)
    found = unmix(by_themselves(mixed), (400, 0), Parts(context(), 300))
    earlier, before = (unmix(by_themselves(mixed), (found.steps - back, 0), Parts(context(), 300)) for back in (2, 1))
    turns = [F.cosine_similarity(one.mixture @ mixed, found.mixture @ mixed).abs().min() for one in (earlier, before)]
    assert (found.settled, earlier.settled, before.settled) == (True, False, False)
    assert turns[0] > 1 - 1e-4
    assert turns[1] < 0.95


def test_the_likelihood_has_settled_only_at_its_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the relative gradient E tanh(alpha s_i) s_j - 1 is small; reports do not end the descent."""
    monkeypatch.setattr(unmixing, "CHUNK", 3)
    _, mixed = mixtures()
    for most in (4, 100):
        found = unmix(by_themselves(mixed), (1, most), Parts(context(), 300))
        components = found.mixture @ mixed
        gradient = torch.tanh(ALPHA * components) @ components.T / SAMPLES - torch.eye(SOURCES)
        assert found.settled == (most == 100)
        assert found.settled == (float(gradient.abs().max()) < 2 * unmixing.FLAT)
        assert found.steps <= 1 + most
        assert found.settled or found.steps == 1 + most


@pytest.mark.parametrize("smallest", [1.0, 1e-4])
def test_the_nearest_rotation_is_that_of_the_singular_vectors(smallest: float) -> None:
    drawn = torch.randn(2, 30, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, right = torch.linalg.qr(drawn).Q
    values = torch.logspace(0, math.log10(smallest), 30, dtype=torch.float64) if smallest < 1 else torch.ones(30)
    found = nearest_rotation(left * values.to(left) @ right)
    assert torch.allclose(found, left @ right, atol=1e-7)


def test_a_rotation_leaves_no_correlation_and_the_likelihood_does() -> None:
    """What chance correlates is not told apart by a rotation, which is why the likelihood follows."""
    _, mixed = mixtures()
    for steps, none in (((200, 0), True), ((200, 100), False)):
        components = unmix(by_themselves(mixed), steps, Parts(context(), 300)).mixture @ mixed
        scaled = components / components.square().mean(1, keepdim=True).sqrt()
        correlation = (scaled @ scaled.T / SAMPLES - torch.eye(SOURCES)).abs().max()
        assert (float(correlation) < 1e-4) == none


def test_a_separation_that_is_interrupted_goes_on_as_if_it_had_not_been(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    _, mixed = mixtures()
    steps = 200, 100
    whole = unmix(by_themselves(mixed), steps, Parts(context(), 300))
    for saves in (1, 2):
        memory = Memory(saves)
        with pytest.raises(Interrupted):
            unmix(by_themselves(mixed), steps, Parts(replace(context(), checkpoints=memory), 300))
        memory.most = 10**9
        again = unmix(by_themselves(mixed), steps, Parts(replace(context(seed=5), checkpoints=memory), 300))
        assert torch.equal(again.mixture, whole.mixture)
        assert again.steps == whole.steps
