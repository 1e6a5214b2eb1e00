"""The networks that are attacked."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from victims.errors import UserError
from victims.spec import BuiltSpec, CNNSpec, ConvSpec, MLPSpec, RandomFeaturesSpec, SmoothMLPSpec

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
"""By the names that descriptions have for them."""


class ReLUNetwork(nn.Module):
    """Layers with ReLUs between them; parameters are `layers.{l}.weight` and, where there is one, `layers.{l}.bias`."""

    layers: nn.ModuleList

    def forward(self, inputs: Tensor) -> Tensor:
        """Return Phi(theta; x) for inputs of shape (n, ...): (n,) for a network with one output, else (n, C)."""
        hidden = inputs
        for layer in self.layers[:-1]:
            hidden = torch.relu(layer(_as_taken_by(layer, hidden)))
        return _one_output(self.layers[-1](hidden.flatten(1)))

    def degrees(self) -> list[int]:
        """Return, per parameter, the power k such that theta_p -> c^k theta_p for all p gives Phi -> c^L Phi.

        A weight has degree 1, the bias of layer l (from 1) degree l: with a bias in layer 1 alone this is the
        network's positive homogeneity; with more biases it still scales the function exactly.
        """
        places = (name.split(".") for name, _ in self.named_parameters())
        return [int(layer) + 1 if kind == "bias" else 1 for _, layer, kind in places]


def _one_output(outputs: Tensor) -> Tensor:
    """Return outputs (n, 1) as (n,), any others as they are."""
    return outputs[:, 0] if outputs.ndim > 1 and outputs.shape[1] == 1 else outputs


def _as_taken_by(layer: nn.Module, hidden: Tensor) -> Tensor:
    """Return what a layer takes: a convolution feature maps, any other layer rows."""
    return hidden if isinstance(layer, nn.Conv2d) else hidden.flatten(1)


class MLP(ReLUNetwork):
    """A fully connected network.

    Args:
        widths: (d, h_1, ..., C).
        biases: for each layer, whether it has a bias.
    """

    def __init__(self, widths: Sequence[int], biases: Sequence[bool]) -> None:
        super().__init__()
        pairs = zip(widths[:-1], widths[1:], biases, strict=True)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b, bias in pairs)

    def linears(self) -> list[nn.Linear]:
        """Return the layers, first to last."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]


class ConvNet(ReLUNetwork):
    """Convolutions, stride 1 and no padding, then fully connected layers; the first convolution alone has a bias.

    Args:
        shape: (C_in, H, W) of an input.
        kernel: side of the kernels.
        channels: of each convolution's output.
        widths: (h_1, ..., C) of the fully connected layers.
    """

    def __init__(self, shape: Sequence[int], kernel: int, channels: Sequence[int], widths: Sequence[int]) -> None:
        super().__init__()
        lost = len(channels) * (kernel - 1)
        features = channels[-1] * (shape[1] - lost) * (shape[2] - lost)
        maps = zip((shape[0], *channels[:-1]), channels, strict=True)
        convolutions = [nn.Conv2d(a, b, kernel, bias=place == 0) for place, (a, b) in enumerate(maps)]
        pairs = zip((features, *widths[:-1]), widths, strict=True)
        self.layers = nn.ModuleList([*convolutions, *(nn.Linear(a, b, bias=False) for a, b in pairs)])


class FrontNetwork(nn.Module):
    """A front of any kind, and fully connected layers on what it returns, or one of them and a tail of any kind.

    Parameters and running statistics of the front are `front.*`, those of the fully connected layers `layers.{l}.*`,
    those of the tail `tail.*`.

    Attributes:
        front: from inputs (n, C_in, H, W) to feature maps (n, C, H', W'), or to rows (n, f).
        layers: the fully connected layers, with ReLUs between them; the first of them alone, before a tail.
        tail: from pre-activations (n, h) to outputs (n,) or (n, C); None where the layers end in the outputs.
    """

    def __init__(self, front: nn.Module, layers: Iterable[nn.Module], tail: nn.Module | None = None) -> None:
        super().__init__()
        self.front, self.layers, self.tail = front, nn.ModuleList(layers), tail

    def forward(self, inputs: Tensor) -> Tensor:
        """Return Phi(theta; x) for inputs (n, C_in, H, W): (n,) for a network with one output, else (n, C)."""
        hidden = self.front(inputs).flatten(1)
        for layer in self.layers[:-1]:
            hidden = torch.relu(layer(hidden))
        last: Tensor = self.layers[-1](hidden)
        return _one_output(last if self.tail is None else self.tail(last))


