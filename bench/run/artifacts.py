"""The files of one run, beside its record: reconstruction, trace and log from the attack, all else from its scoring."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.base import Reconstruction
from bench.scoring.evaluation import Evaluation, Reference
from bench.scoring.matching import nearest_neighbours
from bench.store.cells import to_csv
from bench.store.file_names import CONFIDENCE, EXAMPLES, GRID, HELD_OUT, LOG, PER_SAMPLE, RECONSTRUCTION, TRACE
from bench.store.picture import grid
from bench.store.tensors import DamagedError, read_tensors, write_tensors
from bench.terminal.text import one_line
from victims.base import Victim
from victims.cache import DAMAGED
from victims.deletion.victim import DeletionVictim
from victims.equations.losses import margins
from victims.errors import UserError
from victims.files import set_aside
from victims.informed.victim import AnyVictim

PICTURED = "n_good_haim_min"
"""The count whose pairs the picture shows: one candidate an image, as in the figures of Haim et al. 2022."""
LOG_END = 500_000
"""Bytes that a log keeps of the beginning of a run's output, and as many of its end."""
SHOWN = 6
"""Reconstructions that are kept for the report: as many of the best, of the median and of the worst."""


def named_tensors(reconstruction: Reconstruction) -> dict[str, Tensor]:
    """Return the tensors that an attack returned, by name, candidates as float32."""
    tensors = {
        "candidates": reconstruction.candidates.float(),
        "labels": reconstruction.labels,
        "coefficients": reconstruction.coefficients,
        "confidence": reconstruction.confidence,
    }
    return {name: value for name, value in tensors.items() if value is not None}


class UnreadableError(UserError):
    """The stored reconstruction of a run is missing, damaged or of another victim: the attack must run again.

    Args:
        cause: what is the matter with it, without what is to be done.
        command: makes it again.
    """

    def __init__(self, cause: str, command: str) -> None:
        super().__init__(cause, command)
        self.cause, self.command = cause, command

    def __str__(self) -> str:
        """Return one line for whoever cannot attack again."""
        return f"{self.cause}; `{self.command}` makes it again"


def write_reconstruction(folder: Path, reconstruction: Reconstruction) -> None:
    """Write what an attack returned, reconstruction.safetensors."""
    resolved = {"resolved": json.dumps(reconstruction.resolved)}
    write_tensors(folder / RECONSTRUCTION, named_tensors(reconstruction), resolved)


def read_reconstruction(folder: Path) -> Reconstruction:
    """Return what an attack returned. A damaged run is set aside, so that `run` makes it again.

    Args:
        folder: RESULTS/runs/RUN_ID.

    Raises:
        UnreadableError: the file is missing or damaged.
    """
    path = folder / RECONSTRUCTION
    try:
        tensors, metadata = read_tensors(path)
        resolved = json.loads(metadata.get("resolved", "{}"))
        return Reconstruction(**{**tensors, "resolved": resolved})
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read ({one_line(str(error))})", "run --force") from None
    except (DamagedError, ValueError, TypeError) as error:
        aside = set_aside(folder, folder.parents[1] / DAMAGED)
        cause = f"{path} is damaged ({one_line(str(error))}); the run is set aside as {aside}"
        raise UnreadableError(cause, "run") from None


def write_trace(folder: Path, trace: list[dict[str, float]]) -> None:
    """Write an attack's figures over time, trace.csv."""
    _csv(pd.DataFrame(trace) if trace else pd.DataFrame(columns=["step", "wall_s"]), folder / TRACE)


def write_scores(
    folder: Path, victim: AnyVictim, reference: Reference, evaluation: Evaluation, title: str, chance: float | None
) -> None:
    """Write per_sample.csv, held_out.csv, confidence.csv if the attack gave a confidence, and pictures of images.

    The pictures are examples.safetensors and grid.png; rows of a table have none.

    Args:
        folder: the run's.
        victim: the victim that was attacked.
        reference: what the candidates were scored against.
        evaluation: their scores.
        title: names the run in the heading of grid.png, before its count.
        chance: what the strictest null control gets, which stands beside the count; None where none ran.
    """
    _csv(_per_sample(victim, reference, evaluation), folder / PER_SAMPLE)
    _csv(pd.DataFrame({"ssim": evaluation.held_out.numpy()}), folder / HELD_OUT)
    if (curve := evaluation.confidence) is not None:
        columns = {name: getattr(curve, name).numpy() for name in ("confidence", "hit", "precision", "recall")}
        _csv(pd.DataFrame(columns), folder / CONFIDENCE)
    if reference.tabular:
        return
    write_tensors(folder / EXAMPLES, _examples(reference, evaluation))
    shown = evaluation.by_column.get(PICTURED, evaluation.row)
    beside = "" if chance is None else f", chance {chance:.3g}"
    grid(
        folder / GRID,
        reference.truth.images,
        shown.reconstruction,
        shown.ssim,
        title=f"{title}: {evaluation.row.n_good} of {len(shown.ssim)} good{beside} ({evaluation.row.protocol.name})",
    )


