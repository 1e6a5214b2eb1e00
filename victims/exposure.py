"""The exposure card: what a trained network gives away at a look, in seconds and without an attack.

All but the last figures are read off the weights, and the start if it is known. They decide which reconstruction
attacks have a chance: those that need a stationary point, those that need the start, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from victims.base import Victim
from victims.equations.architectures import ReLUNetwork, seeded
from victims.equations.network import Network
from victims.equations.row_space import EDGE_SLACK, data_rank
from victims.frozen_model import FrozenModel
from victims.ordinary.difference import Difference, difference
from victims.ordinary.seeds import TORCH, guess_seed
from victims.spec import NetworkSpec

MOST_LEFT = 0.1
"""Share of its squares that a layer may keep of its initialisation and still count as stationary.

Networks that a search for stationary points reconstructs have below 1e-3; ordinarily trained ones above 0.5."""
SEEDS = 100_000
"""Seeds that are tried, from 0 on."""
LEAST_COSINE = 0.2
"""The cosine of W1 and its start outside of the images' span is larger for the true start."""

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Start(FrozenModel):
    """What the start of a training, known or guessed, shows beside the released weights."""

    known_by: Literal["given", "seed"] = Field(description="The start was given, or drawn again from the seed found.")
    decay: float = Field(description="c, what is left of the initial W1; 1 without weight decay.")
    movement: float = Field(description="||theta - theta(0)|| / ||theta(0)|| over all weights.", ge=0)
    cosine: float = Field(description="Of W1 and W1(0) outside of the images' span; near 0 where the start is wrong.")
    images: Count | None = Field(description="The rank of W1 - c W1(0), which is n; null where no gap ends it.")

    @property
    def wrong(self) -> bool:
        """Whether the training did not begin there."""
        return self.images is None and self.cosine < LEAST_COSINE


class Seed(FrozenModel):
    """The integer seed whose draws W1 resembles most."""

    found: bool = Field(description="Whether the correlation is too large for chance.")
    seed: int = Field(description="The best guess.")
    correlation: float = Field(description="Of its draws with W1, in [-1, 1].")
    threshold: float = Field(description="What the largest correlation of wrong seeds exceeds once in a thousand.")
    tried: Count = Field(description="Seeds that were tried, from 0 on.")


class Spectrum(FrozenModel):
    """The singular values of the first fully connected layer beside those of its initialisation."""

    edge: float = Field(description="The largest singular value that the initialisation has, s (sqrt(d) + sqrt(h)).")
    above: Count = Field(description="Directions above that edge (Marchenko and Pastur 1967).")
    gap: bool = Field(description="Whether the singular values from some place on are those of noise, or zero.")
    rank: Count = Field(description="Directions before the gap; all where there is none.")
    left: Share = Field(description="Share of the layer's squares behind the gap: what is left of its start.")


class Exposure(FrozenModel):
    """What a network gives away at a look; null stands for what cannot be read."""

    architecture: str = Field(description="The network in short.")
    layers: bool = Field(description="Whether its layers are known: a sequence of linear layers and ReLUs.")
    uncovered: str = Field(description="What else it has, where its layers are not known; empty where they are.")
    homogeneous: bool = Field(description="Whether it is positively homogeneous: no bias behind the first layer.")
    hidden: Count = Field(description="Hidden layers; 0 where they are not known.")
    parameters: Count = Field(description="p, the number of weights and biases.")
    inputs: Count = Field(description="d, the numbers that an input has.")
    images: Count = Field(description="n, the number of training images, as its owner tells it.")
    imbalance: list[Share] = Field(
        description="Of each hidden layer, sum_j |a_j - b_j| / sum_j (a_j + b_j) over the squared weights into and out "
        "of its neurons: 0 at a stationary point (Du, Hu and Lee 2018)."
    )
    spectrum: Spectrum | None = Field(description="Of the first fully connected layer.")
    start: Start | None = Field(description="What the start shows; null where it is neither given nor guessed.")
    seed: Seed | None = Field(description="The guess of the seed; null where the first layer is not fully connected.")
    residual: list[float | None] = Field(
        description="Relative stationarity residual at the images given, a layer each."
    )
    margins: list[float] = Field(description="Margins at the images given: smallest, quartiles, largest.")
    train_accuracy: float = Field(description="Accuracy on the images given, in [0, 1].")

    @property
    def equations_per_unknown(self) -> float:
        """The ratio p / (n d): the equations of a stationary point over the pixels to be found."""
        return self.parameters / (self.images * self.inputs)

    @property
    def start_remains(self) -> str | None:
        """Why no attack that needs a stationary point can work here, None if nothing speaks against it.

        At such a point each neuron's incoming and outgoing weights have the same length, and W1 lies in the span of the
        images. Where W1 shows that span, what it has outside counts; where it shows none, the balance does.
        """
        if self.spectrum is None:
            return "its layers are not known"
        if not self.hidden:
            return "it has no hidden layer: its weights are one sum over all records for each output"
        if self.spectrum.gap and self.spectrum.left > MOST_LEFT:
            left = f"{self.spectrum.left:.0%} of the squares of the first fully connected layer"
            return f"the start is not forgotten: {left} are still those of its initialisation"
        if not self.spectrum.gap and max(self.imbalance) > MOST_LEFT:
            off = f"incoming and outgoing weights of its neurons differ by {max(self.imbalance):.0%}"
            return f"it is at no stationary point: {off}, and there they are of one length"
        return None

    @property
    def images_shown(self) -> int | None:
        """The number of training images as far as the weights show it, None where they do not."""
        if self.start is not None and self.start.images is not None:
            return self.start.images
        shown = self.spectrum is not None and self.spectrum.gap and self.start_remains is None
        return self.spectrum.rank if shown and self.spectrum is not None else None


