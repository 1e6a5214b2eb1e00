"""Your own model as a victim: a torch module, its trained weights, and images that it was trained on.

Nothing is trained and nothing is unpickled: weights are safetensors, or a torch file that holds tensors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import getsourcefile
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from victims.base import Victim
from victims.card import describe
from victims.datasets import RawDataset, Split
from victims.datasets.sources import load_own
from victims.equations.recognition import NotCoveredError, architecture_of, relu_network_of
from victims.errors import UserError
from victims.files import sha256_file
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import KernelSpec
from victims.source import tree_sha256
from victims.spec import Loss, ModuleSpec, NetworkSpec, Released, VictimSpec

Shape = tuple[int, int, int]


def released(
    name: str,
    *,
    network: Callable[[], nn.Module],
    weights: Path | str,
    images: Path | str | None = None,
    mean: float | Sequence[float] | Literal["training"] = 0.0,
    std: float | Sequence[float] = 1.0,
    loss: Loss = "cross-entropy",
    weight_decay: float = 0.0,
    n_trained: int | None = None,
    initial: Path | str | None = None,
    shape: Shape | None = None,
) -> VictimSpec:
    """Describe a model of your own, for the `VICTIMS` of a plug-in file.

    Args:
        name: its name on the command line.
        network: builds the module that takes inputs (n, C, H, W) and returns (n,), (n, 1) or (n, C) outputs, no
            softmax. Linear layers and ReLUs, with or without a convolution in front, in any module whose forward
            torch.fx can follow, are open to the attacks on layers (`victims.equations.recognition`), any other module
            to the attacks that need its outputs and gradients alone.
        weights: its state dict: .safetensors, or a file of torch.save that holds tensors alone.
        images: an .npz with train_images (n, H, W) or (n, H, W, 3), uint8 or floats in [0, 1], and train_labels (n,),
            classes from 0: all images that it was trained on, or some of them. test_images and test_labels, if given,
            are images that it was not trained on: they serve as null controls and as the shadow pool. None if there
            are none at hand: then `audit` shows candidates and verifies nothing, and `run`, which scores, is refused.
        mean: an input is (image - mean) / std, of an image in [0, 1]: a number, one a channel, or "training", the
            per-pixel mean of the images given.
        std: a number, or one a channel.
        loss: the loss that it was trained with.
        weight_decay: the weight decay that it was trained with, 0 for none.
        n_trained: the number of images that it was trained on, if `images` holds only some, or is None.
        initial: the state dict that its training started from, such as the public checkpoint that was fine-tuned, for
            attacks that need `initial weights`; None if it is not known.
        shape: (C, H, W) of an input, C = 1 or 3, if `images` is None.

    Raises:
        UserError: a file is missing or malformed, the module does not take the images, or without them what they would
            tell is not given.
    """
    weights = Path(weights).expanduser().absolute()
    dataset = "" if images is None else str(Path(images).expanduser().absolute())
    _require_told(name, dataset, shape, mean, n_trained)
    raw = _raw(dataset, shape)
    start = None if initial is None else Path(initial).expanduser().absolute()
    for file in (weights, *([] if start is None else [start])):
        if not file.is_file():
            raise UserError(f"victim {name}: there are no weights at {file}")
    input_shape = raw.train_images.shape[1:]
    try:
        built = network()
    except OSError as error:  # such as a download of weights
        hint = "build the module without loading anything, its weights come from the file"
        raise UserError(f"victim {name}: `network` failed ({' '.join(str(error).split())}); {hint}") from None
    architecture, source = _architecture(name, built, input_shape), getsourcefile(network)
    classes = max(architecture.outputs, 2)
    for labels in (raw.train_labels, raw.test_labels):
        if len(labels) and labels.max() >= classes:
            raise UserError(
                f"{dataset} has the label {labels.max()}; {name} tells the classes 0 to {classes - 1} apart"
            )
    n = len(raw.train_labels)
    if n_trained is not None and n_trained < n:
        raise UserError(f"victim {name}: {dataset} holds {n} training images, more than n_trained = {n_trained}")
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
            initial_sha256=sha256_file(start) if start is not None else "",
            network=network,
            network_sha256=tree_sha256(Path(source).read_text(encoding="utf-8")) if source else "",
            mean="training" if mean == "training" else _channels(name, "mean", mean, input_shape[0]),
            std=_channels(name, "std", std, input_shape[0]),
            weight_decay=weight_decay,
            n_trained=n_trained or n,
            n_held_out=len(raw.test_labels),
            shape=shape,
        ),
    )


def load(spec: VictimSpec, dataset_sha256: str) -> Victim:
    """Load a released victim and measure it on the images given, if there are any.

    Raises:
        UserError: the weights cannot be read, changed since the plug-in was loaded, or are none of the network's.
    """
    training = spec.training
    assert isinstance(training, Released)
    assert training.network is not None
    raw = _raw(spec.dataset, training.shape)
    split, scale = _split(raw, training)
    shape = raw.train_images.shape[1:]
    model = _module(spec.name, training.network, training.weights, training.weights_sha256, shape)
    start = None
    if training.initial is not None:
        start = _module(spec.name, training.network, training.initial, training.initial_sha256, shape).state_dict()
    card = describe(
        spec,
        model,
        split,
        weights_sha256=training.weights_sha256,
        dataset_sha256=dataset_sha256,
        device=torch.device("cpu"),
        train_s=0.0,
    )
    if not (math.isfinite(card.train_loss) if spec.n else _finite_at_zero(model, shape)):
        raise UserError(f"victim {spec.name}: its outputs are not finite; do weights and normalisation fit?")
    return Victim(card, model, split, scale, start)


def _require_told(name: str, dataset: str, shape: Shape | None, mean: object, n_trained: int | None) -> None:
    """Check that what the images would tell is given where they are not, and the shape only there.

    Raises:
        UserError: it is not.
    """
    if dataset and shape is not None:
        raise UserError(f"victim {name}: `shape` is for a model without images; leave it out, {dataset} tells it")
    if dataset:
        return
    if shape is None or len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
        hint = "give shape=(C, H, W) of an input, C = 1 or 3, or `images`"
        raise UserError(f"victim {name}: no images are given; {hint}")
    if n_trained is None or n_trained < 1:
        raise UserError(f"victim {name}: no images are given; give n_trained, how many it was trained on, or `images`")
    if mean == "training":
        raise UserError(f"victim {name}: mean='training' is that of the images, and none are given; give numbers")


def _raw(dataset: str, shape: Shape | None) -> RawDataset:
    """Return the images given, or none of that shape."""
    if dataset:
        return load_own(Path(dataset))
    assert shape is not None
    images, labels = np.zeros((0, *shape), np.float32), np.zeros(0, np.int64)
    return RawDataset("", images, labels, images, labels)


def _module(name: str, network: Callable[[], nn.Module], weights: Path, sha256: str, shape: Shape) -> nn.Module:
    """Return the network with the weights of a file, float32, in evaluation mode.

    Raises:
        UserError: the weights cannot be read, changed since the plug-in was loaded, or are none of the network's.
    """
    state, module = _read_weights(weights), network().eval()
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"victim {name}: {weights} does not fit the network: {reason}") from None
    if sha256_file(weights) != sha256:
        raise UserError(f"victim {name}: {weights} changed while this ran; start again")
    return answering(module, shape).float()


@torch.no_grad()
def _finite_at_zero(model: nn.Module, shape: Shape) -> bool:
    return bool(model(torch.zeros(2, *shape)).isfinite().all())


def _split(raw: RawDataset, training: Released) -> tuple[Split, np.ndarray]:
    """Return all images given, as inputs of the network, and the pixels (C, 1, 1) that one unit of input stands for."""
    shape = raw.train_images.shape[1:]
    scale = np.array(training.std, np.float32).reshape(-1, 1, 1)
    if training.mean == "training":
        mean = raw.train_images.mean(axis=0, dtype=np.float64).astype(np.float32)
    else:
        mean = np.broadcast_to(np.array(training.mean, np.float32).reshape(-1, 1, 1), shape).copy()
    split = Split(
        inputs=(raw.train_images - mean) / scale,
        labels=raw.train_labels,
        indices=np.arange(len(raw.train_labels)),
        mean=mean,
        test_inputs=(raw.test_images - mean) / scale,
        test_labels=raw.test_labels,
    )
    return split, scale


def _architecture(name: str, module: object, shape: Shape) -> NetworkSpec:
    """Return what a module is."""
    if not isinstance(module, nn.Module):
        raise UserError(f"victim {name}: `network` returned {type(module).__name__}; expected a torch.nn.Module")
    try:
        model = answering(module.eval(), shape)
        with torch.no_grad():
            outputs = model(torch.zeros(2, *shape))
    except (RuntimeError, TypeError, ValueError) as error:
        reason = f"(n, {', '.join(map(str, shape))}): {' '.join(str(error).split())}"
        raise UserError(f"victim {name}: the network does not take inputs of shape {reason}") from None
    if not isinstance(outputs, Tensor) or outputs.ndim > 2 or len(outputs) != 2:
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"victim {name}: the network answers 2 inputs with {found}; expected (2,), (2, 1) or (2, C)")
    if isinstance(module, KernelMachine):
        return KernelSpec(model=module.model, kernel=module.kernel, outputs=len(module.intercept))
    try:
        return architecture_of(relu_network_of(module, shape))
    except NotCoveredError as error:
        classes = 1 if outputs.ndim == 1 else outputs.shape[1]
        return ModuleSpec(name=type(module).__name__, outputs=classes, uncovered=str(error))


def answering(module: nn.Module, shape: Shape) -> nn.Module:
    """Return the plain network that the module is, or the module itself, answering (n,) where it has one output."""
    try:
        return relu_network_of(module, shape)
    except NotCoveredError:
        module.register_forward_hook(_one_output)
        return module


def _one_output(module: nn.Module, inputs: object, outputs: object) -> object:
    single = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] == 1
    return outputs[:, 0] if single else outputs  # type: ignore[index]


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Return a state dict of real numbers, also one that lies under the key "state_dict".

    Raises:
        UserError: the file cannot be read, or holds none.
    """
    try:
        own = path.suffix == ".safetensors"
        state = load_file(path) if own else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read as safetensors ({' '.join(str(error).split())})") from None
    except Exception:  # what a broken file makes torch.load raise is not documented
        raise UserError(f"{path} is no torch file of tensors alone; save model.state_dict(), as safetensors") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError(f"{path} holds no state dict; save model.state_dict(), best as safetensors")
    if strange := [name for name, value in state.items() if value.is_complex()]:
        raise UserError(f"{path} holds complex numbers in {strange[0]}; expected real weights")
    return state


def _channels(name: str, what: str, given: float | Sequence[float], channels: int) -> tuple[float, ...]:
    values = (float(given),) * channels if isinstance(given, int | float) else tuple(map(float, given))
    if len(values) != channels or not all(map(math.isfinite, values)) or (what == "std" and min(values) <= 0):
        positive = ", above 0" if what == "std" else ""
        raise UserError(f"victim {name}: {what} = {given!r}; expected a number{positive}, or {channels}, one a channel")
    return values