def _per_sample(victim: AnyVictim, reference: Reference, evaluation: Evaluation) -> pd.DataFrame:
    """Return one row a training image: where it is, the model's output (for its class) and margin, and its scores."""
    row = evaluation.row
    table = _outputs(victim) if isinstance(victim, Victim) else pd.DataFrame({"label": victim.split.targets.labels})
    table["good"], table["ssim"] = row.good.numpy(), row.ssim.numpy()
    if row.protocol.good == "columns":
        table["right_columns"] = row.similarity.numpy()
    for scores in evaluation.by_column.values():
        table[f"ssim_{scores.protocol.name}"] = scores.ssim.numpy()
    for name, value in evaluation.values.items():
        table[name] = value.numpy()
    table["candidate"], table["voters"] = row.candidate.numpy(), row.voters.numpy()
    table["oracle_mse"] = evaluation.nearest_known_mse.numpy()
    if isinstance(victim, DeletionVictim):
        for name, images in _beside_a_deletion(reference, row.reconstruction).items():
            table[name] = F.cosine_similarity(images.flatten(1), reference.truth.images.flatten(1)).numpy()
    return table


def _beside_a_deletion(reference: Reference, reconstruction: Tensor) -> dict[str, Tensor]:
    """Return the images whose cosines with the deleted ones Bertran et al. 2024 compare, by column.

    The cosines are not centred, so that the mean of all public images is near to everything: it is the paper's
    baseline. The public image that is nearest to the deleted one is a stricter one.
    """
    images = reference.truth.images
    nearest = reference.held_out[nearest_neighbours(images, reference.held_out)[1]]
    mean = reference.held_out.mean(0).expand_as(images)
    return {"cosine": reconstruction, "cosine_public_mean": mean, "cosine_public_nearest": nearest}


def _outputs(victim: Victim) -> pd.DataFrame:
    """Return where the training images are, their labels, and the model's output (for the class) and margin."""
    split = victim.split
    labels = torch.from_numpy(split.labels)
    with torch.no_grad():
        outputs = victim.model(torch.from_numpy(split.inputs))
    own = outputs if outputs.ndim == 1 else outputs.gather(1, labels[:, None])[:, 0]
    table = pd.DataFrame({"index": split.indices, "label": split.labels, "output": own.numpy()})
    table["margin"] = margins(outputs, labels).numpy()
    return table


def _examples(reference: Reference, evaluation: Evaluation) -> dict[str, Tensor]:
    """Return the best, median and worst reconstructions beside their training and nearest held-out images, as bytes.

    Images that no candidate serves, which the mean image stands for, come last. `group` is 0 for the best, 1 for the
    median, 2 for the worst; `ssim` is the SSIM of the row's protocol.
    """
    row, images = evaluation.row, reference.truth.images
    order = row.ssim.where(row.found, -torch.inf).argsort(descending=True, stable=True)
    size = min(SHOWN, len(order) // 3) or 1
    middle = (len(order) - size) // 2
    groups = [order[:size], order[middle : middle + size], order[len(order) - size :]]
    chosen = torch.cat(groups)
    tensors = {"reconstruction": row.reconstruction[chosen], "truth": images[chosen]}
    if len(reference.held_out):
        tensors["nearest_held_out"] = reference.held_out[nearest_neighbours(images[chosen], reference.held_out)[1]]
    pixels = {name: value.mul(255).round().byte().contiguous() for name, value in tensors.items()}
    group = torch.arange(len(groups)).repeat_interleave(size)
    return pixels | {"image": chosen.contiguous(), "ssim": row.ssim[chosen].contiguous(), "group": group}


def write_log(folder: Path, output: int | None, details: str) -> Path | None:
    """Write log.txt: the output of a run (of a long one its beginning and its end), then `details`.

    Args:
        folder: the run's.
        output: descriptor of the file that it has printed into, None if nobody caught it.
        details: more lines.

    Returns:
        The file, None if there is nothing to write.
    """
    printed = b"" if output is None else b"".join(_ends(output, os.fstat(output).st_size))
    if not printed and not details:
        return None
    path = folder / LOG
    path.write_bytes(printed + details.encode("utf-8", "backslashreplace"))
    return path


def _ends(output: int, size: int) -> Iterator[bytes]:
    if size <= 2 * LOG_END:
        yield os.pread(output, size, 0)
        return
    yield os.pread(output, LOG_END, 0)
    yield f"\n[{size - 2 * LOG_END} bytes left out]\n".encode()
    yield os.pread(output, LOG_END, size - LOG_END)


def _csv(table: pd.DataFrame, path: Path) -> None:
    path.write_text(to_csv(table), encoding="utf-8")