@dataclass(frozen=True)
class _Read:
    """What the layers show."""

    imbalance: list[float]
    spectrum: Spectrum
    start: Start | None
    seed: Seed | None


def exposure(victim: Victim, seeds: int = SEEDS, progress: Callable[[str], None] = lambda what: None) -> Exposure:
    """Return the exposure card of a trained network.

    Args:
        victim: the network, with its start if that is known.
        seeds: how many seeds are tried, from 0 on; None for `SEEDS`.
        progress: told in a word what is measured next.
    """
    spec, model = victim.spec.architecture, victim.model
    read = None
    if isinstance(model, ReLUNetwork):
        read = _read(spec, model, victim, SEEDS if seeds is None else seeds, progress)
    return Exposure(
        architecture=spec.label,
        layers=read is not None,
        uncovered=spec.uncovered if spec.kind == "module" else "",
        homogeneous=spec.kind != "module" and spec.biases == "first",
        hidden=0 if read is None else len(read.imbalance),
        parameters=sum(value.numel() for value in model.parameters()),
        inputs=math.prod(victim.input_shape),
        images=victim.spec.n_trained,
        imbalance=[] if read is None else read.imbalance,
        spectrum=None if read is None else read.spectrum,
        start=None if read is None else read.start,
        seed=None if read is None else read.seed,
        residual=[value if math.isfinite(value) else None for value in victim.card.stationarity_residual],
        margins=victim.card.margins,
        train_accuracy=victim.card.train_accuracy,
    )


def _read(spec: NetworkSpec, model: nn.Module, victim: Victim, seeds: int, progress: Callable[[str], None]) -> _Read:
    network = Network.of(model.state_dict(), victim.input_shape)
    progress("spectrum")
    imbalance = balance(network)
    scale = spec.first_layer_scale if spec.kind == "mlp" else None
    shown = spectrum(network.weights[1 if network.convolutional else 0], scale)
    if spec.kind != "mlp":
        return _Read(imbalance, shown, None, None)
    progress("seed")
    first = network.weights[0]
    guess = guess_seed(first.numpy(), range(seeds), [TORCH])
    seed = Seed(
        found=guess.found,
        seed=guess.seed,
        correlation=guess.correlation,
        threshold=guess.threshold,
        tried=seeds,
    )
    progress("start")
    if victim.start is not None:
        return _Read(imbalance, shown, _start("given", victim.start, model.state_dict()), seed)
    if not guess.found:
        return _Read(imbalance, shown, None, seed)
    drawn = seeded(spec, victim.input_shape, guess.seed).state_dict()
    return _Read(imbalance, shown, _start("seed", drawn, model.state_dict()), seed)


def balance(network: Network) -> list[float]:
    """Return sum_j |a_j - b_j| / sum_j (a_j + b_j) of each hidden layer, in [0, 1]; 0 at a stationary point.

    a_j is the squared length of the weights into neuron j, with its bias, b_j that of the weights out of it. The ReLU
    is positively homogeneous, so c times the one and 1 / c times the other leave the network as it is: a loss has no
    slope along c, weight decay pulls a_j and b_j together (Du, Hu and Lee 2018, Theorem 2.1), and at a KKT point of the
    margin problem they are equal (Lyu and Li 2020). Of a convolution a neuron is a channel.
    """
    found = []
    layers = list(zip(network.weights, network.biases, strict=True))
    for (weight, bias), (after, _) in pairwise(layers):
        into = weight.double().flatten(1).square().sum(1)
        if bias is not None:
            into = into + bias.double().square()
        out = after.double().reshape(len(after), len(weight), -1).square().sum((0, 2))
        found.append(float((into - out).abs().sum() / (into + out).sum().clamp_min(torch.finfo(into.dtype).tiny)))
    return found


def spectrum(weight: Tensor, scale: float | None = None) -> Spectrum:
    """Return what the singular values of a layer (h, d) show.

    Args:
        weight: of the first fully connected layer.
        scale: standard deviation of its initial weights; None for torch's U(-1/sqrt(d), 1/sqrt(d)).
    """
    h, d = weight.shape
    singular = torch.linalg.svdvals(weight.double())
    edge = (1 / math.sqrt(3 * d) if scale is None else scale) * (math.sqrt(d) + math.sqrt(h))
    rank = data_rank(singular, h, d)
    gap = 0 < rank < len(singular)
    squares = singular.square()
    return Spectrum(
        edge=edge,
        above=int((singular > EDGE_SLACK * edge).sum()),
        gap=gap,
        rank=rank if gap else len(singular),
        left=float(squares[rank:].sum() / squares.sum()) if gap else 0.0,
    )


def _start(known_by: Literal["given", "seed"], start: dict[str, Tensor], end: dict[str, Tensor]) -> Start:
    """Return what a start shows; both are parameters of a fully connected network by name."""
    shared = [name for name in end if name in start]
    begun, ended = (torch.cat([weights[name].flatten() for name in shared]) for weights in (start, end))
    found: Difference = difference(end["layers.0.weight"], start["layers.0.weight"])
    return Start(
        known_by=known_by,
        decay=found.decay,
        movement=float((ended - begun).norm() / begun.norm()),
        cosine=min(1.0, max(-1.0, found.cosine)),
        images=found.rank if found.shows_images else None,
    )
