"""The files of one run, beside its record: reconstruction, per-image scores, trace, picture."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save_file

from attacks.base import Reconstruction
from bench.picture import grid
from bench.scored import COUNTS, Scored
from victims.base import Victim

PICTURED = "haim2022-min"
"""The protocol of the picture: one candidate a training image, as in the figures of Haim et al. 2022."""


def write(
    folder: Path,
    reconstruction: Reconstruction,
    victim: Victim,
    scored: Scored,
    trace: list[dict[str, float]],
    title: str,
) -> None:
    """Write reconstruction.safetensors, per_sample.csv, trace.csv and grid.png into a run's folder."""
    tensors = {
        "candidates": reconstruction.candidates.float(),
        "labels": reconstruction.labels,
        "coefficients": reconstruction.coefficients,
        "confidence": reconstruction.confidence,
    }
    present = {name: value.detach().cpu().contiguous() for name, value in tensors.items() if value is not None}
    save_file(present, folder / "reconstruction.safetensors")
    _csv(_per_sample(victim, scored), folder / "per_sample.csv")
    _csv(pd.DataFrame(trace) if trace else pd.DataFrame(columns=["step", "wall_s"]), folder / "trace.csv")
    shown = scored.by_protocol[PICTURED]
    grid(
        folder / "grid.png",
        torch.from_numpy(victim.split.images),
        shown.reconstruction,
        shown.ssim,
        title=f"{title}: {shown.n_good} of {len(shown.ssim)} good ({PICTURED})",
    )


def _per_sample(victim: Victim, scored: Scored) -> pd.DataFrame:
    """Return one row a training image: where it is, its margin, and its scores under each protocol."""
    split = victim.split
    with torch.no_grad():
        outputs = victim.model(torch.from_numpy(split.inputs)).numpy()
    table = pd.DataFrame({"index": split.indices, "label": split.labels, "margin": (2 * split.labels - 1) * outputs})
    for name in COUNTS.values():
        table[f"ssim_{name}"] = scored.by_protocol[name].ssim.numpy()
    row = scored.row
    table["mse"], table["psnr"] = row.mse.numpy(), row.psnr.numpy()
    table["candidate"], table["voters"] = row.candidate.numpy(), row.voters.numpy()
    if len(scored.oracle):
        table["oracle_mse"] = scored.oracle.numpy()
    return table


def _csv(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
