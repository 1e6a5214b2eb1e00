"""Shadow models are trained once and kept, a part at a time: a training that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from victims.cache import cache_dir
from victims.errors import UserError
from victims.files import atomic, sha256_json
from victims.informed.networks import LabelledImages, Parameters
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec
from victims.informed.training import train_many

PART = 250
"""Shadows in a file."""


def train_shadows(
    architecture: DenseSpec | SmallCNNSpec,
    training: Descent,
    fixed: LabelledImages,
    extra: LabelledImages,
    start: Parameters | None,
    device: torch.device,
    report: Callable[[int, int], None],
    enough: Callable[[], bool] = lambda: False,
) -> Parameters:
    """Return k shadow models, each of the fixed set and one extra record, from the cache or else trained and cached.

    The name of a part in the cache is a hash of all that determines it, so more shadows of the same fixed set take the
    whole parts from there and train only the rest. Each model's own seed, for what is random, is its place among the k.

    Args:
        architecture: the architecture of all of them.
        training: the algorithm A.
        fixed: the records that they share.
        extra: the k records that tell them apart.
        start: the initial network that they share; None for one of each one's own.
        device: the device to compute on.
        report: called with the number of shadows that there are, and k.
        enough: called before each part but the first is trained; returns whether to leave out that and all later parts.

    Returns:
        The parameters (k, ...) by name, on `device`, or fewer than k, the first ones, after `enough`. The parameters of
        a model that diverged are not finite.

    Raises:
        UserError: the cache cannot be written, or arguments do not fit together.
    """
    folder, k = cache_dir() / "shadows", len(extra[0])
    common = [
        architecture.model_dump(),
        training.model_dump(),
        device.type,
        training.version,
        _digest(*fixed),
        "" if start is None else _digest(*start.values()),
    ]
    parts: list[Parameters] = []
    for first in range(0, k, PART):
        last = min(first + PART, k)
        records = extra[0][first:last], extra[1][first:last]
        file = folder / f"{sha256_json([*common, first, _digest(*records)])[:16]}.safetensors"
        part = _load(file)
        if part is None and parts and enough():
            break
        if part is None:

            def told(done: int, _: int, first: int = first) -> None:
                report(first + done, k)

            part = train_many(architecture, training, fixed, records, start, range(first, last), device, told)
            part = {name: value.cpu().contiguous() for name, value in part.items()}
            try:
                with atomic(file) as path:
                    save_file(part, path)
            except OSError as error:
                raise UserError(f"cannot keep shadow models in {folder} ({error.strerror})") from None
        report(last, k)
        parts.append(part)
    return {name: torch.cat([part[name] for part in parts]).to(device) for name in parts[0]}


def _load(file: Path) -> Parameters | None:
    """Return a part of the cache; a file that is torn is removed."""
    if not file.exists():
        return None
    try:
        found: Parameters = load_file(file)
    except SafetensorError:
        file.unlink()
        return None
    return found


def _digest(*tensors: torch.Tensor) -> str:
    """Return the hex SHA-256 of tensors' values."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
