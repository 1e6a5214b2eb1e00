"""Differentially private training, as a frozen description. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat

from victims.frozen_model import FrozenModel, omitted_if_default

Share = Annotated[float, Field(gt=0, lt=1)]
SamplingRate = Annotated[Share | None, omitted_if_default(None)]
"""q of Poisson sampling; None for none."""


class Privacy(FrozenModel):
    """Differentially private gradient descent: each record's gradient is clipped, the sum over the batch is noised.

    Noise N(0, (noise * clip)^2) is added to the sum of clipped gradients. Two data sets are neighbours when one holds a
    record more than the other (add or remove one, the number of records that the sum is divided by being public): the
    sum's sensitivity is `clip`. Where one record replaces another it is twice that, and so is the noise that is needed.

    Attributes:
        clip: largest Euclidean norm C of a record's gradient; the paper's is 1 on MNIST and 10 on CIFAR-10.
        epsilon: epsilon of the (epsilon, delta) to which the noise is calibrated, over all steps.
        delta: likewise, in (0, 1).
        sampling_rate: the probability with which each record is in a batch, whatever others are; None for all records
            in every batch.
    """

    clip: PositiveFloat = 1.0
    epsilon: Annotated[PositiveFloat, Field(allow_inf_nan=False)] = 10.0
    delta: Share = 1e-5
    sampling_rate: SamplingRate = None
