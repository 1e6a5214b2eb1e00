"""Each attack is judged by its own one-to-one protocol, in all that an audit says of it."""

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
from bench.run.null_controls import NullControls
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.folders import Store
from bench.store.records import RunRecord
from bench.terminal.progress import TerminalReporter
from victims.base import Victim
from victims.obtain import obtain
from victims.released import released

N, HELD_OUT = 20, 100


@pytest.mark.parametrize(("name", "got", "beyond"), [("kernel-query", N, True), ("kkt-span", N, False)])
def test_found_chance_and_records_are_of_the_attacks_own_protocol(
    tmp_path: Path, record: Callable[..., RunRecord], name: str, got: int, beyond: bool
) -> None:
    """Of digits that are alike held-out ones pass for all by SSIM; where they are the bar, none is left."""
    pixels = load_digits().images[load_digits().target == 0][: N + HELD_OUT, ..., None].astype(np.float32) / 16
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
    assert told.found == got == sum(bool(one.attacks) for one in by_record)
    assert told.beyond_chance == beyond
    nulls = reached.attacks[name].nulls
    assert told.null == int(nulls[told.null_control].good.sum())
    assert ("null_held_out" in nulls) != beyond
    assert beyond or bool(nulls["null_held_out"].good.any())
    assert hit_by_chance(reached, [name]) >= told.null
    assert min(one.best_score for one in by_record) > 0.99, "what is shown is the SSIM"
