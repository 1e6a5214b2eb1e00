"""What attacks on layers say of networks whose layers are not known: what these are, and nothing that is not so."""

from __future__ import annotations

import pytest

from attacks.base import declined_unless_layered
from bench.plan import registry
from victims.networks import CNNSpec, ConvSpec, FrontSpec, ModuleSpec, RandomFeaturesSpec, SmoothMLPSpec, TailSpec
from victims.recipes import Interpolation, Ordinary, Released
from victims.spec import VictimSpec

ON_LAYERS = ("conv-span", "kkt-conv", "kkt", "kkt-general", "kkt-multiclass", "neuron-differences", "deco", "bilevel")
OF_ONES_OWN = Released.model_construct(kind="released", initial=None, weight_decay=0.0)
NETWORKS = {
    "LeNet": (FrontSpec(name="LeNet", hidden=(120, 84), outputs=10), OF_ONES_OWN),
    "ResNet": (ModuleSpec(name="ResNet", outputs=10, uncovered="a sum of two branches"), OF_ONES_OWN),
    "tail": (TailSpec(name="Net", hidden=(50,), outputs=1), OF_ONES_OWN),
    "cnn": (CNNSpec(outputs=10), Ordinary()),
    "smooth": (SmoothMLPSpec(outputs=1), Ordinary()),
    "rf": (RandomFeaturesSpec(), Interpolation()),
}


def reason(attack: str, victim: VictimSpec) -> str | None:
    kind = registry.attacks().items[attack]
    said: str | None = kind(kind.Params()).supports(victim)
    return said


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("attack", ON_LAYERS)
def test_layers_are_asked_for_first(attack: str, network: str) -> None:
    architecture, training = NETWORKS[network]
    victim = VictimSpec.model_construct(
        name="own", architecture=architecture, training=training, loss="cross-entropy", n=4, dataset="digits"
    )
    said = reason(attack, victim)

    assert said == declined_unless_layered(victim)
    assert str(said).startswith(f"{architecture.label} is no plain sequence of linear layers and ReLUs")


@pytest.mark.parametrize("network", ["LeNet", "ResNet", "cnn"])
def test_first_layer_names_the_network(network: str) -> None:
    architecture, training = NETWORKS[network]
    victim = VictimSpec.model_construct(name="own", architecture=architecture, training=training)

    assert reason("first-layer", victim) == f"{architecture.label}: it learnt no first layer that sees the whole input"


def test_a_plain_convolution_is_called_by_its_name() -> None:
    victim = VictimSpec(name="own", dataset="digits", n=4, architecture=ConvSpec())

    assert reason("deco", victim) == "conv(3, 32)-1000-1 has convolutions: for fully connected networks"
    assert str(reason("neuron-differences", victim)).startswith("conv(3, 32)-1000-1: it compares the neurons of a")
