"""What a victim is before it is trained: a frozen, hashable description. Imports no torch, so `list` is quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

Loss = Literal["cross-entropy", "l2", "l2.5", "huber"]


class Frozen(BaseModel):
    """A pydantic model that rejects unknown fields and cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MLPSpec(Frozen):
    """A fully connected ReLU network d-h1-...-C (Haim et al. 2022, Section 5; Buzaglo et al. 2023, Section 4).

    Attributes:
        hidden: widths of the hidden layers; none for the affine classifier.
        outputs: C; one output is a binary classifier or a regression.
        biases: "first" keeps the network positively homogeneous (a bias in layer 1 only); "all" is the paper's
            non-homogeneous variant, with biases in every hidden layer.
        first_layer_scale: standard deviation of layer 1's initial weights and biases (the paper's 1e-4);
            None for torch's standard initialisation. The other layers always start at the standard one.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (1000, 1000)
    outputs: PositiveInt = 1
    biases: Literal["first", "all"] = "first"
    first_layer_scale: PositiveFloat | None = 1e-4

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `mlp 1000-1000-1`."""
        if not self.hidden:
            return "affine"
        widths = "-".join(map(str, (*self.hidden, self.outputs)))
        return f"mlp {widths}{' +biases' if self.biases == 'all' else ''}"


