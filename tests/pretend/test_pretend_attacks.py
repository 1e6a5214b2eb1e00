"""Every attack runs on the pretend device, finds there what it finds on the CPU, and waits for it where it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import attacking
import pytest
import torch
from accelerator import Split
from attacking import (
    BATCH_NORM,
    BIASES,
    CLASSES,
    CPU,
    DECAYED,
    KERNEL,
    ORDINARY,
    RANDOM_FEATURES,
    Interrupted,
    digits_network,
    victim_of,
)
from waits import Waits, growth

from attacks import context
from attacks.base import AttackContext, Reconstruction
from attacks.context import Checkpoint, Checkpoints
from attacks.implicit import lower
from attacks.independent_components import images, likelihood
from attacks.span_rounds import rounds
from attacks.unknown_start import uniform
from bench.plan import registry
from bench.run.disclosure import view_of
from bench.store.checkpoint import CheckpointFile
from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec
from victims.informed.spec import Descent, GLMSpec
from victims.recipes import Privacy
from victims.spec import ConvSpec, DecayedDescent, MLPSpec, NormalizedDescent, SmoothMLPSpec, VictimSpec

ATTACKS = registry.attacks().items


def spec_of(outputs: int = 1, **more: Any) -> VictimSpec:
    """A dataset victim that trains in a moment."""
    network = {"architecture": MLPSpec(hidden=(12, 10), outputs=outputs), "training": NormalizedDescent(steps=30)}
    return VictimSpec(**{"name": "digits-mlp-6-pretend", "dataset": "digits", "n": 6} | network | more)


CONVOLUTION = spec_of(architecture=ConvSpec(channels=4, hidden=(10,)), training=DecayedDescent(steps=10))
CONVOLUTIONS = spec_of(architecture=ConvSpec(channels=(4, 3), hidden=(10,)), training=DecayedDescent(steps=10))
GELU = ORDINARY.model_copy(
    update={"architecture": SmoothMLPSpec(hidden=(12,), layer_norm=True, outputs=10), "name": "digits-mlp-10-gelu"}
)
NETWORK = digits_network(n=30, targets=4, epochs=3)
BATCHED = NETWORK.model_copy(
    update={"name": "digits-elu4-30-batches", "training": Descent(epochs=2, batch_size=16, order_seed=0)}
)


def private(**more: Any) -> Callable[[int], Any]:
    """A private training of so many steps, whose trace is released."""

    def spec(epochs: int) -> Any:
        training = Descent(epochs=epochs, privacy=Privacy(**more), order_seed=0)
        return NETWORK.model_copy(update={"name": "digits-elu4-30-trace", "training": training, "prior": 2})

    return spec


def deletion(architecture: ShallowSpec, **training: Any) -> DeletionSpec:
    return DeletionSpec(
        name="digits-unlearn-tiny-120",
        dataset="digits",
        n=120,
        targets=6,
        architecture=architecture,
        training=Deletion(penalty=1.0, **training),
    )


SOFTMAX = ShallowSpec(loss="cross-entropy")
FOURIER = ShallowSpec(front="fourier", units=60, width=4.0)


@dataclass(frozen=True)
class Case:
    """One attack on its smallest victim.

    Attributes:
        attack: its name.
        victim: what is attacked; a function of its steps for an attack that takes as many as the training did.
        params: parameters that make it quick, or take another way through it.
        steps: the parameter that counts its steps, empty for an attack without.
        waits: the functions in which its steps wait for the device, and are meant to.
        slow: whether it runs with the slow tests alone.
    """

    attack: str
    victim: Any
    params: dict[str, Any] = field(default_factory=dict)
    steps: str = "steps"
    waits: frozenset[str] = frozenset()
    slow: bool = False


FEW, AGREEING = {"restarts": 2, "candidates": 6}, {"restarts": 3, "agreement": 0.1}
SCIPY = "victims/training/lbfgs.py:as_arrays"
IMPLICIT = {"hypergradient.py:hypergradient", "inverse.py:_curvature", "inverse.py:_relative", "lower.py:_relative"}
IMPLICIT |= {"lower.py:evaluate", "lower.py:minimise"}
KERNEL_QUERIES = {"descent.py:_conjugate_gradients", "descent.py:step", "equation.py:_factor", "equation.py:loss"}
EPOCHS = frozenset({"attacks/informed/reconstructor.py:fit"})  # a mean loss and a validation error for each epoch
NAMED = frozenset({"attacks/prior_aware.py:told"})  # the attack's progress, after each of the victim's steps
SEARCHED, UNROLLED = (frozenset({f"attacks/{one}.py:evaluate"}) for one in ("deletion/search", "informed/unrolling"))
PROJECTED, GUESSES = {"projection_loss.py:_fitted", "projection_loss.py:evaluate"}, {"guesses": 2, "evaluations": 20}
ROTATION, TWO_ROUNDS = {"free_steps": 0, "crops": 1, "flips": True}, {"free_steps": 0, "rounds": 2, "round_steps": 5}
ONCE = {"density": "sparse", "free_steps": 20}  # one report of picard: no count of steps says how many it needs
ROUNDS_OF_FEATURES = {"steps": 40, "free_steps": 20, "rounds": 2, "round_steps": 5}
JOINTLY = ROUNDS_OF_FEATURES | {"rounds": 0, "joint_rounds": 2, "images": "told"}
ROUNDED = {"candidates": 6, "rounds": 1, "round_steps": 4}
ROTATED = frozenset(f"attacks/source_separation/unmixing.py:{one}" for one in ("_rotated", "nearest_rotation"))
DESCENDED = frozenset(f"attacks/source_separation/relative.py:{one}" for one in ("descended", "_evaluated"))
REPORTED = frozenset({"attacks/source_separation/unmixing.py:unmix"})  # once a level of the likelihood


def of(folder: str, functions: set[str], *more: str) -> frozenset[str]:
    return frozenset({f"{folder}/{function}" for function in functions} | {*more})


CASES: dict[str, Case] = {
    "kkt": Case("kkt", BIASES, FEW),
    "kkt published": Case("kkt", BIASES, FEW | {"method": "published"}),
    "kkt in float64 from a mixture": Case("kkt", BIASES, FEW | {"dtype": "float64", "init": "mixture"}),
    "kkt-multiclass": Case("kkt-multiclass", spec_of(3), FEW),
    "kkt-multiclass runner-up": Case("kkt-multiclass", spec_of(3), FEW | {"rivals": "runner-up"}),
    "kkt-general": Case("kkt-general", spec_of(3), FEW),
    "kkt-general tied": Case("kkt-general", DECAYED, FEW | {"coefficients": "tied"}),
    "kkt-general on a convolution": Case("kkt-general", CONVOLUTION, FEW | {"sparsity": 0.0}),
    "kkt-span": Case("kkt-span", spec_of(3), {"candidates": 6}),
    "kkt-span rounds": Case("kkt-span", CLASSES, ROUNDED),
    "kkt-span kinks": Case("kkt-span", CLASSES, ROUNDED | {"round_offset_price": 1e-6}),
    "kkt-conv with offsets": Case("kkt-conv", CONVOLUTION, FEW | {"offset_price": 1e-6}),
    "kkt-conv": Case("kkt-conv", CONVOLUTION, FEW),
    "kkt-conv on two convolutions": Case("kkt-conv", CONVOLUTIONS, FEW),
    "conv-span": Case("conv-span", CONVOLUTION, {"candidates": 6, "rounds": 1}),
    "conv-span on two convolutions": Case("conv-span", CONVOLUTIONS, {"candidates": 6, "rounds": 1}),
    "kkt-delta": Case("kkt-delta", ORDINARY),
    "kkt-delta from a seed": Case("kkt-delta", ORDINARY, {"start": "guess", "seeds": 50}),
    "kkt-delta without a start": Case("kkt-delta", ORDINARY, {"start": "uniform", "total_variation": 0.5}),
    "kkt-delta of parts": Case("kkt-delta", ORDINARY, {"crops": 1, "flips": True, "images": "told"} | AGREEING),
    "kkt-delta-features": Case("kkt-delta-features", BATCH_NORM),
    "cocktail-party": Case("cocktail-party", ORDINARY, {"steps": 5}, "free_steps", waits=DESCENDED | REPORTED),
    "cocktail-party in rounds": Case("cocktail-party", ORDINARY, TWO_ROUNDS, waits=ROTATED),
    "cocktail-party with a tail": Case("cocktail-party", GELU, ONCE | {"rounds": 1, "round_steps": 5}, waits=ROTATED),
    "cocktail-party without a start": Case("cocktail-party", CLASSES, ROTATION | {"start": "forgotten"}, waits=ROTATED),
    **{by: Case("cocktail-party", *case, waits=ROTATED) for by, case in attacking.STANDING_IN.items()},
    "cocktail-party-features": Case("cocktail-party-features", BATCH_NORM, ROUNDS_OF_FEATURES, "image_steps"),
    "cocktail-party-features jointly": Case("cocktail-party-features", BATCH_NORM, JOINTLY, "image_steps"),
    "replay": Case("replay", ORDINARY, {"steps": 3, "most": 4}, "replay_steps"),
    "projection": Case("projection", RANDOM_FEATURES, {"rounds": 1}, waits=of("attacks/known_start", PROJECTED, SCIPY)),
    "bilevel": Case(
        "bilevel",
        DECAYED,
        {"lower_steps": 3, "inverse_steps": 2},
        waits=of("attacks/implicit", IMPLICIT, "attacks/bilevel.py:evaluate", SCIPY, "victims/training/lbfgs.py:lbfgs"),
    ),
    "deco": Case("deco", DECAYED, waits=frozenset({"attacks/deco.py:evaluate", SCIPY})),
    "neuron-differences": Case("neuron-differences", spec_of(), {"shares": (0.4, 0.7, 1.0)}),
    "inversion": Case("inversion", BIASES, {"candidates": 8, "total_variation": 1.0}),
    "inversion black-box": Case("inversion", BIASES, {"candidates": 8, "access": "logits", "directions": 2}),
    "kernel-query": Case(
        "kernel-query", KERNEL, {"rounds": 1, "iterations": 3}, waits=of("attacks/kernel_queries", KERNEL_QUERIES)
    ),
    "glm": Case("glm", GLMSpec(name="cancer-logistic-tiny", dataset="cancer", n=60, targets=4), steps=""),
    "reconn": Case("reconn", NETWORK, {"shadows": 20, "hidden": (8,), "batch_size": 6}, "epochs", EPOCHS),
    "reconn black-box": Case(
        "reconn", NETWORK, {"shadows": 20, "hidden": (8,), "released": "logits", "queries": 5}, "epochs", EPOCHS
    ),
    "reconn-linear": Case("reconn-linear", BATCHED, {"shadows": 20}, steps=""),
    "unroll": Case("unroll", BATCHED, {"labels": 1, "trial": 1, "hardest": 1, "retries": 0}, "evaluations", UNROLLED),
    "unroll with retries": Case(
        "unroll", NETWORK, {"labels": 2, "trial": 1, "hardest": 1, "retries": 1, "evaluations": 2}, steps="", slow=True
    ),
    "prior-aware": Case("prior-aware", private(), {}, "", NAMED),
    "prior-aware sampled": Case(
        "prior-aware", private(sampling_rate=0.5), {"evidence": "inner-product"}, "", NAMED, True
    ),
    "prior-aware model": Case("prior-aware", private(), {"evidence": "weights"}, ""),
    "unlearning": Case("unlearning", deletion(SOFTMAX), steps=""),
    "unlearning of three": Case("unlearning", deletion(SOFTMAX, records=3), GUESSES, steps=""),
    "unlearning with features": Case(
        "unlearning", deletion(FOURIER), {"curvature": "midpoint"}, "evaluations", SEARCHED
    ),
    "unlearning by the oracle": Case("unlearning", deletion(SOFTMAX), {"records": "retained"}, steps=""),
    "class-mean": Case("class-mean", BIASES, steps=""),
    "first-layer": Case("first-layer", BIASES, steps=""),
    "random": Case("random", BIASES, steps=""),
}
STEPS = 3
every_case = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=[pytest.mark.slow] * case.slow) for name, case in CASES.items()]
)


@pytest.fixture(autouse=True)
def ending_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no parameter shortens takes few steps too.

    Chance explains no errors here: images are found although steps are so few, and the rest are separated anew.
    """
    monkeypatch.setattr(rounds, "SETTLE_STEPS", STEPS)
    monkeypatch.setattr(lower, "NEWTON_PRODUCTS", STEPS)
    monkeypatch.setattr(uniform, "STEPS", 30)
    monkeypatch.setattr(images, "NEAREST_STEPS", STEPS)
    monkeypatch.setattr(images, "JOINT_STEPS", STEPS)
    monkeypatch.setattr(likelihood, "chance", lambda *sizes: 0.0)


