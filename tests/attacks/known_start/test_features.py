"""kkt-delta behind convolutions and layers that stayed: the equation, its search, and images of tiny victims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Interrupted, Memory, attacked, context, victim_of

from attacks import context as contexts
from attacks.base import AttackContext
from attacks.kkt_delta_features import KKTDeltaFeatures
from attacks.known_start.equation import Equation, back_propagated, checked_difference
from attacks.known_start.feature_search import FeatureSearch
from attacks.known_start.front import FeatureExtractor, head, network_between, without_batches
from attacks.known_start.no_image import FIRST_MOVED
from attacks.known_start.params import FeatureParams
from bench.run.disclosure import view_of
from victims.defences.spec import RandomSeed, parse
from victims.defences.stacking import defended
from victims.equations.architectures import blank, seeded
from victims.equations.spans import share_outside
from victims.recipes import Ordinary, Pretraining
from victims.spec import CNNSpec, MLPSpec, VictimSpec

SHARP = 1e8
SHAPE = (1, 6, 6)
SMALL_CNN = CNNSpec(channels=(5,), hidden=(12,), outputs=4)
TUNED = Ordinary(
    lr=5e-3, batch_size=5, epochs=8, weight_decay=0, schedule="constant", pretraining=Pretraining(epochs=1)
)
BEHIND = VictimSpec(
    name="digits-mlp-10-c10-finetuned-last2",
    dataset="digits",
    n=10,
    architecture=MLPSpec(hidden=(150, 100), outputs=10, biases="every", first_layer_scale=None),
    training=TUNED.model_copy(update={"last_layers": 2}),
)
CNN = BEHIND.model_copy(
    update={
        "name": "digits-cnn-10-c10-finetuned",
        "architecture": CNNSpec(channels=(16,), hidden=(60,), outputs=10),
        "training": TUNED,
    }
)


SCRATCH = TUNED.model_copy(update={"pretraining": None})


def moved_by_one_step() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """A CNN's state, the one after a gradient step of its head, the images (3, ...) and the outputs' coefficients."""
    generator = torch.Generator().manual_seed(2)
    start = {name: value.double() for name, value in seeded(SMALL_CNN, SHAPE, 1).state_dict().items()}
    images = torch.randn(3, *SHAPE, generator=generator, dtype=torch.float64)
    coefficients = 0.01 * torch.randn(3, 4, generator=generator, dtype=torch.float64)
    features = front_at(start, start, 0.0)(images)
    errors, activations = back_propagated(head(start, 0), features, coefficients, SHARP)
    end = dict(start)
    for layer, inputs in enumerate((features, activations)):
        end[f"layers.{layer}.weight"] = start[f"layers.{layer}.weight"] + errors[layer].T @ inputs
        end[f"layers.{layer}.bias"] = start[f"layers.{layer}.bias"] + errors[layer].sum(0)
    return start, end, images, coefficients


def front_at(
    start: dict[str, torch.Tensor], end: dict[str, torch.Tensor], share: float, stayed: int = 0
) -> FeatureExtractor:
    return FeatureExtractor.of(lambda: blank(SMALL_CNN, SHAPE).double(), start, end, share, stayed)


def test_the_truth_of_one_step_solves_the_equation_and_other_images_leave_the_span() -> None:
    start, end, images, coefficients = moved_by_one_step()
    first, last = head(start, 0), head(end, 0)
    found = checked_difference(first, last)
    assert found.rank == 3
    equation, front = Equation.of(first, last, found, 3, (0.0,)), front_at(start, end, 0.0)
    inputs = front(images) @ equation.basis
    errors, second = equation.terms(inputs, coefficients[None], SHARP)
    assert torch.allclose(errors.T @ inputs, equation.weight, atol=1e-10)
    assert torch.allclose(second, equation.second, atol=1e-10)
    others = front(images.flip(-1))
    assert float(share_outside(inputs, front(images)).max()) < 1e-9
    assert float(share_outside(others @ equation.basis, others).min()) > 0.01


@pytest.mark.parametrize("stayed", [0, 1])
def test_the_front_and_the_head_are_the_network_on_the_way(stayed: int) -> None:
    first, last = (seeded(SMALL_CNN, SHAPE, seed).state_dict() for seed in (1, 2))
    first["front.1.running_mean"], last["front.1.running_var"] = torch.full((5,), 0.3), torch.full((5,), 4.0)
    images = torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0))
    there = {
        name: value if value.dtype == torch.int64 else 0.75 * value + 0.25 * last[name] for name, value in first.items()
    }
    network = blank(SMALL_CNN, SHAPE)
    network.load_state_dict(there)
    front = FeatureExtractor.of(lambda: blank(SMALL_CNN, SHAPE), first, last, 0.25, stayed)
    outputs = head(there, stayed).forward(front(images), torch.relu)
    assert torch.allclose(outputs, network(images), atol=1e-5)


def test_a_start_that_saw_no_batch_is_normalised_as_the_end_is() -> None:
    first, last = (seeded(SMALL_CNN, SHAPE, seed).state_dict() for seed in (1, 2))
    last["front.1.running_mean"], last["front.1.running_var"] = torch.full((5,), 0.5), torch.full((5,), 4.0)
    on_the_way = network_between(lambda: blank(SMALL_CNN, SHAPE), first, last, 0.25).state_dict()
    assert without_batches(first) == {"front.1.running_mean", "front.1.running_var"}
    assert all(torch.equal(on_the_way[name], last[name]) for name in without_batches(first))
    assert torch.allclose(
        on_the_way["front.0.weight"], torch.lerp(first["front.0.weight"], last["front.0.weight"], 0.25)
    )
    seen = first | {"front.1.running_var": torch.tensor([1.0, 1.0, 1.0, 1.0, 0.9])}
    assert not without_batches(seen)
    half = network_between(lambda: blank(SMALL_CNN, SHAPE), seen, last, 0.5).state_dict()
    assert half["front.1.running_mean"].tolist() == [0.25] * 5


def test_the_objectives_gradient_is_a_difference_quotient() -> None:
    start, end, _, _ = moved_by_one_step()
    first, last = head(start, 0), head(end, 0)
    equation = Equation.of(first, last, checked_difference(first, last), 3, (0.4,))
    params = FeatureParams(dtype="float64", steps=10)
    search = FeatureSearch(equation, front_at(start, end, 0.4), SHAPE, 4, params, torch.Generator().manual_seed(0))
    search.objective(SHARP).backward()
    for variable, place in ((search.coordinates, (1, 0, 2, 3)), (search.coefficients, (2, 1))):
        slope, middle, step = variable.grad, variable.data[place].item(), 1e-6
        assert slope is not None
        ends = []
        for sign in (1, -1):
            variable.data[place] = middle + sign * step
            ends.append(float(search.objective(SHARP).detach()))
        variable.data[place] = middle
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(slope[place]), rel=1e-4, abs=1e-9)


def nearest(images: Any, candidates: torch.Tensor) -> torch.Tensor:
    """The largest cosine (n,) of each image with a candidate."""
    rows = [F.normalize(torch.as_tensor(given).flatten(1), dim=1) for given in (images, candidates)]
    return (rows[0] @ rows[1].T).amax(1)


@pytest.mark.parametrize("spec", [BEHIND, CNN], ids=["mlp", "cnn"])
def test_images_come_out_from_behind_the_front_and_held_out_ones_do_not(spec: VictimSpec) -> None:
    victim = victim_of(spec)
    found = attacked(KKTDeltaFeatures(FeatureParams(directions=10)), victim)
    members = nearest(victim.split.inputs, found.candidates)
    others = nearest(victim.split.test_inputs, found.candidates)
    # five of ten images that are no members exceed the others' upper tenth with probability .0016
    assert float(members.median()) > float(others.quantile(0.9))
    assert found.confidence is not None
    assert len(found.confidence) == len(found.candidates) == 20


def test_a_ranking_is_of_the_same_candidates() -> None:
    victim = victim_of(BEHIND)
    plain, ranked = (
        attacked(KKTDeltaFeatures(FeatureParams(steps=6, directions=5, ranking=one)), victim)
        for one in ("span", "evidence")
    )
    assert torch.equal(plain.candidates, ranked.candidates)
    assert plain.confidence is not None
    assert ranked.confidence is not None
    assert plain.confidence.argsort().tolist() != ranked.confidence.argsort().tolist()


def test_a_killed_search_ends_where_an_undisturbed_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim = victim_of(CNN)
    attack = KKTDeltaFeatures(FeatureParams(restarts=2, steps=6, directions=5))
    whole, memory = attacked(attack, victim), Memory(most=9)

    def run() -> Any:
        ctx = context()
        kept = AttackContext(CPU, ctx.generator, ctx.progress, checkpoints=memory)
        return attack.reconstruct(view_of(victim, attack.knowledge, CPU), kept)

    with pytest.raises(Interrupted):
        run()
    memory.most = 10**9
    assert torch.equal(run().candidates, whole.candidates)


def test_where_noise_has_moved_every_layer_it_says_so_and_does_not_search() -> None:
    found = attacked(KKTDeltaFeatures(FeatureParams()), victim_of(defended(BEHIND, [parse("noise=0.01")])))
    assert found.flags == (FIRST_MOVED,)
    assert found.candidates.abs().sum() == 0


def test_it_runs_in_a_process_of_its_own(run: Callable[..., Any], results: Path, tmp_path: Path) -> None:
    victim = f"VictimSpec.model_validate_json({CNN.model_dump_json()!r})"
    (tmp_path / "small.py").write_text(f"from victims.spec import VictimSpec\nVICTIMS = ({victim},)\n")
    words = ("-v", CNN.name, "--plugin-dir", tmp_path, "--set", "steps=2", "--jobs", 1, "--controls", "quick")
    ended = run("-a", KKTDeltaFeatures.name, *words)
    assert ended.status == 0, ended.err
    (record,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert (record["status"], record["knowledge"]) == ("ok", "architecture+initial weights+weights")


def test_it_says_what_it_cannot_take() -> None:
    attack, training = KKTDeltaFeatures(FeatureParams()), BEHIND.training
    assert isinstance(training, Ordinary)
    reasons = [
        attack.supports(BEHIND.model_copy(update={"training": training.model_copy(update=changes)}))
        for changes in ({"last_layers": None}, {"last_layers": 1}, {"last_layers": 2})
    ]
    assert "use kkt-delta" in str(reasons[0])
    assert "only the last layer moved" in str(reasons[1])
    assert reasons[2] is None
    gelu = CNN.architecture.model_copy(update={"activation": "gelu"})
    assert "for fully connected layers with ReLUs" in str(
        attack.supports(CNN.model_copy(update={"architecture": gelu}))
    )
    assert "not known" in str(attack.supports(defended(CNN.model_copy(update={"training": SCRATCH}), [RandomSeed()])))


def test_a_wrong_start_is_refused() -> None:
    victim = victim_of(CNN)
    generator = torch.Generator().manual_seed(0)
    other = {
        name: torch.randn(value.shape, generator=generator) / 8 if name.startswith("layers") else value
        for name, value in victim.start.items()
    }
    with pytest.raises(ValueError, match="the start is wrong"):
        attacked(KKTDeltaFeatures(FeatureParams(steps=2)), replace(victim, start=other))