class ConvSpec(Frozen):
    """A convolution, then fully connected layers, all ReLU: conv(k, C_out)-h1-...-C (Buzaglo et al. 2023, Section 5).

    Attributes:
        kernel: k, side of the square kernel; stride 1, no padding.
        channels: C_out.
        hidden: widths of the fully connected hidden layers.
        outputs: C; one output is a binary classifier or a regression.
        biases: "first", the convolution's alone; "all" is for released weights.
        first_layer_scale: as for `MLPSpec`.
    """

    kind: Literal["conv"] = "conv"
    kernel: PositiveInt = 3
    channels: PositiveInt = 32
    hidden: tuple[PositiveInt, ...] = (1000,)
    outputs: PositiveInt = 1
    biases: Literal["first", "all"] = "first"
    first_layer_scale: PositiveFloat | None = 1e-4

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `conv(3, 32)-1000-1`."""
        return f"conv({self.kernel}, {self.channels})-{'-'.join(map(str, (*self.hidden, self.outputs)))}"


class ModuleSpec(Frozen):
    """Any other torch module, for released weights: attacks see its outputs and gradients, and no layers.

    Attributes:
        name: its class.
        outputs: C; one output is a binary classifier or a regression.
        biases: "all": it is not taken for homogeneous.
    """

    kind: Literal["module"] = "module"
    name: str
    outputs: PositiveInt = 1
    biases: Literal["all"] = "all"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return self.name


NetworkSpec = MLPSpec | ConvSpec | ModuleSpec


class GradientDescent(Frozen):
    """The papers' recipe to the letter: plain (mini-batch) gradient descent on the mean loss.

    Attributes:
        lr: learning rate; no momentum, no schedule.
        epochs: passes over the training set.
        batch_size: None for full-batch descent.
        weight_decay: wd of the objective mean loss + (wd / 2) ||theta||^2, biases included, as torch's SGD has it.
    """

    kind: Literal["gd"] = "gd"
    lr: PositiveFloat = 0.01
    epochs: PositiveInt = 1_000_000
    batch_size: PositiveInt | None = None
    weight_decay: NonNegativeFloat = 0.0
    dtype: Literal["float32", "float64"] = "float64"

    @property
    def label(self) -> str:
        """Short text for tables."""
        batch = "full batch" if self.batch_size is None else f"batch {self.batch_size}"
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"GD lr {self.lr:g}, {self.epochs:g} epochs, {batch}{decay}"


class NormalizedDescent(Frozen):
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


class DecayedDescent(Frozen):
    """The accelerated recipe for weight decay: normalised descent to a stationary point of the whole objective.

    The objective is mean loss + (wd / 2) ||theta||^2, and there theta = sum_i l_i grad Phi(x_i) with
    l_i = -L'(Phi(x_i), y_i) / (n wd) (Buzaglo et al. 2023, Section 3).

    Attributes:
        weight_decay: wd, on weights and biases, coupled.
        steps: number of steps.
        rate: step relative to ||theta|| at the start and at the end, interpolated geometrically.
        momentum: weight of the old direction in the running average.
    """

    kind: Literal["decayed"] = "decayed"
    weight_decay: PositiveFloat = 1e-3
    steps: PositiveInt = 3000
    rate: tuple[PositiveFloat, PositiveFloat] = (3e-2, 1e-5)
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"normalised GD, {self.steps} steps, decay {self.weight_decay:g}"


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


class Released(Frozen):
    """No recipe: weights that were trained elsewhere. `victims.released.released` fills it in.

    Attributes:
        weights: file of the weights; the hash stands for it in the cache key.
        weights_sha256: its hex SHA-256.
        network: builds the module that the weights belong to.
        network_sha256: hex SHA-256 of the file that defines `network`.
        mean: what is subtracted from an image in [0, 1], a number a channel, or "training" for the per-pixel mean of
            the images given.
        std: what it is then divided by, a number a channel.
        dtype: what it is attacked in.
        weight_decay: that of the training, as far as it is known.
        n_trained: number of images that the network was trained on.
        n_held_out: number of images given that it was not trained on.
    """

    kind: Literal["released"] = "released"
    weights: Path
    weights_sha256: str
    network: Callable[[], Any] | None = Field(default=None, exclude=True, repr=False)
    network_sha256: str
    mean: tuple[float, ...] | Literal["training"]
    std: tuple[PositiveFloat, ...]
    dtype: Literal["float32"] = "float32"
    weight_decay: NonNegativeFloat = 0.0
    n_trained: PositiveInt
    n_held_out: int = 0

    @property
    def label(self) -> str:
        """Short text for tables."""
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"released weights{decay}"


class VictimSpec(Frozen):
    """Everything that determines a victim's weights, and what its paper reports of it.

    Attributes:
        name: `<dataset>-<architecture>-<n>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows.
        n: number of training images, balanced over the classes; of released weights, those that are at hand.
        loss: cross-entropy (with one output the logistic loss), or a regression of one output to targets of -1 and +1.
        seed: seed of the initialisation and of the mini-batches.
        twin: "untrained" is the network before training, "disjoint" the same recipe on the n images after the first n;
            a null control attacks them in the victim's place.
        reported_test_accuracy: the paper's figure for this victim, in [0, 1], shown beside the measured one.
    """

    setting: ClassVar[Literal["dataset"]] = "dataset"
    """All records are to be reconstructed; of a victim of the setting "informed" only one is not known."""

    name: str
    dataset: str
    n: PositiveInt
    architecture: Annotated[NetworkSpec, Field(discriminator="kind")] = MLPSpec()
    loss: Loss = "cross-entropy"
    training: Annotated[
        GradientDescent | NormalizedDescent | DecayedDescent | Regularised | Released, Field(discriminator="kind")
    ] = NormalizedDescent()
    seed: int = 1
    twin: Literal["", "untrained", "disjoint"] = ""
    reported_test_accuracy: float | None = None

    @model_validator(mode="after")
    def _is_trainable(self) -> VictimSpec:
        if self.loss != "cross-entropy" and self.architecture.outputs > 1:
            raise ValueError(f"the loss {self.loss} is a regression of one output, not of {self.architecture.outputs}")
        if self.loss != "cross-entropy" and self.training.kind == "normalized":
            raise ValueError(f"normalised descent follows the cross-entropy, not {self.loss}")
        if self.training.kind == "released":
            return self
        if self.architecture.kind != "mlp" and self.architecture.biases == "all":
            raise ValueError(f"no recipe trains {self.architecture.label}; give its weights, see victims.released")
        if self.architecture.biases == "all" and self.training.kind == "decayed":
            raise ValueError("decayed descent needs a homogeneous network: a bias in layer 1 alone")
        plain = self.loss == "cross-entropy" and self.architecture.kind == "mlp" and self.architecture.outputs == 1
        if self.training.kind == "regularised" and not plain:
            raise ValueError("the regularised minimum is that of a binary classifier without convolution")
        return self

    @property
    def n_classes(self) -> int:
        """The number of classes: one output tells two apart."""
        return max(self.architecture.outputs, 2)

    @property
    def n_targets(self) -> int:
        """The number of records to be reconstructed: all."""
        return self.n

    @property
    def groups(self) -> tuple[tuple[int, ...], ...] | None:
        """The labels that make up each class: the first C labels, or None for the papers' binary problem."""
        outputs = self.architecture.outputs
        return None if outputs == 1 else tuple((label,) for label in range(outputs))

    @property
    def weight_decay(self) -> float:
        """The decay that the recipe has, 0 if none."""
        return 0.0 if isinstance(self.training, NormalizedDescent) else self.training.weight_decay

    @property
    def n_trained(self) -> int:
        """The number of images that it was trained on, `n` of which are at hand."""
        return self.training.n_trained if isinstance(self.training, Released) else self.n

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine the weights, for the cache key."""
        return self.model_dump(exclude={"name": True, "reported_test_accuracy": True, "training": {"weights"}})

    def as_twin(self, kind: Literal["untrained", "disjoint"]) -> VictimSpec:
        """Return the victim's twin of that kind."""
        return self.model_copy(update={"name": f"{self.name}~{kind}", "twin": kind, "reported_test_accuracy": None})
