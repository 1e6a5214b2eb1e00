"""The networks that victims have, as frozen, hashable descriptions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from victims.frozen_model import FrozenModel, omitted_if_default
from victims.kernel.spec import KernelSpec


class MLPSpec(FrozenModel):
    """A fully connected ReLU network d-h1-...-C (Haim et al. 2022, Section 5; Buzaglo et al. 2023, Section 4).

    Attributes:
        hidden: widths of the hidden layers; none for the affine classifier.
        outputs: C; one output is a binary classifier or a regression.
        biases: "first" keeps the network positively homogeneous (a bias in layer 1 only); "all" is the paper's
            non-homogeneous variant, with biases in every hidden layer; "every" has one in the last layer too, as torch
            has by default.
        first_layer_scale: standard deviation of layer 1's initial weights and biases (the paper's 1e-4);
            None for torch's standard initialisation. The other layers always start at the standard one.
        uncovered: nothing: attacks see all its layers.
    """

    uncovered: ClassVar[str] = ""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[PositiveInt, ...] = (1000, 1000)
    outputs: PositiveInt = 1
    biases: Literal["first", "all", "every"] = "first"
    first_layer_scale: PositiveFloat | None = 1e-4

    @property
    def homogeneous(self) -> bool:
        """Whether scaling all weights and biases by c > 0 scales the outputs by a positive factor."""
        return self.biases == "first"

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `mlp 1000-1000-1`."""
        if not self.hidden:
            return "affine"
        widths = "-".join(map(str, (*self.hidden, self.outputs)))
        return f"mlp {widths}{'' if self.biases == 'first' else ' +biases'}"


class ConvSpec(FrozenModel):
    """Convolutions, then fully connected layers, all ReLU: conv(k, C_out)-h1-...-C (Buzaglo et al. 2023, Section 5).

    Attributes:
        kernel: k, side of the square kernel of every convolution; stride 1, no padding.
        channels: C_out of the convolution; of each, where there are several.
        hidden: widths of the fully connected hidden layers.
        outputs: C; one output is a binary classifier or a regression.
        biases: "first", the first convolution's alone; "all" is for released weights.
        first_layer_scale: as for `MLPSpec`.
        uncovered: nothing, as for `MLPSpec`.
    """

    uncovered: ClassVar[str] = ""

    kind: Literal["conv"] = "conv"
    kernel: PositiveInt = 3
    channels: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = 32
    hidden: tuple[PositiveInt, ...] = (1000,)
    outputs: PositiveInt = 1
    biases: Literal["first", "all"] = "first"
    first_layer_scale: PositiveFloat | None = 1e-4

    @property
    def each_channels(self) -> tuple[int, ...]:
        """C_out of each convolution."""
        return self.channels if isinstance(self.channels, tuple) else (self.channels,)

    @property
    def homogeneous(self) -> bool:
        """Whether scaling all weights and biases by c > 0 scales the outputs by a positive factor."""
        return self.biases == "first"

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `conv(3, 32)-1000-1`."""
        convolutions = (f"conv({self.kernel}, {channels})" for channels in self.each_channels)
        return "-".join((*convolutions, *map(str, (*self.hidden, self.outputs))))


class CNNSpec(FrozenModel):
    """Convolutions, each with batch normalisation and an activation, then fully connected layers, as people build them.

    Attributes:
        channels: of each convolution's output; kernel 3, padding 1.
        halved: what halves the sides at each convolution: its stride of 2, or max pooling behind it.
        activation: behind each layer but the last.
        hidden: widths of the fully connected hidden layers.
        outputs: C; one output is a binary classifier.
        biases: "every" layer has one.
        homogeneous: not, with biases behind the first layer.
    """

    homogeneous: ClassVar[bool] = False

    kind: Literal["cnn"] = "cnn"
    channels: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (32,)
    halved: Annotated[Literal["stride", "pooling"], omitted_if_default("stride")] = "stride"
    activation: Annotated[Literal["relu", "gelu", "tanh"], omitted_if_default("relu")] = "relu"
    hidden: tuple[PositiveInt, ...] = (500,)
    outputs: PositiveInt = 1
    biases: Literal["every"] = "every"

    @property
    def uncovered(self) -> str:
        """What it has that a sequence of linear layers and ReLUs has not."""
        front = "convolutions with padding, strides or pooling, and batch normalisation"
        return front if self.activation == "relu" else f"{front}, {self.activation} in the place of ReLUs"

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `cnn bn(32)-500-10`, or `cnn bn(32) pool gelu-500-10`."""
        halved = " pool" if self.halved == "pooling" else ""
        activation = "" if self.activation == "relu" else f" {self.activation}"
        widths = "-".join(map(str, (*self.hidden, self.outputs)))
        return f"cnn bn({', '.join(map(str, self.channels))}){halved}{activation}-{widths}"


