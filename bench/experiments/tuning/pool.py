"""The candidates of several trials taken together, as the papers do with those of a hundred runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from optuna.trial import FrozenTrial

from attacks.base import Reconstruction
from bench.experiments.tuning.tuner import Tuner
from bench.run.nulls.controls import NullControls
from bench.scoring.evaluation import Reference, count_scores, counts
from bench.scoring.protocols import protocol_named
from bench.store.cells import to_csv
from victims.files import write_text

if TYPE_CHECKING:
    from attacks.base import Attack

POOL = "pool.csv"


def write_pool(folder: Path, tuner: Tuner, trials: Sequence[FrozenTrial], control: type[Attack[Any]] | None) -> str:
    """Attack again with the parameters of some trials, score all candidates together, and write pool.csv.

    More candidates pass for more images by chance, so the row has null controls too: those that attack nothing, the
    random one with as many candidates.

    Args:
        folder: the study's.
        tuner: what attacks.
        trials: whose candidates are pooled.
        control: the attack that draws random candidates.

    Returns:
        A line that says what came of it.
    """
    victim = tuner.session.victim(tuner.run.victim)
    found = [tuner.session.attack(tuner.tuned(trial.params), victim).reconstruction for trial in trials]
    pooled = Reconstruction(torch.cat([one.candidates.detach().float().cpu() for one in found]))
    reference, protocol = Reference.of(victim), protocol_named(tuner.run.protocol)
    counted = counts(count_scores(protocol, reference.matcher(pooled.candidates)))
    controls = NullControls(tuner.session, control, twins=False)
    nulls = controls.count(tuner.run, protocol, pooled, victim, reference).columns(counted["n_good"])
    numbers = " ".join(str(trial.number) for trial in trials)
    row = {"trials": numbers, "n_candidates": len(pooled.candidates), "protocol": protocol.name, **counted, **nulls}
    write_text(folder / POOL, to_csv(pd.DataFrame([row])))
    good = f"{counted['n_good']} good under {protocol.name} (null {nulls.get('null_n_good')})"
    if "n_good_unique" in counted:
        good += f", unique {counted['n_good_unique']} (null {nulls.get('null_n_good_unique')})"
    return f"the {len(trials)} best trials together: {good}"
