"""What the report takes from a run's folder. Any file may be absent, since published tables come without folders."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from bench.store.file_names import CONFIDENCE, EXAMPLES, HELD_OUT, PER_SAMPLE, RECORD, RUNS
from bench.terminal.text import one_line
from victims.errors import UserError

GROUPS = ("best", "median", "worst")
"""What the values 0, 1 and 2 of the tensor `group` of examples.safetensors stand for."""
LAYERS = ("reconstruction", "training image", "nearest held-out")
"""What its images show, from top to bottom."""
_TENSORS = ("reconstruction", "truth", "nearest_held_out")


@dataclass(frozen=True)
class Examples:
    """Some reconstructions, each above its training image and the held-out image nearest to that.

    Attributes:
        stacks: (k, S, H, W, 3) uint8, S being 3, or 2 where there are no held-out images.
        ssim: (k,) of reconstruction and training image.
        image: (k,) index of the training image.
        group: (k,) index into `GROUPS`.
    """

    stacks: NDArray[np.uint8]
    ssim: NDArray[np.float64]
    image: NDArray[np.int64]
    group: NDArray[np.int64]


@dataclass(frozen=True)
class Panel:
    """A figure with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class RunFiles:
    """The files of one run; empty tables and None for those that are not there.

    Attributes:
        per_sample: one row a training image: label, margin, output, candidate; ssim, 0 where no candidate serves it.
        held_out: (p,) SSIM that the same scoring call gives each held-out image.
        confidence: one row a candidate, surest first: precision, recall.
        examples: pictures.
        drawn: figures of an earlier report, in the place of the tables.
    """

    per_sample: pd.DataFrame = field(default_factory=pd.DataFrame)
    held_out: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    confidence: pd.DataFrame = field(default_factory=pd.DataFrame)
    examples: Examples | None = None
    drawn: tuple[Panel, ...] = ()


def folder_of(root: Path, run_id: str) -> Path | None:
    """Return a run's folder, None if it is not there; a run id from somebody's CSV leads nowhere else."""
    folder = root / RUNS / run_id
    return folder if run_id not in ("", ".", "..") and Path(run_id).name == run_id and folder.is_dir() else None


def read(root: Path, run_id: str, protocol: str) -> RunFiles | None:
    """Return what a run's folder holds of the scores under a protocol, None if it is gone or holds another's.

    Raises:
        UserError: a file is damaged.
    """
    folder = folder_of(root, run_id)
    if folder is None or _protocol(folder) != protocol:
        return None
    per_sample = _table(folder / PER_SAMPLE, ("ssim", f"ssim_{protocol}"), ("label", "margin", "output", "candidate"))
    if "candidate" in per_sample:  # where none serves an image the file has the SSIM of the mean image
        per_sample["ssim"] = per_sample["ssim"].where(per_sample["candidate"] >= 0, 0.0)
    held_out = _table(folder / HELD_OUT, ("ssim",))
    confidence = _table(folder / CONFIDENCE, ("precision",), ("recall",))
    scores = held_out["ssim"].dropna().to_numpy(dtype=float) if len(held_out) else np.empty(0)
    return RunFiles(per_sample, scores, confidence, _examples(folder / EXAMPLES))


def _protocol(folder: Path) -> str:
    try:
        return str(json.loads((folder / RECORD).read_text(encoding="utf-8"))["protocol"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _table(path: Path, names: tuple[str, ...], more: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return a CSV's columns of numbers, the first of `names` that it has under `names[0]`; empty if it has none."""
    try:
        table = pd.read_csv(path)
        name = next((name for name in names if name in table), None)
        if name is None:
            return pd.DataFrame()
        kept = {names[0]: table[name]} | {column: table[column] for column in more if column in table}
        return pd.DataFrame({column: pd.to_numeric(values) for column, values in kept.items()})
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return pd.DataFrame()
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None


def _examples(path: Path) -> Examples | None:
    if not path.exists():
        return None
    try:
        tensors = load_file(path)
        parts = [_rgb(tensors[name]) for name in _TENSORS if name in tensors]
        ssim, image, group = tensors["ssim"], tensors["image"], tensors["group"]
        found = Examples(np.stack(parts, axis=1), ssim.astype(float), image.astype(int), group.astype(int))
        if not len(found.stacks) == len(ssim) == len(image) == len(group):
            raise ValueError("its tensors differ in length")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path, error) from None
    return found if len(ssim) else None


def _rgb(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return (k, C, H, W) as (k, H, W, 3), grey ones repeated."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or images.dtype != np.uint8:
        raise ValueError(f"images of shape {images.shape} and type {images.dtype}")
    return np.broadcast_to(images.transpose(0, 2, 3, 1), (*images.shape[:1], *images.shape[2:], 3))


def _damaged(path: Path, error: Exception) -> UserError:
    reason = one_line(str(error))
    return UserError(f"{path} cannot be read ({reason})")
