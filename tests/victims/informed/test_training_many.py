"""Shadow training: exactly what a plain loop over torch modules with torch.optim does, whatever the chunk."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from victims.errors import UserError
from victims.informed.networks import CONVOLUTIONS, Parameters, initial, shapes
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec
from victims.informed.training import CHUNK_BYTES, finite, network_bytes, train_many

CPU = torch.device("cpu")
K = 5
SEEDS = range(10, 10 + K)
ACTIVATIONS = {
    "elu": nn.ELU,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softplus": nn.Softplus,
}
ARCHITECTURES = {
    **{name: DenseSpec(hidden=(4,), activation=name, outputs=3) for name in ("relu", "gelu", "tanh", "sigmoid")},
    "deep": DenseSpec(hidden=(5, 4), activation="softplus", outputs=3),
    "affine": DenseSpec(hidden=(), outputs=3),
}
ELU, CNN = DenseSpec(hidden=(4,), outputs=3), SmallCNNSpec(outputs=3)
GD = Descent(epochs=4)
KNOWN_ORDER = Descent(epochs=2, batch_size=7)
SECRET_ORDER = Descent(epochs=2, batch_size=7, order_seed=None)
TRAININGS = {
    "gd": GD,
    "no momentum": Descent(epochs=4, momentum=0),
    "known order": KNOWN_ORDER,
    "secret order": SECRET_ORDER,
    "adam": Descent(epochs=4, optimizer="adam", lr=0.002),
}
CASES = {
    **{name: (spec, GD, False) for name, spec in ARCHITECTURES.items()},
    **{name: (ELU, training, False) for name, training in TRAININGS.items()},
    **{f"{name}, random start": (ELU, training, True) for name, training in TRAININGS.items()},
    "cnn, known order": (CNN, KNOWN_ORDER, True),
    "cnn, secret order": (CNN, SECRET_ORDER, False),
}


def records(side: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(12 + K, 2, side, side, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (12 + K,), generator=generator)
    return (images[:12], labels[:12]), (images[12:], labels[12:])


def module(spec: DenseSpec | SmallCNNSpec, parameters: Parameters) -> nn.Module:
    """The network as torch's own modules."""
    layers: list[nn.Module] = []
    for index in range(len(parameters) // 2):
        weight = parameters[f"layers.{index}.weight"]
        if weight.ndim == 4:
            layers.append(nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], CONVOLUTIONS[index][2]))
        else:
            if not layers or weight.ndim != parameters[f"layers.{index - 1}.weight"].ndim:
                layers.append(nn.Flatten())
            layers.append(nn.Linear(weight.shape[1], weight.shape[0]))
        layers.append(ACTIVATIONS[spec.activation]())
    network = nn.Sequential(*layers[:-1]).double()
    with torch.no_grad():
        for own, given in zip(network.parameters(), parameters.values(), strict=True):
            own.copy_(given)
    return network


Pair = tuple[Tensor, Tensor]


def plain_loop(
    spec: DenseSpec | SmallCNNSpec, training: Descent, fixed: Pair, extra: Pair, start: Parameters | None
) -> Parameters:
    """What `train_many` is to equal: one network after the other."""
    trained = []
    for place, seed in enumerate(SEEDS):
        own = torch.Generator().manual_seed(seed)
        network = module(spec, initial(spec, fixed[0].shape[1:], own) if start is None else start)
        images = torch.cat([fixed[0], extra[0][place : place + 1]])
        labels = torch.cat([fixed[1], extra[1][place : place + 1]])
        if training.optimizer == "adam":
            optimizer = torch.optim.Adam(network.parameters(), training.lr)
        else:
            optimizer = torch.optim.SGD(network.parameters(), training.lr, training.momentum)
        order = own if training.order_seed is None else torch.Generator().manual_seed(training.order_seed)
        for _ in range(training.epochs):
            whole = torch.arange(len(labels))
            batches = [whole]
            if training.batch_size is not None:
                batches = torch.randperm(len(labels), generator=order).split(training.batch_size)
            for chosen in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
                optimizer.step()
        trained.append([value.detach() for value in network.parameters()])
    names = shapes(spec, fixed[0].shape[1:])
    return {name: torch.stack(values) for name, values in zip(names, zip(*trained, strict=True), strict=True)}


