"""The description of somebody's own model, checked as far as it can be before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from inspect import getsourcefile, isroutine
from pathlib import Path
from typing import Literal

import numpy as np
from torch import nn

from victims.errors import UserError
from victims.files import sha256_file
from victims.released.data import given
from victims.released.module import Shape, built_architecture, is_row
from victims.released.onnx_model import SUFFIX, onnx_module
from victims.source import tree_sha256
from victims.spec import Loss, Released, VictimSpec

Numbers = float | Sequence[float] | np.ndarray


def released(
    name: str,
    *,
    network: Callable[[], nn.Module] | None = None,
    weights: Path | str,
    images: Path | str | None = None,
    records: Path | str | None = None,
    label: str = "label",
    columns: Sequence[str] = (),
    held_out: Path | str | None = None,
    mean: Numbers | Literal["training"] = 0.0,
    std: Numbers = 1.0,
    loss: Loss = "cross-entropy",
    weight_decay: float = 0.0,
    crops: int = 0,
    n_trained: int | None = None,
    initial: Path | str | None = None,
    optimiser: Path | str | None = None,
    earlier: tuple[Path | str, Path | str] | None = None,
    snapshots: Sequence[Path | str] = (),
    shape: Shape | None = None,
    class_balance: Sequence[float] = (),
) -> VictimSpec:
    """Describe a model of your own, for the `VICTIMS` of a plug-in file.

    Args:
        name: its name on the command line.
        network: builds the module that takes inputs (n, C, H, W), or rows (n, d), and returns (n,), (n, 1) or (n, C)
            outputs, no softmax. Linear layers and ReLUs, with or without convolutions in front, in any module whose
            forward torch.fx can follow, are open to the attacks on layers (`victims.released.recognition`), a module
            with such a layer first or in its middle to those on this layer (`victims.released.tails`,
            `victims.released.fronts`), any other module to the attacks that need its outputs and gradients alone. None
            if `weights` is an ONNX model.
        weights: its state dict: .safetensors, or a file of torch.save that holds tensors alone, at its top level or as
            "state_dict", "model_state_dict" or "model"; or the whole model as an .onnx file, which needs the extra
            `onnx`.
        images: an .npz with train_images (n, H, W) or (n, H, W, 3), uint8 or floats in [0, 1], and train_labels (n,),
            classes from 0: all images that it was trained on, or some of them. test_images and test_labels, if given,
            are images that it was not trained on: they serve as null controls and as the shadow pool. None if there
            are none at hand: then `audit` shows candidates and verifies nothing, and `run`, which scores, is refused.
        records: of a model on a table, in the place of images: a CSV file with a line of column names and the rows
            that it was trained on, or some of them, in the units of the table.
        label: the column of their classes, whole numbers from 0.
        columns: the columns that the model is given, in that order; empty for all but the label, in the file's order.
        held_out: a CSV file of rows that it was not trained on, with the same columns.
        mean: an input is (image - mean) / std, of an image in [0, 1]: a number, one a channel, or "training", the
            per-pixel mean of the images given. Of a row likewise, in the units of the table, one number a column.
        std: a number, or one a channel, or a column.
        loss: the loss that it was trained with.
        weight_decay: the weight decay that it was trained with, 0 for none.
        crops: the most pixels by which random crops moved an image in its training, black beside it, 0 for none.
        n_trained: the number of images or rows that it was trained on, if only some are given, or none.
        initial: the state dict that its training started from, such as the public checkpoint that was fine-tuned, for
            attacks that need `initial weights`; None if it is not known. What it lacks of the last layer, or has in
            another shape, as where the head was replaced, is taken from `weights`.
        optimiser: what torch.save made of optimizer.state_dict() at the end of the training, or of a checkpoint that
            has it as "optimizer", "optimizer_state_dict" or "optimizer_states", if it lies beside the weights; for
            attacks that need the `optimiser's momentum`. None if it is not released.
        earlier: the weights and the optimiser's state, as `weights` and `optimiser` name those of the release, at an
            earlier point of the same training by SGD with momentum, Adam or AdamW, best an epoch before: attacks that
            need `training checkpoints` are told the sum of the gradients between the two points. It needs `optimiser`,
            and the weights of both points as the optimiser left them, no averages. None if there is none.
        snapshots: the weights alone, as `weights` names them, at earlier points of the same training, the earliest
            first, each as many steps after the one before, and the release after the last of them: attacks that need
            `weights on the way` are told of all. Two of them, each an epoch or a few apart, undo SGD's momentum, and
            three a moving average of the weights too. All are averages, or none is. Empty if there are none.
        shape: (C, H, W) of an input, C = 1 or 3, if no images are given; of a table `columns` are named instead.
        class_balance: the share of each class among what it was trained on, if neither images nor rows are given, which
            else tell it; empty if it is not known, and then no attack that needs it is run. Shares that were rounded
            are scaled to sum to 1.

    Raises:
        UserError: a file is missing or malformed, the module does not take the inputs, or what the data would tell is
            not given where they are not.
    """
    weights, start = _absolute(weights), None if initial is None else _absolute(initial)
    state = None if optimiser is None else _absolute(optimiser)
    before, state_before = _earlier(name, earlier, state)
    on_the_way = _on_the_way(name, snapshots)
    if images is not None and records is not None:
        raise UserError(f"victim {name}: give `images` or `records`, not both")
    if records is None and held_out is not None:
        raise UserError(f"victim {name}: `held_out` goes with `records`; images have theirs in the same file")
    source = images if records is None else records
    dataset, class_balance = "" if source is None else str(_absolute(source)), tuple(class_balance)
    if records is not None and not dataset.endswith(".csv"):
        raise UserError(f"victim {name}: records = {dataset}; expected a CSV file, NAME.csv")
    if records is None and columns:
        if shape is not None or images is not None:
            raise UserError(f"victim {name}: `columns` are those of a table, which has no `images` and no `shape`")
        shape = (1, 1, len(columns))
    _require_told(name, dataset, shape, mean, n_trained, class_balance, table=bool(columns))
    _require_files(name, (weights, start, before, *on_the_way), (state, state_before))
    hashes = tuple(map(sha256_file, on_the_way))
    _require_apart(name, (*on_the_way, weights), (*hashes, sha256_file(weights)))
    if network is None and weights.suffix != SUFFIX:
        raise UserError(f"victim {name}: give `network`, which builds the module of {weights}, or an .onnx file")
    build, apart = network or partial(onnx_module, weights), None if held_out is None else _absolute(held_out)
    data = given(dataset, shape, tuple(columns), label if records is not None else "", apart)
    input_shape = data.shape
    code = _source_of(name, network)
    architecture = built_architecture(name, build, input_shape)
    classes = max(architecture.outputs, 2)
    for labels in (data.raw.train_labels, data.raw.test_labels):
        if len(labels) and labels.max() >= classes:
            raise UserError(
                f"{dataset} has the label {labels.max()}; {name} tells the classes 0 to {classes - 1} apart"
            )
    if class_balance and len(class_balance) != classes:
        raise UserError(f"victim {name}: class_balance has {len(class_balance)} shares for {classes} classes")
    n, unit = len(data.raw.train_labels), "rows" if records is not None else "images"
    if n_trained is not None and n_trained < n:
        raise UserError(f"victim {name}: {dataset} holds {n} training {unit}, more than n_trained = {n_trained}")
    numbers, each = (input_shape[2], "column") if data.units is not None else (input_shape[0], "channel")
    return VictimSpec(
        name=name,
        dataset=dataset,
        n=n,
        architecture=architecture,
        loss=loss,
        training=Released(
            weights=weights,
            weights_sha256=sha256_file(weights),
            initial=start,
            initial_sha256=_sha256(start),
            state=state,
            state_sha256=_sha256(state),
            earlier=before,
            earlier_sha256=_sha256(before),
            earlier_state=state_before,
            earlier_state_sha256=_sha256(state_before),
            earlier_weights=on_the_way,
            earlier_weights_sha256=hashes,
            network=build,
            network_sha256=tree_sha256(Path(code).read_text(encoding="utf-8")) if code else "",
            mean="training" if _of_training(mean) else _one_each(name, "mean", mean, numbers, each),
            std=_one_each(name, "std", std, numbers, each),
            weight_decay=weight_decay,
            crops=crops,
            n_trained=n_trained or n,
            n_held_out=len(data.raw.test_labels),
            shape=shape,
            columns=() if data.units is None else data.units.columns,
            label_column=label if records is not None else "",
            held_out=apart,
            held_out_sha256=_sha256(apart),
            class_balance=tuple(share / math.fsum(class_balance) for share in class_balance),
        ),
    )


def _absolute(path: Path | str) -> Path:
    return Path(path).expanduser().absolute()


def _require_files(name: str, weights: Sequence[Path | None], states: Sequence[Path | None]) -> None:
    """Raise a UserError where a file of weights, or of an optimiser's state, is not there."""
    for what, files in (("are no weights", weights), ("is no optimiser's state", states)):
        for file in files:
            if file is not None and not file.is_file():
                raise UserError(f"victim {name}: there {what} at {file}")


