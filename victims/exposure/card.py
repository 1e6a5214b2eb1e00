"""The exposure card as data: what can be read off a trained network, and what speaks against an attack. No torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from victims.frozen_model import FrozenModel
from victims.ordinary import LEAST_COSINE

MOST_LEFT = 0.1
"""Share of its squares that a layer may keep of its initialisation and still count as stationary.

Six networks at a stationary point have at most 1e-8, thirteen that were trained as people train at least 0.56."""

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Start(FrozenModel):
    """What the start of a training, known or guessed, shows beside the released weights.

    W is the first fully connected layer that moved, W(0) the same at the start. It may stand behind convolutions.
    """

    known_by: Literal["given", "seed"] = Field(description="The start was given, or drawn again from the seed found.")
    decay: float = Field(description="c, what is left of the initial W; 1 without weight decay.")
    movement: float = Field(
        description="||theta - theta(0)|| / ||theta(0)|| over all weights; ||theta|| where theta(0) is 0.", ge=0
    )
    cosine: float = Field(description="Of W and W(0) outside of the images' span; near 0 where the start is wrong.")
    images: Count | None = Field(
        description="The rank of W - c W(0), which bounds n from below; null where no gap ends it, and where another "
        "rank is shown: that of a low-rank update, of features that moved, or a direction a class of the last layer."
    )

    stayed: Count = Field(description="Fully connected layers, from the first, that did not move; all if none did.")
    adapter: Count | None = Field(
        default=None,
        description="The rank of low-rank updates beside hidden layers, whose biases stayed; null without.",
    )
    behind_front: bool = Field(
        default=False, description="Whether convolutions, or anything else, stand before the first of these layers."
    )

    @property
    def wrong(self) -> bool:
        """Whether the training did not begin there."""
        return self.images is None and self.cosine < LEAST_COSINE


class Seed(FrozenModel):
    """The integer seed whose draws W1 resembles most."""

    found: bool = Field(
        description="Whether the correlation is too large for chance, and further weights resemble the draws too."
    )
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
    unit: Literal["images", "rows"] = Field(default="images", description="What it was trained on.")
    layers: bool = Field(description="Whether its layers are known: a sequence of linear layers and ReLUs.")
    uncovered: str = Field(description="What else it has, where its layers are not known; empty where they are.")
    homogeneous: bool = Field(description="Whether it is positively homogeneous: no bias behind the first layer.")
    hidden: Count = Field(description="Hidden layers that are known; the first alone where others are not.")
    parameters: Count = Field(description="p, the number of weights and biases.")
    inputs: Count = Field(description="d, the numbers that an input has.")
    images: Count = Field(description="n, the number of training records, as its owner tells it.")
    imbalance: list[Share] = Field(
        description="Of each hidden layer, sum_j |a_j - b_j| / sum_j (a_j + b_j) over the squared weights into and out "
        "of its neurons: 0 at a stationary point (Du, Hu and Lee 2018)."
    )
    spectrum: Spectrum | None = Field(description="Of the first fully connected layer.")
    activations: Count | None = Field(
        default=None,
        description="Directions that the second fully connected layer shows, of the activations before it; null where "
        "it is the last layer, or no gap ends them. Fewer than images where its start hides them.",
    )
    start: Start | None = Field(
        description="What the start shows; null where it is neither given nor guessed, or no fully connected layer "
        "behind the input or a front is known."
    )
    seed: Seed | None = Field(description="The guess of the seed; null where the first layer is not fully connected.")
    residual: list[float | None] = Field(
        description="Relative stationarity residual at the records given, a layer each."
    )
    margins: list[float] = Field(description="Margins at the records given: smallest, quartiles, largest.")
    train_accuracy: float | None = Field(description="Accuracy on the records given, in [0, 1]; null without any.")

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
        if not self.spectrum.gap and not self.imbalance:
            return "its first layer shows no end of the images' span, and what is behind it is not known"
        if not self.spectrum.gap and max(self.imbalance) > MOST_LEFT:
            off = f"incoming and outgoing weights of its neurons differ by {max(self.imbalance):.0%}"
            return f"its weights have not come to rest (it is at no stationary point): {off}, at rest they are alike"
        return None

    @property
    def images_shown(self) -> int | None:
        """The directions that training images left in a layer, at most one each; None where the weights show none."""
        if self.start is not None and self.start.images is not None:
            return self.start.images
        shown = self.spectrum is not None and self.spectrum.gap and self.start_remains is None
        return self.spectrum.rank if shown and self.spectrum is not None else None