@pytest.mark.parametrize(("spec", "training", "random_start"), CASES.values(), ids=CASES)
def test_equals_a_plain_loop_over_torch_modules(
    spec: DenseSpec | SmallCNNSpec, training: Descent, random_start: bool
) -> None:
    fixed, extra = records(12 if spec.kind == "cnn" else 4)
    start = None if random_start else initial(spec, fixed[0].shape[1:], torch.Generator().manual_seed(1))
    expected = plain_loop(spec, training, fixed, extra, start)
    trained = train_many(spec, training, fixed, extra, start, SEEDS, CPU, dtype=torch.float64)
    assert {name: value.shape for name, value in trained.items()} == {n: v.shape for n, v in expected.items()}
    for name, value in trained.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-10, atol=1e-12)
    assert (trained["layers.0.weight"][0] - trained["layers.0.weight"][1]).abs().max() > 1e-5


def test_chunks_change_nothing_but_rounding_and_the_same_call_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed, extra = records(4)
    spec, training = DenseSpec(outputs=3), Descent(epochs=5, batch_size=4, order_seed=None)
    told, calls = [], []
    for size in (2**30, 1, 1):
        monkeypatch.setitem(CHUNK_BYTES, "cpu", size)
        calls.append(train_many(spec, training, fixed, extra, None, SEEDS, CPU, lambda *at: told.append(at)))
    for whole, single, again in zip(*(call.values() for call in calls), strict=True):
        torch.testing.assert_close(whole, single, rtol=1e-4, atol=1e-6)
        assert torch.equal(single, again)
    assert told == [(K, K)] + [(done, K) for done in range(1, K + 1)] * 2


def test_a_model_that_diverged_is_told_from_the_others() -> None:
    fixed, extra = records(4)
    extra[0][2] = torch.inf
    trained = train_many(DenseSpec(outputs=3), Descent(epochs=2), fixed, extra, None, SEEDS, CPU)
    assert finite(trained).tolist() == [True, True, False, True, True]


def test_what_does_not_fit_together_is_one_clear_line() -> None:
    fixed, extra = records(4)
    with pytest.raises(UserError, match="5 extra records, 5 classes and 4 seeds"):
        train_many(DenseSpec(outputs=3), Descent(), fixed, extra, None, range(4), CPU)
    with pytest.raises(UserError, match="of class 2, but the network has 2 outputs"):
        train_many(DenseSpec(outputs=2), Descent(), fixed, extra, None, SEEDS, CPU)


def test_the_papers_networks_have_the_papers_numbers_of_parameters() -> None:
    counts = {
        (DenseSpec(), (1, 28, 28)): 7960,  # Table IV
        (DenseSpec(hidden=(100,)), (1, 28, 28)): 79510,
        (SmallCNNSpec(), (3, 32, 32)): 55098,  # Table V, without padding
    }
    for (spec, shape), count in counts.items():
        assert sum(math.prod(size) for size in shapes(spec, shape).values()) == count


def test_a_network_takes_more_memory_where_its_batches_are_its_own() -> None:
    images = torch.zeros(1000, 1, 28, 28)
    spec, shared = DenseSpec(), Descent(batch_size=100)
    plain = network_bytes(spec, shared, images, torch.float32)
    assert plain == 5 * 4 * (7960 + 100 * 20)
    secret = shared.model_copy(update={"order_seed": None})
    assert network_bytes(spec, secret, images, torch.float32) == plain + 5 * 4 * 100 * 784
    colour = torch.zeros(1000, 3, 32, 32)
    features = 16 * 15 * 15 + 32 * 12 * 12 + 10
    assert network_bytes(SmallCNNSpec(), Descent(), colour, torch.float64) == 5 * 8 * (55098 + 1001 * features)
