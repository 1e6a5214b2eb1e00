"""Differentially private training of an ordinary network: clipped gradients of all records and noise, at every step.

Abadi et al. 2016, with all records in every batch: the steps compose to one Gaussian mechanism, whose (epsilon, delta)
is known exactly for any epsilon. Momentum, schedule and weight decay come after the noise and cost no privacy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.devices.upload import uploaded
from victims.equations.architectures import MLP
from victims.informed.privacy import noise_multiplier
from victims.informed.private_descent import clipped_sum
from victims.informed.spec import DenseSpec
from victims.recipes import Privacy


class PrivateGradients:
    """Fills in the gradients of a network with the noised mean of its records' clipped ones.

    Args:
        model: a network of several outputs with biases in every layer.
        privacy: clip, epsilon and delta over all steps.
        steps: how many there will be.
        seed: of the noise.

    Raises:
        UserError: dp-accounting is not installed.
    """

    def __init__(self, model: MLP, privacy: Privacy, steps: int, seed: int) -> None:
        *hidden, outputs = (layer.out_features for layer in model.linears())
        self.model, self.architecture = model, DenseSpec(hidden=tuple(hidden), activation="relu", outputs=outputs)
        self.clip = privacy.clip
        self.deviation = privacy.clip * noise_multiplier(privacy, steps)
        self.generator = torch.Generator().manual_seed(seed)

    def fill(self, inputs: Tensor, labels: Tensor) -> None:
        """Set the gradients (sum of clipped gradients + N(0, deviation^2)) / n.

        Args:
            inputs: (n, C, H, W), all records.
            labels: (n,) class indices.
        """
        parameters = {name: value.detach() for name, value in self.model.named_parameters()}
        summed = clipped_sum(self.architecture, self.clip, parameters, inputs, labels)
        for name, parameter in self.model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=self.generator, dtype=parameter.dtype)
            noise = uploaded(drawn, parameter.device)
            parameter.grad = (summed[name] + self.deviation * noise) / len(labels)
