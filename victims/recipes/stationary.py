"""The papers' recipes and those that end at a stationary point, as frozen descriptions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from victims.frozen_model import Recipe, omitted_if_default

StopLoss = Annotated[PositiveFloat | None, omitted_if_default(None)]
"""A mean loss at which training ends; None for none."""
StopResidual = Annotated[float | None, Field(gt=0, lt=1), omitted_if_default(None)]
"""A stationarity residual at which training ends; None for none."""
Share = Annotated[float, Field(gt=0, le=1)]
"""A share of a whole, in (0, 1]."""


class GradientDescent(Recipe):
    """The papers' recipe to the letter: plain (mini-batch) gradient descent on the mean loss.

    Attributes:
        lr: learning rate; no momentum, no schedule.
        epochs: passes over the training set.
        batch_size: None for full-batch descent.
        weight_decay: wd of the objective mean loss + (wd / 2) ||theta||^2, biases included, as torch's SGD has it.
        stop_loss: training ends after a step before which the loss of its batch was below it.
    """

    kind: Literal["gd"] = "gd"
    lr: PositiveFloat = 0.01
    epochs: PositiveInt = 1_000_000
    batch_size: PositiveInt | None = None
    weight_decay: NonNegativeFloat = 0.0
    stop_loss: StopLoss = None
    dtype: Literal["float32", "float64"] = "float64"

    @property
    def label(self) -> str:
        """Short text for tables."""
        batch = "full batch" if self.batch_size is None else f"batch {self.batch_size}"
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"GD lr {self.lr:g}, {self.epochs:g} epochs, {batch}{decay}"


class NormalizedDescent(Recipe):
    """The accelerated recipe: normalised gradient descent that reaches the KKT direction in thousands of steps.

    Each step is `rate * ||theta|| / ||g||` along g = sum_i softmax(-margin)_i y_i grad Phi(x_i), averaged over steps by
    `momentum`; theta is rescaled so that the smallest margin never exceeds `margin`. A fixed point satisfies the
    stationarity condition theta = sum_i lambda_i y_i grad Phi(x_i) with lambda_i proportional to exp(-margin_i)
    (Lyu & Li 2020; Haim et al. 2022, eqs. 2-5). With several classes the sums run over pairs of a sample and a rival
    class j, with margins Phi_y - Phi_j.

    Attributes:
        steps: number of steps.
        rate: relative step at the start and at the end, interpolated geometrically.
        margin: smallest margin held by rescaling; 10 gives a logistic loss of about 4e-6 at n = 500 on CIFAR, the
            value of Haim et al.'s Table 1.
        momentum: weight of the old direction in the running average.
        stop_loss: training ends after a step before which the mean loss was below it.
        stop_residual: training ends after a step at which `TrainState.residual` is below it.
    """

    kind: Literal["normalized"] = "normalized"
    steps: PositiveInt = 2500
    rate: tuple[PositiveFloat, PositiveFloat] = (1e-2, 1e-4)
    margin: PositiveFloat = 10.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    stop_loss: StopLoss = None
    stop_residual: StopResidual = None
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"normalised GD, {self.steps} steps"


class DecayedDescent(Recipe):
    """The accelerated recipe for weight decay: normalised descent to a stationary point of the whole objective.

    The objective is mean loss + (wd / 2) ||theta||^2, and there theta = sum_i l_i grad Phi(x_i) with
    l_i = -L'(Phi(x_i), y_i) / (n wd) (Buzaglo et al. 2023, Section 3).

    Attributes:
        weight_decay: wd, on weights and biases, coupled.
        steps: number of steps.
        rate: step relative to ||theta|| at the start and at the end, interpolated geometrically.
        momentum: weight of the old direction in the running average.
        corners: widths of the ReLU's rounded corner, relative to the size of a neuron's pre-activations, at each of
            which L-BFGS then goes on, to a stationary point on the kinks; none to end with the descent. For fully
            connected networks.
        iterations: largest number of L-BFGS iterations for each width.
        stop_loss: training ends after a step before which the mean loss was below it.
        stop_residual: training ends after a step at which `TrainState.residual` is below it.
        products: precision to which the factors of the descent's matrix products may be rounded; "bfloat16" is
            faster where the processor has units for it, and leads to other weights there.
    """

    kind: Literal["decayed"] = "decayed"
    weight_decay: PositiveFloat = 1e-3
    steps: PositiveInt = 3000
    rate: tuple[PositiveFloat, PositiveFloat] = (3e-2, 1e-5)
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    corners: tuple[PositiveFloat, ...] = ()
    iterations: PositiveInt = 600
    stop_loss: StopLoss = None
    stop_residual: StopResidual = None
    products: Annotated[Literal["float32", "bfloat16"], omitted_if_default("float32")] = "float32"
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def label(self) -> str:
        """Short text for tables."""
        ending = ", L-BFGS on rounded kinks" if self.corners else ""
        ending += ", bfloat16 products" if self.products == "bfloat16" else ""
        return f"normalised GD, {self.steps} steps, decay {self.weight_decay:g}{ending}"


class GramGaussNewton(Recipe):
    """The recipe for decayed regressions that ends nearest to a stationary point: Gauss-Newton steps.

    A normalised descent fits the targets. Each step then replaces every sample's loss by a square of the same slope,
    and minimises mean loss + (wd / 2) ||theta||^2 over what the samples' gradients span: a linear system of as many
    unknowns as there are samples (Cai et al. 2019, Gram-Gauss-Newton). The rest of theta changes no output to the first
    order, and each step forgets a share of it, as decay does.

    Attributes:
        weight_decay: wd, on weights and biases, coupled.
        descent: number of steps of `DecayedDescent` before.
        steps: number of Gauss-Newton steps.
        forgotten: share of the rest that the first step forgets, and the last; between them it falls geometrically.
    """

    kind: Literal["gram-gauss-newton"] = "gram-gauss-newton"
    weight_decay: PositiveFloat = 1e-3
    descent: PositiveInt = 300
    steps: PositiveInt = 600
    forgotten: tuple[Share, Share] = (0.5, 5e-6)
    dtype: Literal["float64"] = "float64"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"Gauss-Newton, {self.steps} steps, decay {self.weight_decay:g}"


class Regularised(Recipe):
    """The minimum of a training problem: mean logistic loss + (weight_decay / 2) ||theta||^2, by L-BFGS.

    All parameters are decayed, biases too. The affine classifier's minimum is unique, and where L-BFGS stops short of
    the tolerance Newton's method reaches it; a ReLU network's depends on its initialisation and, lying on the kinks of
    the ReLU, has no gradient that vanishes: it stops short of the tolerance.

    Attributes:
        weight_decay: weight decay in the convention of torch's optimisers.
        tolerance: training ends when ||gradient|| <= tolerance * weight_decay * ||theta||, which for a convex problem
            bounds the relative error of theta.
        steps: largest number of L-BFGS iterations.
    """

    kind: Literal["regularised"] = "regularised"
    weight_decay: PositiveFloat = 1e-2
    tolerance: PositiveFloat = 1e-6
    steps: PositiveInt = 2000
    dtype: Literal["float64"] = "float64"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"L-BFGS, weight decay {self.weight_decay:g}"


class Interpolation(Recipe):
    """The end of gradient descent on the squared error of the last layer alone, in closed form; the start is kept.

    It is the interpolating layer nearest to its start: W = W(0) + (Y - W(0) Phi') (Phi Phi')^-1 Phi, Phi (n, p) being
    the features of the training images and Y (C, n) one-hot targets, or -1 and +1 for one output.
    """

    kind: Literal["interpolation"] = "interpolation"
    weight_decay: Literal[0] = 0
    dtype: Literal["float64"] = "float64"
    label: ClassVar[str] = "least squares in the last layer"
