"""Sparse codes of neurons: planted images come back exactly, and each step does what its equation says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from attacking import BIASES, Memory, victim_of
from torch import Tensor

from attacks.base import AttackContext, Knowledge, VictimView
from attacks.neuron_differences import NeuronDifferences
from attacks.sparse_dictionary.neurons import Neurons
from attacks.sparse_dictionary.params import DifferencesParams
from attacks.sparse_dictionary.sparse import descend, distinct, independent, sparsity
from attacks.sparse_dictionary.stages import Stages
from bench.run.disclosure import view_of
from victims.equations.network import Network

CPU = torch.device("cpu")
IMAGES, PIXELS, NEURONS = 12, 40, 600


def planted(seed: int = 0) -> tuple[Network, Tensor]:
    """Return a network whose neurons are sums over images (n, d), two kinds of them, and the images.

    Neurons of a kind are on a walk from gates to gates, each step of which changes the gate of one image.
    """
    generator = torch.Generator().manual_seed(seed)
    images = 6 * torch.nn.functional.normalize(torch.randn(IMAGES, PIXELS, generator=generator, dtype=torch.float64))
    factors = 0.2 * torch.rand(IMAGES, generator=generator, dtype=torch.float64) + 0.9
    factors = factors * (2 * torch.randint(2, (IMAGES,), generator=generator) - 1)
    size = torch.rand(NEURONS, generator=generator, dtype=torch.float64) + 0.5
    gates = torch.zeros(NEURONS, IMAGES, dtype=torch.float64)
    walk = torch.randint(2, (IMAGES,), generator=generator).double()
    for neuron in range(NEURONS):
        flipped = torch.randint(IMAGES, (), generator=generator)
        walk[flipped] = 1 - walk[flipped]
        gates[neuron] = walk
    first = (gates * factors) @ torch.cat([images, torch.ones(IMAGES, 1, dtype=torch.float64)], dim=1) * size[:, None]
    kinds = torch.zeros(2, NEURONS, dtype=torch.float64)
    kinds[0, : NEURONS // 2], kinds[1, NEURONS // 2 :] = size[: NEURONS // 2], size[NEURONS // 2 :]
    second = torch.linalg.qr(torch.randn(20, 2, generator=generator, dtype=torch.float64))[0] @ kinds
    last = torch.randn(1, 20, generator=generator, dtype=torch.float64)
    return Network((first[:, :-1], second, last), (first[:, -1], None, None)), images


def context(seed: int = 0) -> AttackContext:
    return AttackContext(CPU, torch.Generator().manual_seed(seed), lambda step, steps, **figures: None)


def cosines(atoms: Tensor, images: Tensor) -> Tensor:
    """Return the cosine of each image with the nearest atom that has its sign."""
    signed = torch.nn.functional.normalize(atoms[:, :-1] * atoms[:, -1:].sign())
    return (torch.nn.functional.normalize(images).float() @ signed.T).amax(1)


@pytest.mark.parametrize("seed", range(3))
def test_planted_images_come_back(seed: int) -> None:
    network, images = planted(seed)
    neurons = Neurons.of(network)
    assert neurons.rank == IMAGES
    stages = Stages(neurons, DifferencesParams(shares=(1.0,), neighbours=2, ridge=1e-6), context())
    stages.run()

    assert cosines(stages.atoms, images).min() > 0.9999
    assert len(stages.atoms) == IMAGES  # a basis of the data subspace, and nothing else


def test_what_a_stage_has_found_starts_the_next() -> None:
    network, _ = planted()
    stages = Stages(Neurons.of(network), DifferencesParams(shares=(0.9, 1.0), starts=1), context())
    stages.run()

    assert stages.stage.tolist() == [0, 1, 1]  # the second has a start of its own besides
    assert stages.agreement()[0] > 0.9
    assert stages.spent == 3 * DifferencesParams().steps


def test_a_row_is_divided_by_what_its_neuron_gives_to_layer_2() -> None:
    network, _ = planted()
    first, second, last = network.weights
    bias = network.biases[0]
    assert bias is not None
    scale = torch.linspace(0.2, 3.0, NEURONS // 2, dtype=torch.float64).repeat(2)  # alike for both kinds
    stretched = Network((first * scale[:, None], second * scale, last), (bias * scale, None, None))
    ratio = (Neurons.of(stretched).rows / Neurons.of(network).rows).reshape(2, -1)

    for kind in ratio:
        torch.testing.assert_close(kind, kind[:1].expand_as(kind), rtol=1e-4, atol=0)


def test_near_neurons_are_compared_and_weak_ones_are_not() -> None:
    network, _ = planted()
    noise = 1e-3 * torch.randn(network.weights[0].shape, generator=torch.Generator().manual_seed(1)).double()
    neurons = Neurons.of(Network((network.weights[0] + noise, *network.weights[1:]), network.biases))
    basis, differences = neurons.differences(IMAGES, 2)
    everything = neurons.rows[neurons.strong] @ basis
    apart = (everything[:, None] - everything).norm(dim=2).fill_diagonal_(torch.inf)
    steps = torch.stack([everything[second] - everything[first] for first, second in nearest(apart, 2)])

    assert len(neurons.strong) == round(0.9 * NEURONS)
    assert len(differences) == len(steps)
    torch.testing.assert_close(differences.norm(dim=1), torch.ones(len(differences)))
    alike = (torch.nn.functional.normalize(steps) @ differences.T).abs().amax(1)
    assert alike.min() > 1 - 1e-5


def test_neurons_that_are_equal_but_for_rounding_have_no_difference() -> None:
    """Each neuron has a copy, its row and what it gives to layer 2 a little longer; weights are released in float32."""
    network, _ = planted()
    first, second, last = network.weights
    bias, longer = network.biases[0], 1 + 1e-3
    assert bias is not None
    rows, joined = torch.cat([first, longer * first]).float(), torch.cat([bias, longer * bias]).float()
    neurons = Neurons.of(
        Network((rows, torch.cat([second, longer * second], dim=1).float(), last), (joined, None, None))
    )
    rounding = neurons.rows[:NEURONS] - neurons.rows[NEURONS:]

    assert rounding.any()
    assert len(neurons.differences(IMAGES, 1)[1]) <= 1  # of the neuron whose copy is too weak


def nearest(apart: Tensor, count: int) -> list[tuple[int, int]]:
    """Return all pairs, once, of which one is among the nearest `count` of the other."""
    near = {(one, other) for one, row in enumerate(apart.tolist()) for other in ranked(row)[:count]}
    return sorted({(min(pair), max(pair)) for pair in near})


def ranked(row: list[float]) -> list[int]:
    return sorted(range(len(row)), key=row.__getitem__)


def test_a_descent_ends_at_a_planted_sparse_vector() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(400, 20, generator=generator)
    vectors[:, 0] *= torch.rand(400, generator=generator) < 0.1
    basis, _ = torch.linalg.qr(vectors)
    truth = basis.T @ vectors[:, 0]
    truth /= truth.norm()
    start = truth + 0.8 * torch.nn.functional.normalize(torch.randn(20, generator=generator), dim=0)
    (found,) = descend(basis, start[:, None], 300, 0.1, lambda _: False).T

    assert start @ truth / start.norm() < 0.9
    assert found @ truth > 0.999
    assert sparsity(basis, found[:, None]) < sparsity(basis, start[:, None] / start.norm()) - 0.1


def test_a_descent_stops_when_it_is_told_to() -> None:
    basis, _ = torch.linalg.qr(torch.randn(30, 5, generator=torch.Generator().manual_seed(0)))
    seen: list[Tensor] = []

    def stepped(found: Tensor) -> bool:
        seen.append(found)
        return len(seen) == 3

    assert descend(basis, basis[:4].T, 10, 0.1, stepped) is seen[-1]
    assert len(seen) == 3


def test_the_steps_lie_along_the_sphere_and_fall_by_one_factor_to_the_last() -> None:
    """A step s at right angles to a unit vector turns it by the angle whose tangent is s."""
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(60, 6, generator=generator, dtype=torch.float64))
    seen = [torch.nn.functional.normalize(basis[:1].T, dim=0)]

    def stepped(found: Tensor) -> bool:
        seen.append(found)
        return False

    descend(basis, 3 * seen[0], 8, 0.1, stepped)
    turned = [torch.acos((one * other).sum()) for one, other in pairwise(seen)]
    assert torch.tan(torch.stack(turned)).tolist() == pytest.approx([0.1 * 1e-3 ** (step / 8) for step in range(8)])


def test_what_was_found_before_moves_less_than_what_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[float]()

    def watched(basis: Tensor, start: Tensor, count: int, lr: float, stepped: Callable[[Tensor], bool]) -> Tensor:
        steps.append(lr)
        return descend(basis, start, count, lr, stepped)

    monkeypatch.setattr("attacks.sparse_dictionary.stages.descend", watched)
    Stages(Neurons.of(planted()[0]), DifferencesParams(shares=(0.5, 1.0), steps=2), context()).run()
    assert steps == pytest.approx([0.1, 0.1, 0.02])


def test_of_vectors_that_are_alike_the_sparser_stays() -> None:
    one, other = torch.eye(3)[:, 0], torch.eye(3)[:, 1]
    near = torch.nn.functional.normalize(one + 0.1 * other, dim=0)
    vectors = torch.stack([one, -near, other], dim=1)

    kept = distinct(vectors, torch.tensor([0.5, 0.2, 0.3]))
    torch.testing.assert_close(kept, torch.stack([-near, other], dim=1))


def test_what_others_span_is_not_independent() -> None:
    axes = torch.eye(3)
    both = torch.nn.functional.normalize(axes[:, 0] + axes[:, 1], dim=0)
    vectors = torch.stack([axes[:, 0], axes[:, 1], both, axes[:, 2], both], dim=1)

    assert independent(vectors).tolist() == [0, 1, 3]


def test_agreement_is_the_mean_cosine_with_the_nearest_of_other_stages() -> None:
    network, _ = planted()
    stages = Stages(Neurons.of(network), DifferencesParams(shares=(0.3, 0.6, 1.0)), context())
    stages.run()
    axes = torch.eye(PIXELS + 1)[:4]
    axes[:, -1] = 1.0
    mixed = (axes[0] + axes[1])[None] / 2
    stages.atoms = torch.cat([axes[:2], -axes[:1], mixed])  # the sign of the last column is a candidate's
    stages.stage = torch.tensor([0, 0, 1, 2])
    half = 0.5**0.5

    torch.testing.assert_close(stages.agreement(), torch.tensor([(1 + half) / 2, half / 2, (1 + half) / 2, half]))


def test_a_layer_of_nothing_gives_no_atom() -> None:
    network, _ = planted()
    first, second, last = network.weights
    nothing = Network((0 * first, second, last), (torch.zeros(NEURONS), None, None))
    stages = Stages(Neurons.of(nothing), DifferencesParams(), context())
    stages.run()

    assert len(stages.atoms) == len(stages.agreement()) == 0


@pytest.mark.parametrize("outputs", [1, 2])
def test_it_is_for_one_output_or_two_classes(outputs: int) -> None:
    from victims.networks import MLPSpec
    from victims.spec import NormalizedDescent, VictimSpec

    spec = {"name": "digits-mlp-6", "dataset": "digits", "n": 6, "training": NormalizedDescent(steps=3)}
    attack = NeuronDifferences(DifferencesParams())

    assert attack.supports(VictimSpec.model_validate(spec | {"architecture": MLPSpec(outputs=outputs)})) is None
    assert "3 outputs" in str(attack.supports(VictimSpec.model_validate(spec | {"architecture": MLPSpec(outputs=3)})))
    affine = MLPSpec(hidden=(), outputs=outputs)
    assert "compares the neurons" in str(attack.supports(VictimSpec.model_validate(spec | {"architecture": affine})))


@pytest.mark.parametrize(
    ("change", "why"),
    [("no bias", "has no biases"), ("a bias of zeros", "has no biases"), ("alike", "lie on few points")],
)
def test_what_shows_no_atom_gives_one_candidate_of_zeros(change: str, why: str) -> None:
    victim = victim_of(BIASES)
    view = view_of(victim, NeuronDifferences.needs, torch.device("cpu"))
    weights = dict(view.weights)
    if change == "no bias":
        del weights["layers.0.bias"]
    elif change == "a bias of zeros":
        weights["layers.0.bias"] = 0 * weights["layers.0.bias"]
    else:
        given = torch.linalg.svd(weights["layers.1.weight"].double())[2][:2].norm(dim=0).float()
        alike = given[:, None].expand_as(weights["layers.0.weight"])
        weights |= {"layers.0.weight": alike, "layers.0.bias": given}
    disclosed = VictimView(
        {Knowledge.ARCHITECTURE: view.architecture, Knowledge.WEIGHTS: weights}, NeuronDifferences.needs
    )
    found = NeuronDifferences(DifferencesParams()).reconstruct(disclosed, context())
    assert found.candidates.shape == (1, *view.architecture.input_shape)
    assert not found.candidates.any()
    assert why in found.flags[-1]


def test_a_search_that_had_ended_goes_on_to_the_same_loss() -> None:
    network, _ = planted()
    kept, whole, again = Memory(), context(), context()
    whole.checkpoints = again.checkpoints = kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attacks.context.CHECKPOINT_SECONDS", -1.0)
        ended = Stages(Neurons.of(network), DifferencesParams(shares=(0.5,)), whole)
        ended.run()
    resumed = Stages(Neurons.of(network), DifferencesParams(shares=(0.5,)), again)
    resumed.run()
    assert resumed.sparsity == ended.sparsity
