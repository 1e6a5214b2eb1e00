"""What was added to a start that was drawn uniformly: planted, and by a training whose images come back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Left, attacked, context, sgd_network, victim_of

from attacks.base import Knowledge
from attacks.context import Checkpoint
from attacks.kkt_delta import KKTDelta
from attacks.known_start.params import KKTDeltaParams
from attacks.unknown_start.start import estimated_start, initial_weights
from attacks.unknown_start.uniform import StartSeparation
from bench.run.disclosure import view_of
from victims.equations.row_space import CosineSpace

SHAPE = (3, 8, 8)
DECAY = 0.9


def planted(h: int = 300, n: int = 5, size: float = 0.02, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """c W(0) + L and L, for smooth images."""
    generator = torch.Generator().manual_seed(seed)
    d = math.prod(SHAPE)
    space = CosineSpace.of(SHAPE, torch.zeros(()))
    images = space.inputs(torch.randn(n, d, generator=generator) * space.amplitudes(1.0))
    added = size * torch.randn(h, n, generator=generator) @ images / math.sqrt(n)
    start = (2 * torch.rand(h, d, generator=generator) - 1) / math.sqrt(d)
    return DECAY * start + added, added


def by_squares(weight: torch.Tensor, rank: int) -> torch.Tensor:
    """The best approximation of a rank."""
    left, singular, right = torch.linalg.svd(weight, full_matrices=False)
    return (left[:, :rank] * singular[:rank]) @ right[:rank]


def missed(estimate: torch.Tensor, added: torch.Tensor) -> float:
    return float((estimate - added).norm() / added.norm())


def test_what_was_added_and_what_is_left_of_the_start_are_told_apart() -> None:
    weight, added = planted()
    found = StartSeparation(weight, CosineSpace.of(SHAPE, weight)).run(lambda: False, lambda step: None)
    assert found.decay == pytest.approx(DECAY, rel=0.02)
    assert found.uniform
    assert found.misfit < 0.02
    assert missed(found.added, added) < 0.75 * min(missed(by_squares(weight, rank), added) for rank in range(6))
    assert ((weight - found.added).abs() <= 1.02 * found.decay / math.sqrt(math.prod(SHAPE))).float().mean() > 0.999


@pytest.mark.parametrize("edge", [0.01, 0.3])
def test_the_gradients_are_difference_quotients(edge: float) -> None:
    weight, _ = planted(h=20)
    descent = StartSeparation(weight.double(), CosineSpace.of(SHAPE, weight.double()), DECAY)

    def objective() -> float:
        shares = (weight.double() - descent.added()).abs() / descent.half_width
        room = 1 - shares
        beyond = -math.log(edge) + (edge - room) / edge + ((edge - room) / edge) ** 2 / 2
        barrier = torch.where(room > edge, -room.clamp(min=edge).log(), beyond).mean()
        squares = sum(one.detach().square().sum() for one in (descent.left, descent.right))
        return float(barrier + descent.price * squares)

    for variable, gradient in zip((descent.left, descent.right), descent.gradients(edge), strict=True):
        for place in (0, variable.numel() // 2, variable.numel() - 1):
            entry = variable.detach().view(-1)[place : place + 1]
            entry += 1e-6
            above = objective()
            entry -= 2e-6
            below = objective()
            entry += 1e-6
            assert float(gradient.reshape(-1)[place]) == pytest.approx((above - below) / 2e-6, rel=1e-3, abs=1e-9)


def test_a_start_that_was_not_drawn_uniformly_is_told() -> None:
    weight, added = planted()
    normal = added + torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) / math.sqrt(3 * 192)
    start, flags = estimated_start({"layers.0.weight": normal, "layers.1.weight": normal[:, :10]}, SHAPE)
    assert start is None
    assert "does not look drawn uniformly" in flags[0]
    assert estimated_start({"layers.0.weight": 0 * weight}, SHAPE) == (None, ("the first layer is zero",))


def test_every_layer_but_the_last_is_estimated() -> None:
    weight, added = planted()
    generator, reported = torch.Generator().manual_seed(2), list[int]()
    drawn = (2 * torch.rand(60, 300, generator=generator) - 1) / math.sqrt(300)
    weights = {"layers.0.weight": weight, "layers.0.bias": weight[:, 0], "layers.1.weight": DECAY * drawn}
    weights |= {"layers.2.weight": drawn[:3, :60]}
    start, flags = estimated_start(weights, SHAPE, report=lambda step, steps: reported.append(step))
    assert start is not None
    assert missed(start["layers.0.weight"], (weight - added) / DECAY) < 0.2
    assert missed(start["layers.1.weight"], drawn) < 0.2
    assert all(torch.equal(start[name], weights[name]) for name in ("layers.0.bias", "layers.2.weight"))
    assert reported == sorted(set(reported))
    assert len(flags) == 1

    weights["layers.1.weight"] = torch.randn(60, 300, generator=generator) / 30
    start, flags = estimated_start(weights, SHAPE)
    assert start is not None
    assert flags[1:] == ("layer 2 does not look drawn uniformly: taken as released",)
    assert torch.equal(start["layers.1.weight"], weights["layers.1.weight"])


def test_a_budget_ends_it() -> None:
    steps, weights = iter(range(1000)), {"layers.0.weight": planted()[0], "layers.1.weight": torch.zeros(3, 300)}
    start, flags = estimated_start(weights, SHAPE, expired=lambda: next(steps) >= 3)
    assert next(steps) == 5, "asked before four steps, and whether that is why nothing was found"
    assert (start, flags) == (None, ("the budget was spent before the start was estimated",))


def test_the_time_before_an_interruption_counts_while_a_start_is_sought() -> None:
    victim = victim_of(sgd_network("photos", 10, (200, 100), lr=0.02, batch_size=5, epochs=30))
    ctx = replace(context(), checkpoints=Left(Checkpoint({}, [{"step": 1}], 55.0)))
    view = view_of(victim, frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}), CPU)
    initial_weights(view, ctx, "guess", 3)
    assert 55 <= ctx.seconds < 100
    ctx.resume()
    assert (ctx.seconds < 100, ctx.trace) == (True, [{"step": 1}]), "as once"


def test_images_come_back_without_the_start() -> None:
    spec = sgd_network("photos", 10, (200, 100), lr=0.02, batch_size=5, epochs=30)
    victim = victim_of(spec)
    found = attacked(KKTDelta(KKTDeltaParams(start="uniform", steps=300, coordinate_power=0.3)), victim)
    assert any("n is not shown" in flag for flag in found.flags)
    near = F.normalize(found.candidates.flatten(1), dim=1)
    members, others = (
        (F.normalize(torch.as_tensor(images).flatten(1), dim=1) @ near.T).amax(1)
        for images in (victim.split.inputs, victim.split.test_inputs)
    )
    assert members.median() > others.quantile(0.9) + 0.05
