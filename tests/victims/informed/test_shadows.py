"""Shadow models in the cache: trained once, a part at a time, and never taken for those of other arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from victims.errors import UserError
from victims.informed import shadows
from victims.informed.networks import LabelledImages, initial
from victims.informed.spec import DenseSpec, Descent
from victims.informed.training import train_many

CPU = torch.device("cpu")
SPEC, TRAINING = DenseSpec(hidden=(3,), outputs=2), Descent(epochs=2)
GENERATOR = torch.Generator().manual_seed(0)
IMAGES, LABELS = torch.rand(30, 1, 3, 3, generator=GENERATOR), torch.arange(30) % 2
FIXED = (IMAGES[:8], LABELS[:8])
START = initial(SPEC, (1, 3, 3), GENERATOR)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many models each call of the training trained; parts hold ten."""
    found: list[int] = []

    def counted(*arguments, **more):
        found.append(len(arguments[3][0]))
        return train_many(*arguments, **more)

    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shadows, "PART", 10)
    monkeypatch.setattr(shadows, "train_many", counted)
    return found


def trained(k: int, fixed: LabelledImages = FIXED, training: Descent = TRAINING, seen: list[int] | None = None):
    seen = [] if seen is None else seen
    extra = (IMAGES[8 : 8 + k], LABELS[8 : 8 + k])
    return shadows.train_shadows(SPEC, training, fixed, extra, START, CPU, lambda done, total: seen.append(done))


def test_parts_are_those_of_one_training_and_are_trained_once(calls: list[int]) -> None:
    seen: list[int] = []
    found = trained(22, seen=seen)
    assert calls == [10, 10, 2]
    assert seen[-1] == 22
    whole = train_many(SPEC, TRAINING, FIXED, (IMAGES[8:30], LABELS[8:30]), START, range(22), CPU)
    for name, value in trained(22).items():
        assert torch.equal(value, found[name])
        torch.testing.assert_close(value, whole[name], rtol=1e-5, atol=1e-7)
    assert calls == [10, 10, 2]
    trained(20)  # fewer of the same: nothing to train
    assert calls == [10, 10, 2]


def test_what_was_stopped_goes_on_where_it_was(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(done: int, total: int) -> None:
        if done > 10:
            raise KeyboardInterrupt

    extra = (IMAGES[8:30], LABELS[8:30])
    with pytest.raises(KeyboardInterrupt):
        shadows.train_shadows(SPEC, TRAINING, FIXED, extra, START, CPU, stopped)
    calls.clear()
    trained(22)
    assert calls == [10, 2]


def test_once_there_are_enough_no_more_are_trained_and_what_is_cached_is_taken(calls: list[int]) -> None:
    def first_ones(asked: list[bool]) -> int:
        extra = (IMAGES[8:30], LABELS[8:30])
        found = shadows.train_shadows(
            SPEC, TRAINING, FIXED, extra, START, CPU, lambda done, total: None, lambda: asked.pop(0)
        )
        return len(found["layers.0.weight"])

    assert first_ones([True]) == 10
    assert first_ones([False, True]) == 20
    assert first_ones([True]) == 20
    assert calls == [10, 10]


def test_another_training_or_fixed_set_is_trained_anew_and_so_is_a_torn_file(calls: list[int], tmp_path: Path) -> None:
    first = trained(5)
    other = trained(5, training=Descent(epochs=2, lr=0.2))
    trained(5, fixed=(IMAGES[1:9], LABELS[1:9]))
    assert calls == [5, 5, 5]
    assert not torch.equal(first["layers.0.weight"], other["layers.0.weight"])
    for file in (tmp_path / "shadows").iterdir():
        file.write_bytes(file.read_bytes()[:50])
    again = trained(5)
    assert calls == [5, 5, 5, 5]
    assert all(torch.equal(value, first[name]) for name, value in again.items())


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    calls: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot keep shadow models in"):
        trained(5)
