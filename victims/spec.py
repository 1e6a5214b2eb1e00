"""What a victim is before it is trained: a frozen, hashable description. Imports no torch, so `list` is quick."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt


class Frozen(BaseModel):
    """A pydantic model that rejects unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MLPSpec(Frozen):
    """A fully connected ReLU network d-h1-...-1 (Haim et al. 2022, Section 5).

    Attributes:
        hidden: widths of the hidden layers; none for the affine classifier.
        biases: "first" keeps the network positively homogeneous (a bias in layer 1 only); "all" is the paper's
            non-homogeneous variant, with biases in every hidden layer.
        first_layer_scale: standard deviation of layer 1's initial weights and biases (the paper's 1e-4);
            None for torch's standard initialisation. The other layers always start at the standard one.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (1000, 1000)
    biases: Literal["first", "all"] = "first"
    first_layer_scale: PositiveFloat | None = 1e-4

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `mlp 1000-1000-1`."""
        if not self.hidden:
            return "affine"
        return f"mlp {'-'.join(map(str, self.hidden))}-1{' +biases' if self.biases == 'all' else ''}"


class GradientDescent(Frozen):
    """The papers' recipe to the letter: plain (mini-batch) gradient descent on the mean logistic loss.

    Attributes:
        lr: learning rate; no momentum, no schedule, no weight decay.
        epochs: passes over the training set.
        batch_size: None for full-batch descent.
    """

    kind: Literal["gd"] = "gd"
    lr: PositiveFloat = 0.01
    epochs: PositiveInt = 1_000_000
    batch_size: PositiveInt | None = None
    dtype: Literal["float32", "float64"] = "float64"

    @property
    def label(self) -> str:
        """Short text for tables."""
        batch = "full batch" if self.batch_size is None else f"batch {self.batch_size}"
        return f"GD lr {self.lr:g}, {self.epochs:g} epochs, {batch}"


class NormalizedDescent(Frozen):
    """The accelerated recipe: normalised gradient descent that reaches the KKT direction in thousands of steps.

    Each step is `rate * ||theta|| / ||g||` along g = sum_i softmax(-margin)_i y_i grad Phi(x_i), averaged over steps by
    `momentum`; theta is rescaled so that the smallest margin never exceeds `margin`. A fixed point satisfies the
    stationarity condition theta = sum_i lambda_i y_i grad Phi(x_i) with lambda_i proportional to exp(-margin_i)
    (Lyu & Li 2020; Haim et al. 2022, eqs. 2-5).

    Attributes:
        steps: number of steps.
        rate: relative step at the start and at the end, interpolated geometrically.
        margin: smallest margin held by rescaling; 10 gives a logistic loss of about 4e-6 at n = 500 on CIFAR, the
            value of Haim et al.'s Table 1.
        momentum: weight of the old direction in the running average.
    """

    kind: Literal["normalized"] = "normalized"
    steps: PositiveInt = 2500
    rate: tuple[PositiveFloat, PositiveFloat] = (1e-2, 1e-4)
    margin: PositiveFloat = 10.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"normalised GD, {self.steps} steps"


class Regularised(Frozen):
    """The minimum of a training problem: mean logistic loss + (weight_decay / 2) ||theta||^2, by L-BFGS.

    All parameters are decayed, biases too. The affine classifier's minimum is unique; a ReLU network's depends on its
    initialisation and, lying on the kinks of the ReLU, has no gradient that vanishes: it stops short of the tolerance.

    Attributes:
        weight_decay: in the convention of torch's optimisers.
        tolerance: training ends when ||gradient|| <= tolerance * weight_decay * ||theta||, which for a convex problem
            bounds the relative error of theta.
        steps: the most L-BFGS iterations.
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


class VictimSpec(Frozen):
    """Everything that determines a victim's weights, and what its paper reports of it.

    Attributes:
        name: `<dataset>-<architecture>-<n>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows.
        n: number of training images, balanced over two classes.
        seed: seed of the initialisation and of the mini-batches.
        reported_test_accuracy: the paper's figure for this victim, in [0, 1], shown beside the measured one.
    """

    name: str
    dataset: str
    n: PositiveInt
    architecture: MLPSpec = MLPSpec()
    training: Annotated[GradientDescent | NormalizedDescent | Regularised, Field(discriminator="kind")] = (
        NormalizedDescent()
    )
    seed: int = 1
    reported_test_accuracy: float | None = None

    @property
    def weight_decay(self) -> float:
        """The weight decay of the training problem, 0 where there is none."""
        return getattr(self.training, "weight_decay", 0.0)

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine the weights, for the cache key."""
        return self.model_dump(exclude={"name", "reported_test_accuracy"})