class BatchNormCNN(FrontNetwork):
    """Convolutions with batch normalisation (Ioffe and Szegedy 2015) and an activation, then fully connected layers.

    Args:
        shape: (C_in, H, W) of an input.
        spec: the channels of the convolutions, the widths, the activation, and what halves the sides.
    """

    def __init__(self, shape: Sequence[int], spec: CNNSpec) -> None:
        blocks: list[nn.Module] = []
        pooled, sides, activation = spec.halved == "pooling", tuple(shape[1:]), ACTIVATIONS[spec.activation]
        for before, after in zip((shape[0], *spec.channels[:-1]), spec.channels, strict=True):
            blocks += [nn.Conv2d(before, after, 3, stride=1 if pooled else 2, padding=1), nn.BatchNorm2d(after)]
            blocks += [activation(), nn.MaxPool2d(2, ceil_mode=True)] if pooled else [activation()]
            sides = tuple((side + 1) // 2 for side in sides)
        widths = (spec.channels[-1] * math.prod(sides), *spec.hidden, spec.outputs)
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        if spec.activation == "relu":
            super().__init__(nn.Sequential(*blocks), layers)
        else:
            behind = [part for layer in layers[1:] for part in (activation(), layer)]
            super().__init__(nn.Sequential(*blocks), layers[:1], nn.Sequential(*behind))


class TailNetwork(nn.Module):
    """A fully connected layer on the whole input, and a tail of any kind on what it returns.

    Parameters of the layer are `layers.0.*`, those of the tail, and its running statistics, `tail.*`.

    Attributes:
        layers: the one layer.
        tail: from its pre-activations (n, h) to outputs (n,) or (n, C).
    """

    def __init__(self, first: nn.Linear, tail: nn.Module) -> None:
        super().__init__()
        self.layers, self.tail = nn.ModuleList([first]), tail

    def forward(self, inputs: Tensor) -> Tensor:
        """Return Phi(theta; x) for inputs (n, C, H, W): (n,) for a network with one output, else (n, C)."""
        return _one_output(self.tail(self.layers[0](inputs.flatten(1))))


class SmoothMLP(TailNetwork):
    """A fully connected network with an activation other than the ReLU.

    Args:
        inputs: d.
        spec: the widths, the activation and the number of outputs.
    """

    def __init__(self, inputs: int, spec: SmoothMLPSpec) -> None:
        first, tail = nn.Linear(inputs, spec.hidden[0]), list[nn.Module]()
        for width, after in zip(spec.hidden, (*spec.hidden[1:], spec.outputs), strict=True):
            tail += [nn.LayerNorm(width)] if spec.layer_norm else []
            tail += [ACTIVATIONS[spec.activation](), nn.Linear(width, after)]
        super().__init__(first, nn.Sequential(*tail))


class RandomFeatures(nn.Module):
    """W s(V x): features that are drawn and stay, and a layer on them; both without biases, as `layers.0`, `layers.1`.

    Args:
        inputs: d; V is drawn from N(0, 1/d).
        spec: the width, the activation and the number of outputs.
    """

    def __init__(self, inputs: int, spec: RandomFeaturesSpec) -> None:
        super().__init__()
        self.tanh = spec.activation == "relu+tanh"
        drawn, learnt = nn.Linear(inputs, spec.width, bias=False), nn.Linear(spec.width, spec.outputs, bias=False)
        nn.init.normal_(drawn.weight, std=1 / math.sqrt(inputs))
        self.layers = nn.ModuleList([drawn, learnt])

    def forward(self, inputs: Tensor) -> Tensor:
        """Return Phi(theta; x) for inputs (n, C, H, W): (n,) for a network with one output, else (n, C)."""
        drawn: Tensor = self.layers[0](inputs.flatten(1))
        features = torch.relu(drawn) + torch.tanh(drawn) if self.tanh else torch.relu(drawn)
        return _one_output(self.layers[1](features))


def build(
    spec: MLPSpec | ConvSpec, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype
) -> ReLUNetwork:
    """Return an initialised network, on the CPU.

    Layer 1 is drawn from N(0, first_layer_scale^2), its bias too; the others from torch's standard
    U(-1/sqrt(fan_in), 1/sqrt(fan_in)) (Haim et al. 2022, Section 5.1 and their public code).

    Args:
        spec: the architecture.
        shape: (C, H, W) of an input; a fully connected network needs only its product.
        generator: the CPU generator that makes the draw reproducible.
        dtype: precision of the parameters; they are drawn in float64, so both precisions start at one point.

    Raises:
        UserError: the kernel is larger than what it is laid on.
    """
    model = _empty(spec, shape).to(torch.float64)
    for index, layer in enumerate(model.layers):
        for parameter in layer.parameters():  # the weight, then the bias
            with torch.no_grad():
                if index == 0 and spec.first_layer_scale is not None:
                    parameter.normal_(0, spec.first_layer_scale, generator=generator)
                else:
                    bound = 1 / math.sqrt(next(layer.parameters())[0].numel())
                    parameter.uniform_(-bound, bound, generator=generator)
    return model.to(dtype)


def split_last(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """Return what stands below the last layer, a map from inputs to its features (n, p), and the last layer.

    Args:
        model: a network whose fully connected layers are `layers`; it stays as it is, and shares its parameters.
    """
    below = copy.copy(model)
    below._modules = dict(model._modules)
    layers = below.layers
    assert isinstance(layers, nn.ModuleList)
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    below.layers = nn.ModuleList([*layers[:-1], nn.Identity()])
    return below, last


def seeded(spec: BuiltSpec, shape: Sequence[int], seed: int) -> nn.Module:
    """Return the network that `torch.manual_seed(seed)` and its layers' own start make, float32 on the CPU.

    The first layer of an MLP with a `first_layer_scale` is what torch draws, of that standard deviation.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        network = blank(spec, shape)
    if isinstance(network, MLP) and isinstance(spec, MLPSpec) and spec.first_layer_scale is not None:
        # torch draws from U(-1 / sqrt(d), 1 / sqrt(d)), of standard deviation 1 / sqrt(3 d)
        factor = spec.first_layer_scale * math.sqrt(3 * math.prod(shape))
        with torch.no_grad():
            for parameter in network.layers[0].parameters():
                parameter.mul_(factor)
    return network


def blank(spec: BuiltSpec, shape: Sequence[int]) -> nn.Module:
    """Return a network with arbitrary weights, float32 on the CPU, in evaluation mode.

    Raises:
        UserError: the kernel is larger than what it is laid on.
    """
    if isinstance(spec, CNNSpec):
        return BatchNormCNN(shape, spec).eval()
    if isinstance(spec, SmoothMLPSpec):
        return SmoothMLP(math.prod(shape), spec).eval()
    if isinstance(spec, RandomFeaturesSpec):
        return RandomFeatures(math.prod(shape), spec).eval()
    return _empty(spec, shape).eval()


def _empty(spec: MLPSpec | ConvSpec, shape: Sequence[int]) -> ReLUNetwork:
    if isinstance(spec, ConvSpec):
        channels = spec.each_channels
        if len(channels) * (spec.kernel - 1) >= min(shape[1:]):
            times = f", {len(channels)} times in a row," if len(channels) > 1 else ""
            raise UserError(
                f"a kernel of {spec.kernel}{times} does not fit into images of {shape[1]} x {shape[2]} pixels"
            )
        return ConvNet(shape, spec.kernel, channels, (*spec.hidden, spec.outputs))
    last = len(spec.hidden)
    everywhere, hidden = spec.biases == "every", spec.biases == "all"
    biases = [everywhere or layer == 0 or (hidden and layer < last) for layer in range(last + 1)]
    return MLP((math.prod(shape), *spec.hidden, spec.outputs), biases)
