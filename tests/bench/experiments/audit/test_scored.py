"""Each attack is judged one to one, by a protocol that can tell its images from others, in all that an audit says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from attacks.base import Reconstruction, Threat
from bench.experiments.audit.findings import attempts, hit_by_chance, records
from bench.experiments.audit.model import AuditAttempt
from bench.experiments.audit.scores import Scored, _surest, scored
from bench.plan import registry
from bench.plan.prospects import Outlook, Prospect
from bench.plan.run import Run
from bench.run.artifacts import write_reconstruction
from bench.run.nulls.controls import NullControls
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.folders import Store
from bench.store.records import RunRecord
from bench.terminal.progress import TerminalReporter
from victims.base import Victim
from victims.obtain import obtain
from victims.released import released

N, HELD_OUT = 20, 100
Counted = tuple[AuditAttempt, Scored]


def counted(
    folder: Path, name: str, pixels: NDArray[np.float32], held_out: int, row: RunRecord, others: int = 0
) -> Counted:
    """What an audit says of an attack on an untrained network that returns its training images.

    Args:
        folder: for all files.
        name: of the attack.
        pixels: (k, 8, 8, 1), the `N` training images first, then the held-out ones, then others.
        held_out: how many are held out.
        row: of the attack's run.
        others: how many of the others it returns instead.
    """
    labels = np.arange(len(pixels)) % 2
    test = slice(N, N + held_out)
    given = {"train_images": pixels[:N], "train_labels": labels[:N]}
    np.savez(folder / "images.npz", **given, test_images=pixels[test], test_labels=labels[test])
    network = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2))  # noqa: E731
    save_file(network().state_dict(), folder / "weights.safetensors")
    spec = released("mine", network=network, weights=folder / "weights.safetensors", images=folder / "images.npz")
    victim = obtain(spec, None, torch.device("cpu"), lambda progress: None, lambda notice: None)
    assert isinstance(victim, Victim)
    attack = registry.attacks().items[name]
    run = Run(attack, attack.Params(), "", "default", spec, 0)
    store = Store(folder / "results")
    store.folder("one").mkdir(parents=True)
    images = torch.from_numpy(victim.split.inputs).clone()
    if others:
        more = torch.from_numpy(pixels[test.stop : test.stop + others]).permute(0, 3, 1, 2)
        images = (more - torch.from_numpy(victim.split.mean)) / torch.from_numpy(victim.scale)
    write_reconstruction(store.folder("one"), Reconstruction(images.float()))
    setup = Setup(store.root, None, None, "cpu", twins=False, jobs=0)
    controls = NullControls(Session(setup, TerminalReporter(Console(quiet=True))), None, twins=False)
    reached = scored({name: (run, "one")}, victim, store, controls)
    prospect = Prospect(attack, "", run.params, Threat.QUERIES, Outlook.OPEN, "")
    (told,) = attempts([prospect], {name: row}, {}, reached)
    return told, reached


@pytest.mark.parametrize(
    ("name", "alike", "protocol"),
    [
        ("kernel-query", True, "nearest-public"),
        ("kkt-span", True, "nearest-public"),
        ("kkt-span", False, "buzaglo2023-unique"),
    ],
)
def test_found_chance_and_records_are_of_the_protocol_that_the_images_allow(
    tmp_path: Path, record: Callable[..., RunRecord], name: str, alike: bool, protocol: str
) -> None:
    """Of digits that are alike held-out ones pass for most by SSIM; there some are the bar, and some the control."""
    pixels = load_digits().images[load_digits().target == 0][: N + HELD_OUT, ..., None].astype(np.float32) / 16
    if not alike:
        pixels = np.random.default_rng(0).random(pixels.shape).astype(np.float32)
    row = record(attack=name, n=N, n_good=1, n_good_unique=1, null_n_good=1, null_n_good_unique=1)
    told, reached = counted(tmp_path, name, pixels, HELD_OUT, row)
    by_record = records(reached, [name])
    assert told.found == N == sum(bool(one.attacks) for one in by_record)
    assert told.beyond_chance
    assert told.protocol == protocol
    nulls = reached.attacks[name].nulls
    assert told.null == int(nulls[told.null_control].good.sum())
    by_others = int(nulls["null_held_out"].good.sum())
    assert not alike or 0 < by_others < N / 2, "a control of other digits, as many as candidates"
    assert hit_by_chance(reached, [name]) >= told.null
    assert min(one.best_score for one in by_record) > 0.99, "what is shown is the SSIM"


@pytest.mark.parametrize("held_out", [6, 12])
def test_who_has_more_candidates_than_there_are_held_out_images_gets_nothing_by_their_number(
    tmp_path: Path, record: Callable[..., RunRecord], held_out: int
) -> None:
    """Five times as many digits as are learnt are like most of these, and held-out ones are too few to be."""
    pixels = load_digits().images[: N + held_out + 5 * N, ..., None].astype(np.float32) / 16
    row = record(attack="kkt-span", n=N, n_good=1, n_good_unique=1, null_n_good=1, null_n_good_unique=1)
    told, reached = counted(tmp_path, "kkt-span", pixels, held_out, row, others=5 * N)

    assert told.protocol == "nearest-public", "most held-out digits are like a training image"
    assert told.compared == held_out // 2 < told.found
    assert not told.beyond_chance
    assert int(reached.attacks["kkt-span"].surest["null_held_out"].good.sum()) <= held_out // 2


def test_the_surest_are_compared_with_as_many(tmp_path: Path) -> None:
    images = torch.arange(4.0).view(4, 1, 1, 1)
    sure = Reconstruction(images, confidence=torch.tensor([0.1, 0.9, torch.nan, 0.5]))
    assert _surest(sure, 3).flatten().tolist() == [1, 3, 0]
    assert len(set(_surest(Reconstruction(images), 3).flatten().tolist())) == 3