def _sha256(path: Path | None) -> str:
    """Return the hash of a file, empty where there is none."""
    return "" if path is None else sha256_file(path)


def _earlier(name: str, earlier: object, state: Path | None) -> tuple[Path | None, Path | None]:
    """Return the files of an earlier point of the training, weights and state; `state` is the one at its end.

    Raises:
        UserError: it is no pair, as where one file holds both, or there is no state at the end.
    """
    if earlier is None:
        return None, None
    files = [one for one in earlier if isinstance(one, (str, Path))] if isinstance(earlier, (tuple, list)) else []
    if not isinstance(earlier, (tuple, list)) or len(earlier) != 2 or len(files) != 2:
        hint = "expected a pair of files, of the weights and of the optimiser's state, or the one that holds both twice"
        raise UserError(f"victim {name}: earlier = {earlier!r}; {hint}")
    if state is None:
        raise UserError(f"victim {name}: `earlier` needs `optimiser`, the state at the end of the same training")
    weights_before, state_before = map(_absolute, files)
    return weights_before, state_before


def _on_the_way(name: str, snapshots: object) -> tuple[Path, ...]:
    """Return the files of weights on the way, in their order; raises UserError where they are no list of files."""
    every = (snapshots,) if isinstance(snapshots, (str, Path)) else snapshots
    if not isinstance(every, (tuple, list)) or not all(isinstance(one, (str, Path)) for one in every):
        hint = "expected a list of files of weights, the earliest first"
        raise UserError(f"victim {name}: snapshots = {snapshots!r}; {hint}")
    return tuple(map(_absolute, every))


