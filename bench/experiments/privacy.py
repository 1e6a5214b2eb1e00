"""The verb `privacy`: attacks on private victims beside the bounds on any attack (Balle et al. 2022, Fig. 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binomtest

from bench.experiments import rero
from bench.plan.registry import Victims
from bench.store.cells import to_csv
from bench.store.file_names import PER_SAMPLE
from bench.store.folders import Store
from bench.store.picture import save_png
from bench.store.records import RunRecord
from bench.terminal.text import one_line, variant_name
from victims.errors import UserError
from victims.files import write_text
from victims.informed.data import split_of
from victims.informed.privacy import gaussian_privacy
from victims.informed.spec import GLMSpec, InformedSpec

NAME = "privacy"
CURVE = ["dataset", "attack", "variant", "params_hash", "budget"]
"""What the points of one curve share."""
MEASURED_ONCE = ["attack", "variant", "params_hash", "budget", "victim", "victim_seed", "seed"]
"""Of runs that are equal in these columns the newest counts."""
ACROSS = 2
"""Panels side by side."""


def privacy_table(
    records: Sequence[RunRecord], store: Store, victims: Victims, data_dir: Path | None, threshold: float
) -> pd.DataFrame:
    """Return one row a run of a private victim: its privacy, its accuracy, the attack's success and the bounds.

    The prior is the uniform distribution on the victim's targets, and an attack succeeds on a target if the mean
    squared error is at most the threshold, so that its success is the share of targets on which it does.

    Args:
        records: stored runs. Runs on victims that are not private, trained on sampled batches, or not known here are
            left out, and so are runs whose adversary has a prior: the study `trace` sets them beside their bound.
        store: where they are.
        victims: all that are known.
        data_dir: the data folder, None for the default.
        threshold: mean squared error, > 0.

    Raises:
        UserError: no run is of a private victim, or the per_sample.csv or the data of a run cannot be read.
    """
    rows = []
    newest: dict[tuple[object, ...], RunRecord] = {}
    for record in sorted(records, key=lambda record: (record.sequence, record.started_utc)):
        newest[tuple(getattr(record, name) for name in MEASURED_ONCE)] = record
    for record in newest.values():
        spec = victims.find(record.victim)
        if isinstance(spec, InformedSpec | GLMSpec) and spec.prior is None and gaussian_privacy(spec) is not None:
            rows.append(_row(record, store, spec.retrained(record.victim_seed), data_dir, threshold))
    if not rows:
        hint = "`list` shows which have an epsilon"
        raise UserError(f"no stored run in {store.runs} is of a differentially private victim; {hint}")
    return pd.DataFrame(rows).sort_values([*CURVE, "epsilon", "victim", "victim_seed", "seed"], ignore_index=True)


def _row(
    record: RunRecord, store: Store, spec: InformedSpec | GLMSpec, data_dir: Path | None, threshold: float
) -> dict[str, object]:
    path = store.folder(record.run_id) / PER_SAMPLE
    try:
        errors = pd.to_numeric(pd.read_csv(path)["mse"]).to_numpy(float)
        if len(errors) != record.n or not np.isfinite(errors).all():
            raise ValueError(f"it does not tell the mean squared error of each of {record.n} targets")
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} cannot be read ({one_line(str(error))}); `score` writes it again") from None
    privacy, mu = spec.training.privacy, gaussian_privacy(spec)
    assert privacy is not None and mu is not None
    targets = split_of(spec, data_dir).targets.images.reshape(spec.targets, -1)
    kappa = rero.kappa_sample(targets, math.sqrt(threshold * targets.shape[1]))
    hits = int((errors <= threshold).sum())
    interval = binomtest(hits, len(errors)).proportion_ci()
    return {
        "attack": record.attack,
        "variant": record.variant,
        "params_hash": record.params_hash,
        "budget": record.budget,
        "victim": record.victim,
        "victim_seed": record.victim_seed,
        "dataset": record.dataset,
        "seed": record.seed,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "mu": mu,
        "test_accuracy": record.test_accuracy,
        "threshold": threshold,
        "targets": len(errors),
        "success": hits / len(errors),
        "success_low": interval.low,
        "success_high": interval.high,
        "mse_mean": float(np.mean(errors)),
        "oracle_mse": record.oracle_mse,
        "beats_oracle": record.beats_oracle,
        "kappa": kappa,
        "bound_gaussian": rero.gaussian(kappa, mu),
        "bound_zcdp": rero.concentrated(kappa, mu**2 / 2),
    }


def write_privacy(table: pd.DataFrame, root: Path) -> list[Path]:
    """Write privacy.csv and privacy.png into a results folder and return their paths."""
    paths = [root / f"{NAME}.csv", root / f"{NAME}.png"]
    write_text(paths[0], to_csv(table))
    groups = list(table.groupby(CURVE, sort=False))
    across = min(len(groups), ACROSS)
    down = -(-len(groups) // across)
    figure = Figure(figsize=(5 * across, 3.8 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for (curve, part), axes in zip(groups, panels, strict=False):
        dataset, attack, variant, _, budget = map(str, curve)
        ends = part[["success_low", "success_high"]].to_numpy().T
        spread = np.abs(ends - part["success"].to_numpy())
        axes.errorbar(part["epsilon"], part["success"], yerr=spread, fmt="o-", color="C3", label="attack, 95% interval")
        axes.plot(part["epsilon"], part["bound_gaussian"], "-", color="0.2", label="bound, Gaussian closed form")
        axes.plot(part["epsilon"], part["bound_zcdp"], "--", color="0.5", label="bound, Corollary 4")
        axes.plot(part["epsilon"], part["kappa"], ":", color="0.5", label="kappa, without the model")
        accuracy = part["test_accuracy"].astype(float)
        axes.plot(part["epsilon"], accuracy, "s-", color="C0", alpha=0.6, label="test accuracy")
        axes.set_xscale("log")
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel(f"epsilon (delta {part['delta'].iloc[0]:g}, one record added or removed)")
        axes.set_ylabel(f"share of targets with MSE <= {part['threshold'].iloc[0]:g}")
        axes.set_title(f"{variant_name(attack, variant)} on {dataset}{', ' + budget if budget else ''}")
        axes.legend(fontsize=7)
    for axes in panels:  # those that are left
        axes.set_axis_off()
    save_png(figure, paths[1])
    return paths
