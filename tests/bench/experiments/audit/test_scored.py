"""Each attack is judged one to one, by a protocol that can tell its images from others, in all that an audit says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from attacks.base import Reconstruction, Threat
from bench.experiments.audit.findings import attempts, hit_by_chance, records
from bench.experiments.audit.scores import scored
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
    labels = np.arange(len(pixels)) % 2
    given = {"train_images": pixels[:N], "train_labels": labels[:N]}
    np.savez(tmp_path / "images.npz", **given, test_images=pixels[N:], test_labels=labels[N:])
    network = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 2))  # noqa: E731
    save_file(network().state_dict(), tmp_path / "weights.safetensors")
    spec = released("mine", network=network, weights=tmp_path / "weights.safetensors", images=tmp_path / "images.npz")
    victim = obtain(spec, None, torch.device("cpu"), lambda progress: None, lambda notice: None)
    assert isinstance(victim, Victim)
    attack = registry.attacks().items[name]
    run = Run(attack, attack.Params(), "", "default", spec, 0)
    store = Store(tmp_path / "results")
    store.folder("one").mkdir(parents=True)
    write_reconstruction(store.folder("one"), Reconstruction(torch.from_numpy(victim.split.inputs).clone()))
    setup = Setup(store.root, None, None, "cpu", twins=False, jobs=0)
    controls = NullControls(Session(setup, TerminalReporter(Console(quiet=True))), None, twins=False)

    reached = scored({name: (run, "one")}, victim, store, controls)
    prospect = Prospect(attack, "", run.params, Threat.QUERIES, Outlook.OPEN, "")
    row = record(attack=name, n=N, n_good=1, n_good_unique=1, null_n_good=1, null_n_good_unique=1)
    (told,) = attempts([prospect], {name: row}, {}, reached)
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
