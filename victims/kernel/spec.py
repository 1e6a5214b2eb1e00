"""The description of a kernel machine and of how it is fitted. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from victims.frozen_model import FrozenModel, Recipe

Kernel = Literal["laplace", "gaussian"]
"""exp(-gamma ||z - x||) and exp(-gamma ||z - x||^2), with Euclidean norms."""
Model = Literal["ridge", "svc", "logistic", "density"]


class KernelSpec(FrozenModel):
    """A kernel machine f_c(z) = sum_i A_ic k(z, x_i) + b_c of its training images x_i.

    Attributes:
        model: kernel ridge regression on one-hot classes, one support vector classifier a class, kernel logistic
            regression, or one kernel density a class, whose logarithm is answered.
        kernel: k.
        outputs: C; one output tells two classes apart, or is the density of all images. A logistic regression has one
            output for two classes.
        biases: "all": each output has one.
        uncovered: why attacks on layers do not apply.
        homogeneous: not: its images and its width are no weights to scale.
    """

    uncovered: ClassVar[str] = "a kernel machine has no layers, it stores its training images"
    homogeneous: ClassVar[bool] = False

    kind: Literal["kernel"] = "kernel"
    model: Model = "ridge"
    kernel: Kernel = "laplace"
    outputs: PositiveInt = 1
    biases: Literal["all"] = "all"

    @model_validator(mode="after")
    def _has_its_outputs(self) -> KernelSpec:
        if self.model == "logistic" and self.outputs == 2:
            raise ValueError("kernel logistic regression tells two classes apart by one output: set outputs=1")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"kernel {self.model}, {self.kernel}"


class KernelFit(Recipe):
    """The fit of a kernel machine by scikit-learn, on images in [0, 1] of which no mean is subtracted.

    Attributes:
        gamma: the kernel's inverse width.
        penalty: lambda of the penalty (lambda / 2) ||f||^2 in the kernel's norm; a support vector classifier and a
            logistic regression have C = 1 / lambda. A density has none.
    """

    kind: Literal["kernel"] = "kernel"
    gamma: PositiveFloat = 0.15
    penalty: Annotated[float, Field(gt=0)] = 1e-3
    dtype: Literal["float64"] = "float64"
    weight_decay: ClassVar[float] = 0.0

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"scikit-learn, gamma {self.gamma:g}, penalty {self.penalty:g}"
