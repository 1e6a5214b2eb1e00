"""The recipes by which victims are trained, as frozen, hashable descriptions. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from victims.frozen_model import FrozenModel, Recipe

StopLoss = Annotated[PositiveFloat | None, Field(exclude_if=lambda loss: loss is None)]
"""A mean loss at which training ends; not described where there is none, so that keys without it stay what they are."""
Share = Annotated[float, Field(gt=0, lt=1)]
SamplingRate = Annotated[Share | None, Field(exclude_if=lambda rate: rate is None)]
"""q of Poisson sampling; likewise not described where there is none."""


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
    """

    kind: Literal["normalized"] = "normalized"
    steps: PositiveInt = 2500
    rate: tuple[PositiveFloat, PositiveFloat] = (1e-2, 1e-4)
    margin: PositiveFloat = 10.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    stop_loss: StopLoss = None
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
    """

    kind: Literal["decayed"] = "decayed"
    weight_decay: PositiveFloat = 1e-3
    steps: PositiveInt = 3000
    rate: tuple[PositiveFloat, PositiveFloat] = (3e-2, 1e-5)
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    corners: tuple[PositiveFloat, ...] = ()
    iterations: PositiveInt = 600
    stop_loss: StopLoss = None
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def label(self) -> str:
        """Short text for tables."""
        ending = ", L-BFGS on rounded kinks" if self.corners else ""
        return f"normalised GD, {self.steps} steps, decay {self.weight_decay:g}{ending}"


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


class Released(Recipe):
    """No recipe: weights that were trained elsewhere. `victims.released.released` fills it in.

    Attributes:
        weights: file of the weights; the hash stands for it in the cache key.
        weights_sha256: its hex SHA-256.
        network: builds the module that the weights belong to.
        initial: file of the weights that its training started from, None if they are not known.
        initial_sha256: its hex SHA-256, empty without.
        network_sha256: hex SHA-256 of the syntax tree of the file that defines `network`.
        mean: what is subtracted from an image in [0, 1], a number a channel, or "training" for the per-pixel mean of
            the images given; of a row in the table's units, a number a column.
        std: the divisor after that, a number for each channel, or column.
        dtype: the precision in which it is attacked.
        weight_decay: that of the training, as far as it is known.
        n_trained: number of images that the network was trained on.
        n_held_out: number of images given that it was not trained on.
        shape: (C, H, W) of an input where no images are given, which else tell it.
        columns: those of a table that it is given, in order; empty for images.
        label_column: the table's column of classes.
        held_out: file of a table's held-out rows, None for none; the hash stands for it in the cache key.
        held_out_sha256: its hex SHA-256, empty without.
        class_balance: the share of each class where no data are given, which else tell it; empty if it is not known.
    """

    young: ClassVar[frozenset[str]] = frozenset(
        {"shape", "columns", "label_column", "held_out", "held_out_sha256", "class_balance"}
    )

    kind: Literal["released"] = "released"
    weights: Path
    weights_sha256: str
    initial: Path | None = None
    initial_sha256: str = ""
    network: Callable[[], Any] | None = Field(default=None, exclude=True, repr=False)
    network_sha256: str
    mean: tuple[float, ...] | Literal["training"]
    std: tuple[PositiveFloat, ...]
    dtype: Literal["float32"] = "float32"
    weight_decay: NonNegativeFloat = 0.0
    n_trained: PositiveInt
    n_held_out: int = 0
    shape: tuple[PositiveInt, PositiveInt, PositiveInt] | None = None
    columns: tuple[str, ...] = ()
    label_column: str = ""
    held_out: Path | None = None
    held_out_sha256: str = ""
    class_balance: tuple[NonNegativeFloat, ...] = ()

    @property
    def label(self) -> str:
        """Short text for tables."""
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"released weights{decay}"


class Interpolation(Recipe):
    """The end of gradient descent on the squared error of the last layer alone, in closed form; the start is kept.

    It is the interpolating layer nearest to its start: W = W(0) + (Y - W(0) Phi') (Phi Phi')^-1 Phi, Phi (n, p) being
    the features of the training images and Y (C, n) one-hot targets, or -1 and +1 for one output.
    """

    kind: Literal["interpolation"] = "interpolation"
    weight_decay: Literal[0] = 0
    dtype: Literal["float64"] = "float64"
    label: ClassVar[str] = "least squares in the last layer"


class Pretraining(FrozenModel):
    """What a network learns before it is fine-tuned: the dataset's images that neither it nor its twin is tuned on.

    Attributes:
        epochs: passes over them.
        lr: learning rate of SGD with momentum 0.9, constant.
        batch_size: of the batches, shuffled every epoch.
    """

    epochs: PositiveInt = 15
    lr: PositiveFloat = 0.01
    batch_size: PositiveInt = 64


class Ordinary(Recipe):
    """A loop over torch.optim as people write it; the start is torch's own, or a pre-trained network, and it is kept.

    Attributes:
        inputs: "standardised" are (x - mean) / std a channel, over all training images of the dataset; "raw" are pixels
            in [0, 1].
        optimiser: of torch.optim.
        lr: learning rate at the first step.
        momentum: SGD's alone.
        batch_size: of the batches, shuffled every epoch.
        epochs: the most passes over the training set.
        weight_decay: as torch's optimisers have it: decoupled for AdamW, in the gradient for the others.
        schedule: of the learning rate: "cosine" falls to 0, "step" by ten after half of the steps and after three
            quarters.
        clip: largest norm of a batch's gradient; None for no clipping.
        stop_loss: training ends after an epoch whose mean loss is below it; None for no early stop.
        privacy: every record's gradient is clipped, and the sum noised, all records being in one batch; None for none.
        pretraining: where the start comes from; None for torch's default initialisation after
            `torch.manual_seed(seed)`.
        last_layers: train so many of the last layers alone; None for all of them.
        lora_rank: train B_l A_l of this rank r beside each frozen W_l (Hu et al. 2022, LoRA); what is released is
            W_l + B_l A_l. A_l (r, h_{l-1}) starts as torch starts a layer, B_l (h_l, r) at zero, and the biases stay.
            None to train the weights themselves.
        snapshots: epochs, rising, after which weights are released besides those at the end.
    """

    young: ClassVar[frozenset[str]] = frozenset({"inputs", "last_layers", "lora_rank", "snapshots"})

    kind: Literal["ordinary"] = "ordinary"
    inputs: Literal["standardised", "raw"] = "standardised"
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: PositiveFloat = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    batch_size: PositiveInt = 64
    epochs: PositiveInt = 300
    weight_decay: NonNegativeFloat = 5e-4
    schedule: Literal["constant", "cosine", "step"] = "cosine"
    clip: PositiveFloat | None = None
    stop_loss: PositiveFloat | None = None
    privacy: Annotated[Privacy | None, Field(exclude_if=lambda privacy: privacy is None)] = None
    pretraining: Pretraining | None = None
    last_layers: PositiveInt | None = None
    lora_rank: PositiveInt | None = None
    snapshots: tuple[PositiveInt, ...] = ()
    dtype: Literal["float32", "float64"] = "float32"

    @model_validator(mode="after")
    def _is_one_training(self) -> Ordinary:
        if self.last_layers is not None and self.lora_rank is not None:
            raise ValueError("low-rank updates are of all layers: set last_layers or lora_rank, not both")
        if list(self.snapshots) != sorted({*self.snapshots} & {*range(1, self.epochs)}):
            raise ValueError(f"snapshots are epochs that rise and lie before the last, {self.epochs}")
        if self.privacy is not None and self.stop_loss is not None:
            raise ValueError("a private training does not look at its loss to stop there")
        if self.privacy is not None and (self.last_layers is not None or self.lora_rank is not None):
            raise ValueError("private training is that of all layers: set neither last_layers nor lora_rank")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        name = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[self.optimiser]
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        tuned = ", from a checkpoint" if self.pretraining else ""
        part = f", last {self.last_layers} layers" if self.last_layers else ""
        part += f", LoRA of rank {self.lora_rank}" if self.lora_rank else ""
        private = f", epsilon {self.privacy.epsilon:g}" if self.privacy else ""
        kept = f", {len(self.snapshots)} snapshots" if self.snapshots else ""
        kept += ", raw inputs" if self.inputs == "raw" else ""
        return (
            f"{name} lr {self.lr:g}, {self.epochs} epochs, batch {self.batch_size}{decay}{private}{tuned}{part}{kept}"
        )
