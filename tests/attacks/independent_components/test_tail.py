"""Behind a first layer anything may follow: its errors are the gradient's, and images and signs come out as usual."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import attacked, context, drawn_network, sgd_network, victim_of
from torch import Tensor, nn

from attacks.cocktail_party import CocktailParty
from attacks.independent_components.errors import explained
from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.orientation import oriented
from attacks.independent_components.params import CocktailPartyParams
from attacks.independent_components.pictures import Images
from attacks.independent_components.span import UpdateSpan
from attacks.independent_components.tail import Tailed, layers, tails_between
from attacks.knowledge import Architecture
from attacks.known_start.equation import back_propagated
from attacks.optimisation.parts import Parts
from victims.networks import SmoothMLPSpec, TailSpec
from victims.spec import VictimSpec

N, WIDTH, CLASSES, SHAPE = 5, 60, 3, (1, 6, 6)
TAILS: dict[str, nn.Module] = {
    "gelu": nn.GELU(),
    "tanh": nn.Tanh(),
    "norm": nn.Sequential(nn.LayerNorm(WIDTH), nn.SiLU()),
}


def drawn(activation: str) -> Tailed:
    """Return a network in float64, with biases that are not small."""
    torch.manual_seed(0)
    first = nn.Linear(36, WIDTH).double()
    tail = nn.Sequential(TAILS[activation], nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, CLASSES)).double()
    for parameter in (*first.parameters(), *tail.parameters()):
        parameter.requires_grad_(False)
    return Tailed(3 * first.weight, first.bias, tail, CLASSES)


def one_step(network: Tailed) -> tuple[Tensor, Tensor]:
    """Return images (n, d) and the errors (n, h) in layer 1 of a cross-entropy of them."""
    generator = torch.Generator().manual_seed(2)
    images = F.normalize(torch.randn(N, 36, generator=generator, dtype=torch.float64)) * 6
    before = F.linear(images, network.weight, network.bias).requires_grad_()
    loss = F.cross_entropy(network.tail(before), torch.arange(N) % CLASSES, reduction="sum")
    return images, torch.autograd.grad(loss, before)[0]


def test_of_a_relu_network_the_errors_are_those_of_the_recursion_through_gates() -> None:
    network = drawn_network(torch.Generator().manual_seed(1), 9, 20, 15, 4)
    second, last = nn.Linear(20, 15).double(), nn.Linear(15, 4).double()
    for layer, weight, bias in zip((second, last), network.weights[1:], network.biases[1:], strict=True):
        layer.weight.data.copy_(weight)
        layer.bias.data.copy_(torch.zeros(len(weight)) if bias is None else bias)
    tailed = Tailed(network.weights[0], network.biases[0], nn.Sequential(nn.ReLU(), second, nn.ReLU(), last), 4)
    images = torch.randn(6, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    outputs = torch.eye(4, dtype=torch.float64)[:, None].expand(-1, 6, -1)
    expected, _ = back_propagated(network, images, outputs, 1e9)
    torch.testing.assert_close(tailed.errors(images), expected[0].movedim(0, 1))


def test_a_tail_may_write_over_what_it_is_given() -> None:
    images, _ = one_step(network := drawn("norm"))
    last = nn.Linear(WIDTH, CLASSES).double().requires_grad_(False)
    kept, over = (replace(network, tail=nn.Sequential(nn.SiLU(inplace), last)) for inplace in (False, True))
    assert torch.equal(over.errors(images), kept.errors(images))


@pytest.mark.parametrize("activation", TAILS)
def test_errors_have_the_gradient_by_the_candidates(activation: str) -> None:
    network, (images, _) = drawn(activation), one_step(drawn(activation))
    assert torch.autograd.gradcheck(network.errors, images[:2].requires_grad_())
    assert not network.errors(images.detach()).requires_grad


@pytest.mark.parametrize("activation", TAILS)
def test_true_images_explain_their_errors_and_a_descent_comes_back_to_them(activation: str) -> None:
    network = drawn(activation)
    images, errors = one_step(network)
    assert float(explained(images, errors, (network,)).min()) > 0.99
    basis = torch.linalg.qr(images.T).Q.T
    span = UpdateSpan(basis, errors.T @ images, errors.sum(0), network, (network,), "")
    joint = JointLikelihood(span, Images(SHAPE), 1.0)
    away = images + 0.25 * torch.randn(N, N, generator=torch.Generator().manual_seed(6)).double() @ images
    found = joint.descend(F.normalize(away) * 6, 300, 0.02, Parts(context(), 300))
    cosines = (F.normalize(found) * F.normalize(images)).sum(1)
    assert float(cosines.mean()) > float((F.normalize(away) * F.normalize(images)).sum(1).mean()) + 0.02
    assert float(joint.explained(found).min()) > 0.95


@pytest.mark.parametrize(("activation", "has_bias"), [("gelu", True), ("gelu", False), ("tanh", True), ("norm", True)])
def test_signs_are_told_by_the_tail_or_where_it_is_odd_by_the_biases_alone(activation: str, has_bias: bool) -> None:
    network = drawn(activation)
    if activation == "tanh":  # without biases x and -x pass the same gates
        network = Tailed(network.weight, None, nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, CLASSES).double()), CLASSES)
    images, errors = one_step(network)
    signs = torch.tensor([1.0, -1, 1, -1, -1], dtype=torch.float64)[:, None]
    bias = errors.sum(0) if has_bias else None
    assert torch.equal(oriented(signs * images, errors.T @ images, bias, network), images)


def smooth(activation: str = "gelu") -> VictimSpec:
    spec = sgd_network("photos", 10, (80,), lr=0.02, batch_size=5, epochs=8)
    architecture = SmoothMLPSpec.model_validate({"hidden": (80, 30), "activation": activation, "layer_norm": True})
    return spec.model_copy(
        update={"architecture": architecture.model_copy(update={"outputs": 10}), "name": f"photos-{activation}"}
    )


def test_the_way_between_start_and_end_is_straight_and_ends_at_what_is_released() -> None:
    victim = victim_of(smooth())
    assert victim.start is not None
    architecture = Architecture(victim.spec.architecture, victim.input_shape, lambda: deepcopy(victim.model))
    end = victim.model.state_dict()
    ends = tails_between(architecture, victim.start, end, 0.0, 0.25, 1.0)
    for name, value in ends[1].tail.state_dict().items():
        torch.testing.assert_close(value, 0.75 * victim.start[f"tail.{name}"] + 0.25 * end[f"tail.{name}"])
    inputs = torch.from_numpy(victim.split.inputs)
    before = F.linear(inputs.flatten(1), ends[2].weight, ends[2].bias)
    torch.testing.assert_close(ends[2].tail(before), victim.model(inputs))
    assert [one.outputs for one in ends] == [10] * 3
    read = layers(architecture, end)
    assert [tuple(weight.shape) for weight in read.weights] == [(80, 3 * 32 * 32), (30, 80), (10, 30)]
    assert read.biases[0] is not None and torch.equal(read.biases[0], end["layers.0.bias"])


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
@pytest.mark.parametrize("rounds", [0, 1])
def test_images_come_out_of_a_network_without_a_relu(activation: str, rounds: int) -> None:
    victim = victim_of(smooth(activation))
    params = CocktailPartyParams(rounds=rounds, round_steps=40)
    assert CocktailParty(params).supports(victim.spec) is None
    found = attacked(CocktailParty(params), victim).candidates.flatten(1)
    truth = torch.from_numpy(victim.split.inputs).flatten(1)
    cosines = F.normalize(truth) @ F.normalize(found).T
    assert int((cosines.amax(1) > 0.9).sum()) >= 8


def test_what_is_forgotten_is_read_off_such_a_network_too() -> None:
    victim = victim_of(smooth())
    assert victim.start is not None
    state = victim.model.state_dict()
    added = state["layers.0.weight"] - victim.card.start_decay * victim.start["layers.0.weight"]
    forgotten = deepcopy(victim.model)
    forgotten.load_state_dict(state | {"layers.0.weight": added})
    params = CocktailPartyParams(start="forgotten")
    found = attacked(CocktailParty(params), replace(victim, model=forgotten))
    assert found.flags[0] == "W1 taken for what was added, 10 directions"
    truth = torch.from_numpy(victim.split.inputs).flatten(1)
    assert int(((F.normalize(truth) @ F.normalize(found.candidates.flatten(1)).T).abs().amax(1) > 0.9).sum()) >= 8


def test_a_seed_is_sought_only_where_it_is_known_what_it_draws() -> None:
    victim = smooth()
    guess = CocktailParty(CocktailPartyParams(start="guess", seeds=50))
    assert guess.supports(victim) is None
    assert attacked(guess, victim_of(victim)).flags[0].startswith("seed 1 drew the start")
    tail = VictimSpec.model_construct(**dict(victim) | {"architecture": TailSpec(name="Net", hidden=(80,), outputs=10)})
    assert "no seed is found" in str(guess.supports(tail))
