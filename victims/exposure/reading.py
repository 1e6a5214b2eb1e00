"""Reads the exposure card of a trained network: its neurons' balance, its spectrum, its start and its seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from victims.base import Victim
from victims.equations.architectures import FrontNetwork, ReLUNetwork, TailNetwork
from victims.equations.network import Network
from victims.equations.row_space import EDGE_SLACK, data_rank
from victims.exposure.card import Exposure, Seed, Spectrum, Start
from victims.networks import DENSE_FIRST
from victims.ordinary.difference import difference, first_moved, movement
from victims.ordinary.seeds import drawn_start, guess_seed
from victims.ordinary.update import adapter_rank, images_in
from victims.spec import BuiltSpec, NetworkSpec

SEEDS = 100_000
"""Seeds that are tried, from 0 on."""


@dataclass(frozen=True)
class _Read:
    """What the layers show."""

    imbalance: list[float]
    spectrum: Spectrum
    activations: int | None
    start: Start | None
    seed: Seed | None


def exposure(victim: Victim, seeds: int | None = None) -> Exposure:
    """Return the exposure card of a trained network.

    Args:
        victim: the network, with its start if that is known; one that a secret seed drew is not.
        seeds: how many seeds are tried, from 0 on; None for `SEEDS`.
    """
    spec, model = victim.spec.architecture, victim.model
    read, start = None, None
    if isinstance(model, FrontNetwork):
        start = _given(victim)
    if isinstance(model, (ReLUNetwork, TailNetwork)):
        read = _read(spec, model, victim, SEEDS if seeds is None else seeds)
    return Exposure(
        architecture=spec.label,
        unit="rows" if victim.spec.tabular else "images",
        layers=isinstance(model, ReLUNetwork),
        uncovered=spec.uncovered,
        homogeneous=spec.homogeneous,
        hidden=1 if isinstance(model, TailNetwork) else 0 if read is None else len(read.imbalance),
        parameters=sum(value.numel() for value in model.parameters()),
        inputs=math.prod(victim.input_shape),
        images=victim.spec.n_trained,
        imbalance=[] if read is None else read.imbalance,
        spectrum=None if read is None else read.spectrum,
        activations=None if read is None else read.activations,
        start=start if read is None else read.start,
        seed=None if read is None else read.seed,
        residual=[value if math.isfinite(value) else None for value in victim.card.stationarity_residual],
        margins=victim.card.margins,
        train_accuracy=victim.card.train_accuracy if victim.spec.n else None,
    )


def _read(spec: NetworkSpec, model: nn.Module, victim: Victim, seeds: int) -> _Read:
    tailed = isinstance(model, TailNetwork)
    network = Network.of_matrices(model.state_dict()) if tailed else Network.of(model.state_dict(), victim.input_shape)
    imbalance = [] if tailed else balance(network)
    scale = spec.first_layer_scale if spec.kind == "mlp" else None
    connected = network.weights[network.convolutions :]
    shown = spectrum(connected[0], scale)
    second = spectrum(connected[1]) if len(connected) > 2 and not tailed else None
    activations = second.rank if second is not None and second.gap else None
    given = _given(victim)
    if spec.kind not in DENSE_FIRST:
        return _Read(imbalance, shown, activations, given, None)
    first = network.weights[0]
    guess = guess_seed(first.numpy(), range(seeds))
    seed = Seed(
        found=guess.found,
        seed=guess.seed,
        correlation=guess.correlation,
        threshold=guess.threshold,
        tried=seeds,
    )
    if given is not None:
        return _Read(imbalance, shown, activations, given, seed)
    if not guess.found:
        return _Read(imbalance, shown, activations, None, seed)
    drawn = None
    if isinstance(spec, BuiltSpec):  # what a seed draws behind the first layer of any other network is not known
        drawn = drawn_start(spec, victim.input_shape, guess.seed, model.state_dict())
    start = None if drawn is None else _start("seed", drawn, model.state_dict())
    return _Read(imbalance, shown, activations, start, seed)


def _given(victim: Victim) -> Start | None:
    """Return what a start that attackers can be told shows, None without one."""
    if victim.start is None or not victim.spec.tells_start:
        return None
    return _start("given", victim.start, victim.model.state_dict())


def balance(network: Network) -> list[float]:
    """Return sum_j |a_j - b_j| / sum_j (a_j + b_j) of each hidden layer, in [0, 1]; 0 at a stationary point.

    a_j is the squared length of the weights into neuron j with its bias, b_j of the weights out of it. The ReLU
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

    The edge is that of a random matrix of independent entries (Marchenko and Pastur 1967).

    Args:
        weight: (h, d) of a fully connected layer.
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
    """Return what a start shows; both are states of a network whose first fully connected layer is known.

    Behind a front that moved, an image's features are others at each step, so that no rank shows n.
    """
    tailed = any(name.startswith("tail.") for name in end)
    begun, ended = (Network.of_matrices(state) if tailed else Network.of(state) for state in (start, end))
    before = ended.convolutions
    front = [name for name in end if name.startswith("front.")]
    front += [name for name in end if name.startswith(tuple(f"layers.{layer}." for layer in range(before)))]
    first = first_moved(start, end, before)
    moved = before if first is None else first
    begun, ended = begun.after_convolutions(), ended.after_convolutions()
    found = difference(end[f"layers.{moved}.weight"], start[f"layers.{moved}.weight"])
    stayed = all(torch.equal(start[name], end[name]) for name in front)
    return Start(
        known_by=known_by,
        decay=found.decay,
        movement=movement(start, end),
        cosine=min(1.0, max(-1.0, found.cosine)),
        images=images_in(begun, ended, moved - before, found) if stayed else None,
        stayed=len(ended.weights) if first is None else first - before,
        adapter=None if first is None else adapter_rank(begun, ended),
        behind_front=bool(front),
    )