class SmoothMLPSpec(FrozenModel):
    """A fully connected network with an activation other than the ReLU, as people build them.

    Attributes:
        hidden: widths of the hidden layers.
        activation: behind each of them.
        layer_norm: whether a layer normalisation (Ba et al. 2016) stands before each activation.
        outputs: C; one output is a binary classifier.
        biases: "every" layer has one.
        homogeneous: not, with biases behind the first layer.
    """

    homogeneous: ClassVar[bool] = False

    kind: Literal["smooth"] = "smooth"
    hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1000, 1000)
    activation: Literal["gelu", "tanh"] = "gelu"
    layer_norm: bool = False
    outputs: PositiveInt = 1
    biases: Literal["every"] = "every"

    @property
    def uncovered(self) -> str:
        """What it has that a sequence of linear layers and ReLUs has not."""
        return f"{self.activation} in the place of ReLUs{', and layer normalisation' if self.layer_norm else ''}"

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `mlp gelu 1000-1000-10`, or `mlp gelu ln 1000-1000-10`."""
        between = f"{self.activation}{' ln' if self.layer_norm else ''}"
        return f"mlp {between} {'-'.join(map(str, (*self.hidden, self.outputs)))}"


class ReleasedSpec(FrozenModel):
    """A torch module of somebody's own, for released weights, which is no sequence of linear layers and ReLUs.

    Attributes:
        name: its class.
        outputs: C; one output is a binary classifier or a regression.
        biases: "all": any layer may have one.
        uncovered: what it has that a sequence of linear layers and ReLUs has not.
        homogeneous: not taken for it.
    """

    homogeneous: ClassVar[bool] = False

    name: str
    outputs: PositiveInt = 1
    biases: Literal["all"] = "all"
    uncovered: str = Field(default="", exclude=True)


class FrontSpec(ReleasedSpec):
    """A module that ends in a hidden layer and more, fully connected, or has such a layer in its middle.

    What stands before them, its front, may be anything that torch.fx can follow: convolutions with pooling, padding or
    normalisation, residual blocks.

    Attributes:
        hidden: widths of the fully connected hidden layers; of the one, before a tail.
        tailed: whether what is behind the first of them may be anything as well, its tail, and not ReLUs and fully
            connected layers alone.
    """

    kind: Literal["front"] = "front"
    hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    tailed: Annotated[bool, omitted_if_default(False)] = False

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `Net front-120-84-10`, or `Net front-1280-tail-10`."""
        tail = ("tail",) if self.tailed else ()
        return f"{self.name} front-{'-'.join(map(str, (*self.hidden, *tail, self.outputs)))}"


class TailSpec(ReleasedSpec):
    """A module whose first layer is fully connected and sees the whole input.

    What is behind that layer, its tail, may be anything that torch.fx can follow: other activations, normalisation,
    dropout, residual blocks.

    Attributes:
        hidden: width of the first layer.
    """

    kind: Literal["tail"] = "tail"
    hidden: tuple[PositiveInt]

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `Net 1000-tail-10`."""
        return f"{self.name} {self.hidden[0]}-tail-{self.outputs}"


class ModuleSpec(ReleasedSpec):
    """Any other module: attacks see its outputs and gradients, and no layers."""

    kind: Literal["module"] = "module"

    @property
    def label(self) -> str:
        """Short text for tables."""
        return self.name


class RandomFeaturesSpec(FrozenModel):
    """Random features: x -> W s(V x), where V ~ N(0, 1/d) stays as it was drawn and W (C, p) is learnt.

    Attributes:
        width: p, the number of features.
        activation: s. "relu" tells no length of an image: s(c z) = c s(z) for c > 0. "relu+tanh" does.
        outputs: C; one output is a regression of the binary labels.
        biases: "none".
        uncovered: what it has that a sequence of layers which are all learnt has not.
    """

    uncovered: ClassVar[str] = "a first layer that is not learnt"

    kind: Literal["rf"] = "rf"
    width: PositiveInt = 1000
    activation: Literal["relu", "relu+tanh"] = "relu"
    outputs: PositiveInt = 1
    biases: Literal["none"] = "none"

    @property
    def homogeneous(self) -> bool:
        """Whether scaling all weights and biases by c > 0 scales the outputs by a positive factor."""
        return self.activation == "relu"

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `relu features 6400-1`."""
        return f"{self.activation} features {self.width}-{self.outputs}"


BuiltSpec = MLPSpec | SmoothMLPSpec | ConvSpec | CNNSpec | RandomFeaturesSpec
"""What the suite can build."""
NetworkSpec = BuiltSpec | KernelSpec | FrontSpec | TailSpec | ModuleSpec
DENSE_FIRST = ("mlp", "smooth", "tail")
"""Kinds of networks whose first layer is learnt, fully connected, and sees the whole input."""


def has_tail(spec: FrozenModel) -> bool:
    """Say whether attacks see the first fully connected layer of a network alone, and what is behind it as a whole."""
    if isinstance(spec, CNNSpec):
        return spec.activation != "relu"
    return isinstance(spec, (SmoothMLPSpec, TailSpec)) or (isinstance(spec, FrontSpec) and spec.tailed)