def run(case: Case, device: torch.device, checkpoints: Checkpoints | None = None) -> Callable[[int], Reconstruction]:
    """Return the attack as a function of its steps."""
    kind = ATTACKS[case.attack]

    def attacked(steps: int) -> Reconstruction:
        victim = victim_of(case.victim(steps) if callable(case.victim) else case.victim)
        attack = kind(kind.Params(**case.params | ({case.steps: steps} if case.steps else {})))
        generator = torch.Generator().manual_seed(0)
        ctx = AttackContext(device, generator, lambda step, steps, **figures: None, checkpoints=checkpoints)
        return attack.reconstruct(view_of(victim, attack.knowledge, device), ctx)

    return attacked


def test_every_attack_has_a_case() -> None:
    assert {case.attack for case in CASES.values()} == set(ATTACKS)


@every_case
def test_an_attack_finds_on_the_device_what_it_finds_on_the_cpu(case: Case, pretend: torch.device) -> None:
    """And its steps wait for the device only where they are meant to."""
    with Split():
        here = run(case, CPU)(STEPS)
    if case.steps or callable(case.victim):
        there, waiting = growth(run(case, pretend), STEPS)
        assert waiting == case.waits
    else:
        there = run(case, pretend)(STEPS)
    for name in ("candidates", "labels", "coefficients", "confidence"):
        wanted, found = getattr(here, name), getattr(there, name)
        assert (wanted is None) == (found is None)
        assert wanted is None or (wanted.dtype == found.dtype and torch.equal(wanted, found.cpu())), name
    assert (here.loss, here.grad_evals, here.flags) == (there.loss, there.grad_evals, there.flags)


