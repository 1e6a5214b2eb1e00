"""A training that is killed goes on from its last whole checkpoint, to the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from twelve import CPU, problem, spec

from victims import unfinished
from victims.spec import DecayedDescent, GradientDescent, GramGaussNewton, NormalizedDescent
from victims.training import loop
from victims.training.loop import train
from victims.unfinished import Unfinished


@pytest.mark.parametrize(
    "training",
    [
        GradientDescent(lr=0.1, epochs=60, batch_size=5),
        NormalizedDescent(steps=120),
        DecayedDescent(steps=120),
        GramGaussNewton(descent=30, steps=90),
    ],
    ids=["sgd", "normalized", "decayed", "gram-gauss-newton"],
)
def test_a_killed_training_resumes_to_the_same_weights(
    training: GradientDescent | NormalizedDescent | DecayedDescent | GramGaussNewton,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = spec(training, "l2" if training.kind == "gram-gauss-newton" else "cross-entropy")
    inputs, labels = problem()
    whole = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)

    class Killed(Exception):
        pass

    def kill(at: loop.TrainProgress) -> None:
        if at.step >= 50:
            raise Killed

    monkeypatch.setattr(unfinished, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    checkpoint = tmp_path / "killed.safetensors"
    with pytest.raises(Killed):
        train(victim, inputs, labels, CPU, Unfinished(checkpoint), kill)
    steps: list[int] = []
    resumed = train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: steps.append(at.step))
    assert steps[0] == 50  # the step in progress was lost, nothing else
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value, rtol=0, atol=0)


def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = spec(NormalizedDescent(steps=20))
    inputs, labels = problem()
    checkpoint, written = tmp_path / "c.safetensors", 0
    whole = unfinished.save_file

    def save(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        nonlocal written
        written += 1
        whole(tensors, path, metadata)
        if written == 5:
            path.write_bytes(path.read_bytes()[:100])
            raise KeyboardInterrupt

    monkeypatch.setattr(unfinished, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(loop, "REPORT_SECONDS", -1.0)
    monkeypatch.setattr(unfinished, "save_file", save)
    with pytest.raises(KeyboardInterrupt):
        train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: None)
    steps: list[int] = []
    train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: steps.append(at.step))
    assert steps[0] == 5  # the fourth checkpoint holds four steps


def test_a_torn_checkpoint_is_set_aside(tmp_path: Path) -> None:
    victim = spec(NormalizedDescent(steps=20))
    inputs, labels = problem()
    checkpoint = tmp_path / "torn.safetensors"
    checkpoint.write_bytes(b"\x10\x00\x00")
    steps: list[int] = []
    train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: steps.append(at.step))
    assert steps[-1] == 20 and not checkpoint.exists()


def test_a_checkpoint_of_another_shape_leaves_the_training_as_it_is(tmp_path: Path) -> None:
    """The span of the inputs may have another rank on another machine, and the first layer then another shape."""
    victim, (inputs, labels) = spec(NormalizedDescent(steps=20)), problem()
    checkpoint = tmp_path / "other.safetensors"
    expected = train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: None).state_dict()
    kept = loop.TrainState(
        loop.build(victim.architecture, (11,), torch.Generator().manual_seed(9), torch.float64),  # type: ignore[arg-type]
        outside_norm=0.0,
        outside_scale=torch.ones((), dtype=torch.float64),
    )
    Unfinished(checkpoint).save(kept.tensors())
    found = train(victim, inputs, labels, CPU, Unfinished(checkpoint), lambda at: None).state_dict()
    assert not checkpoint.exists()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