def _require_apart(name: str, files: Sequence[Path], hashes: Sequence[str]) -> None:
    """Raise a UserError where any two files of weights of one training hold the same."""
    for place, (file, sha256) in enumerate(zip(files, hashes, strict=True)):
        if sha256 in hashes[:place]:
            other = files[hashes.index(sha256)]
            raise UserError(f"victim {name}: {other} and {file} are the same weights; `snapshots` are earlier ones")


def _require_told(
    name: str,
    dataset: str,
    shape: Shape | None,
    mean: object,
    n_trained: int | None,
    class_balance: Sequence[float],
    table: bool,
) -> None:
    """Check the arguments that replace data: they are required without images or rows, and not allowed with them.

    Raises:
        UserError: one is missing, malformed, or given beside data.
    """
    if dataset:
        if shape is not None:
            raise UserError(f"victim {name}: `shape` is for a model without images; leave it out, {dataset} tells it")
        if class_balance:
            raise UserError(f"victim {name}: {dataset} tells the class balance; leave `class_balance` out")
        return
    what = "rows" if table else "images"
    instead = "`records`" if table else "`images`"
    if shape is None or len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1 or (is_row(shape) and not table):
        hint = "give shape=(C, H, W) of an input, C = 1 or 3, or `images`; of a table `columns`, or `records`"
        raise UserError(f"victim {name}: no images are given; {hint}")
    if n_trained is None or n_trained < 1:
        hint = f"give n_trained, how many it was trained on, or {instead}"
        raise UserError(f"victim {name}: no {what} are given; {hint}")
    if _of_training(mean):
        raise UserError(f"victim {name}: mean='training' is that of the {what}, and none are given; give numbers")
    if class_balance and not (min(class_balance) >= 0 and math.isclose(sum(class_balance), 1, abs_tol=1e-3)):
        raise UserError(f"victim {name}: class_balance = {tuple(class_balance)}; expected shares that sum to 1")


def _of_training(mean: object) -> bool:
    return isinstance(mean, str) and mean == "training"  # an array compares each of its numbers


def _one_each(name: str, what: Literal["mean", "std"], numbers: object, count: int, each: str) -> tuple[float, ...]:
    """Return `count` numbers, of one number copies; raises UserError for anything else."""
    positive, word = (", above 0", "") if what == "std" else ("", ", or 'training'")
    wanted = f"one number{positive}, for one {each}"
    if count > 1:
        wanted = f"a number{positive}, or {count}, one a {each}"
    mistake = UserError(f"victim {name}: {what} = {numbers!r}; expected {wanted}{word}")
    try:
        given = np.asarray(numbers).astype(float, casting="same_kind")  # which does not read words, as float does
    except (TypeError, ValueError):
        raise mistake from None
    values = tuple(given.ravel().tolist()) * (1 if given.ndim else count)
    if len(values) != count or not all(map(math.isfinite, values)) or (what == "std" and min(values) <= 0):
        raise mistake
    return values


def _source_of(name: str, network: Callable[[], nn.Module] | None) -> str | None:
    """Return the file of the function that builds the module, None if there is none; raises UserError for a module."""
    if isinstance(network, nn.Module) or not (network is None or callable(network)):
        kind = type(network).__name__
        raise UserError(f"victim {name}: `network` is to be a function that builds the module; it is a {kind}")
    function = network.func if isinstance(network, partial) else network
    if function is None:
        return None
    made = function if isroutine(function) or isinstance(function, type) else type(function)
    try:
        return getsourcefile(made)
    except TypeError:  # it is built in
        return None
