"""The torch network that a fitted scikit-learn estimator computes, so that it can be audited like any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from victims.errors import UserError
from victims.files import atomic
from victims.kernel.estimators import COVERED, is_kernel_machine, machine_of

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}
"""The modules of an MLPClassifier's activations, by its names for them."""
KEPT = ("support_vectors_", "_fit_X", "X_fit_", "X_train_")
"""Where kernel machines, Gaussian processes and neighbours keep the records that they were fitted to."""


def network_of(estimator: Any) -> nn.Module:
    """Return the network with the estimator's weights, whose outputs are its logits: (n, 1) for two classes.

    The inputs are flattened: an image (C, H, W) becomes a row of C H W numbers, channel by channel.

    Args:
        estimator: a fitted LogisticRegression or MLPClassifier; or a kernel machine, see
            `victims.kernel.estimators`, which stores its training images.

    Raises:
        UserError: it is another estimator, or not fitted.
    """
    if is_kernel_machine(estimator):
        return machine_of(estimator)
    weights, biases = _layers(estimator)
    activation = ACTIVATIONS[getattr(estimator, "activation", "relu")]
    steps: list[nn.Module] = [nn.Flatten()]
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.asarray(weight)))
            linear.bias.copy_(torch.from_numpy(np.broadcast_to(bias, len(weight)).copy()))
        steps += [linear] if place == len(weights) - 1 else [linear, activation()]
    return nn.Sequential(*steps)


def weights_of(estimator: Any, path: Path) -> Path:
    """Write the weights of `network_of` as safetensors, unless they stand there already, and return the path.

    Raises:
        UserError: it is no such estimator, or the file cannot be written.
    """
    state = {name: value.contiguous() for name, value in network_of(estimator).state_dict().items()}
    try:
        if path.exists() and _same(load_file(path), state):
            return path
        with atomic(path) as temporary:
            save_file(state, temporary)
    except OSError as error:
        raise UserError(f"cannot write the estimator's weights to {path} ({error.strerror})") from None
    return path


def _same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def _layers(estimator: Any) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
    """Return the weights (h_l, h_{l-1}) and biases (h_l,) of each layer."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline

    name = type(estimator).__name__
    if isinstance(estimator, Pipeline):
        hint = f"give its last step, {type(estimator[-1]).__name__}, and of a StandardScaler before it"
        raise UserError(f"Pipeline is not covered; {hint} mean=scaler.mean_, std=scaler.scale_")
    holder = getattr(estimator, "base_estimator_", estimator)  # a Gaussian process classifies by one inside
    if kept := [attribute for attribute in KEPT if hasattr(holder, attribute)]:
        told = f"it keeps training records as they are ({kept[0]})"
        raise UserError(f"{name} is not covered, and needs no attack: {told}")
    if not hasattr(estimator, "classes_"):
        raise UserError(f"{name} is not fitted, or classifies nothing; an audit takes fitted classifiers")
    if not np.array_equal(estimator.classes_, np.arange(len(estimator.classes_))):
        raise UserError(f"{name} has the classes {list(estimator.classes_)[:5]}; fit it on labels 0, 1, 2, ...")
    if isinstance(estimator, LogisticRegression):
        return [estimator.coef_], [estimator.intercept_]
    if isinstance(estimator, MLPClassifier) and estimator.activation in ACTIVATIONS:
        return [weight.T for weight in estimator.coefs_], estimator.intercepts_
    raise UserError(f"{name} is not covered; LogisticRegression is, MLPClassifier, and {COVERED}")