def test_a_batch_of_a_reconstructor_waits_for_nothing(pretend: torch.device) -> None:
    case, counts = CASES["reconn"], []
    run(case, pretend)(STEPS)  # its shadow models are kept
    for size in (18, 2):
        with Waits() as waits:
            run(replace(case, params=case.params | {"batch_size": size}), pretend)(STEPS)
        counts.append(waits.count)
    assert counts[0] == counts[1]


class Killing(CheckpointFile):
    """Kills the attack once it has kept its last checkpoint."""

    kept, last = 0, 2

    def save(self, checkpoint: Checkpoint) -> None:
        super().save(checkpoint)
        self.kept += 1
        if self.kept == self.last:
            raise Interrupted


TWICE = (
    *("kkt", "kkt published", "kkt-conv", "conv-span", "kkt-delta", "kkt-delta-features", "projection", "kernel-query"),
    *("neuron-differences", "cocktail-party", "cocktail-party-features"),
)
KEEPING = dict.fromkeys(TWICE, 2) | {"kkt-span rounds": STEPS + 2}
"""The number of checkpoints after which each is killed."""


@pytest.mark.parametrize(("name", "last"), KEEPING.items(), ids=KEEPING)
def test_a_killed_attack_goes_on_there(
    name: str, last: int, pretend: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Killing, "last", last)
    case = replace(CASES[name], params=CASES[name].params | ({"rounds": 2} if "rounds" in CASES[name].params else {}))
    with Split():
        whole = run(case, CPU)(STEPS)  # the device's, as the test above says
    monkeypatch.setattr(context, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(Interrupted):
        run(case, pretend, Killing(tmp_path / "checkpoint", "", ""))(STEPS)
    resumed = run(case, pretend, CheckpointFile(tmp_path / "checkpoint", "", ""))(STEPS)
    assert torch.equal(whole.candidates, resumed.candidates.cpu())
