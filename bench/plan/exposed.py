"""The exposure card of a trained victim, and an exposure card in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.plan.prospects import Prospect, prospects
from victims.exposure.card import MOST_LEFT

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.plan.registry import Registry
    from victims.exposure.card import Exposure, Seed, Spectrum
    from victims.spec import VictimSpec


def exposed(
    spec: VictimSpec, data_dir: Path | None, attacks: Registry[type[Attack[Any]]]
) -> tuple[Exposure, list[Prospect]]:
    """Return the exposure card of a victim that is in the cache, or released, and which attacks can work on it.

    Raises:
        UserError: its data or weights cannot be read.
    """
    import torch

    from victims.exposure.reading import exposure
    from victims.obtain import obtain

    victim = obtain(spec, data_dir, torch.device("cpu"), lambda progress: None, lambda notice: None)
    card = exposure(victim)
    return card, list(prospects(attacks.items.values(), spec, card))


def exposure_lines(card: Exposure) -> Iterator[tuple[str, str]]:
    """Yield what is measured and what was found, in words that an owner of a model understands."""
    yield "architecture", card.architecture
    yield "weights per number sought (equations over unknowns)", f"{card.equations_per_unknown:.2g}: {_over(card)}"
    if card.spectrum is None and not card.layers:
        yield "layers", f"not known, so little can be read off them: {card.uncovered}"
        if card.start is not None:
            yield "start", _start(card)
            yield f"directions of training {card.unit}", _directions(card)
        yield from _measured(card)
        return
    if card.layers:
        yield from _whole(card)
    else:
        yield "layers", f"the first is known, and what is behind it not: {card.uncovered}"
    if card.spectrum is not None:
        shown = card.spectrum
        values = "1 singular value of the first fully connected layer is"
        if shown.above != 1:
            values = f"{shown.above} singular values of the first fully connected layer are"
        yield "directions that stand out", f"{values} larger than a random start would have ({shown.edge:.3g})"
        yield "share of that layer that is not learnt", _left(shown)
    if card.activations is not None:
        shown_by = f"{card.activations}, as the second layer shows them"
        yield "directions of activations", f"{shown_by}; fewer than {card.unit} where its start hides them"
    yield "seed", _seed(card.seed)
    yield "start", _start(card)
    yield f"directions of training {card.unit}", _directions(card)
    yield from _measured(card)


def _whole(card: Exposure) -> Iterator[tuple[str, str]]:
    """Yield what is read off all layers, where they are known."""
    doubling = "doubling all weights changes no decision (positively homogeneous)"
    biases = f"none: {doubling}, as the theory of these attacks assumes"
    if not card.homogeneous:
        some = "some, and attacks get records from such networks too. Without them"
        biases = f"{some} {doubling}, as the theory of these attacks assumes"
    yield "biases behind the first layer", biases
    if card.imbalance:
        sizes = ", ".join(f"{value:.2g}" for value in card.imbalance)
        balanced = "0 where the weights into a neuron are as long as those out of it"
        yield "imbalance of the neurons", f"{sizes}: {balanced}, as at the end of a long training (stationary point)"


def _seed(seed: Seed | None) -> str:
    """Return which seed drew the first layer, and how surely; None where none was sought."""
    if seed is None:
        return "not sought, for the first layer is not fully connected"
    found = f"{seed.seed} drew the first layer" if seed.found else f"none below {seed.tried}"
    odds = f"correlation {seed.correlation:.3f}, chance {seed.threshold:.3f}"
    if not seed.found and seed.correlation > seed.threshold:
        odds += f" with the first weights, but further weights do not resemble the draws of {seed.seed}"
    return f"{found} ({odds})"


def _start(card: Exposure) -> str:
    """Return how the start is known, and what is left of it."""
    start = card.start
    if start is not None:
        how = "as given" if start.known_by == "given" else "drawn from the seed"
        update = f", by a low-rank update (LoRA) of rank {start.adapter}" if start.adapter else ""
        return f"{how}; {start.decay:.4g} of it left, moved by {start.movement:.3g} of its length{update}"
    if card.seed is not None and card.seed.found:
        return "cannot be told: what the seed drew behind the first layer depends on what layers these are"
    return "not known"


def _left(shown: Spectrum) -> str:
    """Return what of the first fully connected layer is left of its start; "gap" where the singular values show one."""
    if not shown.gap:
        return "cannot be told, for nothing divides it from what was learnt (no gap in the singular values)"
    squares = f"{shown.left:.2g} of the squares of the first fully connected layer lie"
    if shown.left > MOST_LEFT:
        return f"{squares} outside the {shown.rank} directions that stand out from a random start"
    return f"{squares} behind a gap after {shown.rank} singular values"


def _directions(card: Exposure) -> str:
    """Return the rank that the records left in a layer, and what it bounds: their number, from below alone."""
    if card.images_shown is None:
        return "not shown by the weights"
    where = (
        "the first fully connected layer"
        if card.start is None or card.start.images is None
        else "what the training changed"
    )
    most = f"one of the {card.unit} adds at most one, and one that is learnt easily may add none"
    return f"{card.images_shown} in {where}: {most}, so it was trained on {card.images_shown} or more"


def _over(card: Exposure) -> str:
    return f"{card.parameters} weights for {card.images} {card.unit} of {card.inputs} numbers"


def _measured(card: Exposure) -> Iterator[tuple[str, str]]:
    """Yield what the images given show."""
    if card.residual:
        values = ", ".join("not measured" if value is None else f"{value:.2g}" for value in card.residual)
        explained = f": 0 where the {card.unit} given explain all weights of a layer, 1 where they explain none"
        unmeasured = all(value is None for value in card.residual)
        told = "not measured" if unmeasured else f"{values}{explained}"
        yield "weights left unexplained (stationarity residual)", told
    if card.margins:
        low, _, middle, _, high = card.margins
        yield "lead of the right class (margins)", f"{low:.3g} to {high:.3g}, median {middle:.3g}; below 0 it is wrong"
    accuracy = f"no {card.unit} were given" if card.train_accuracy is None else f"{card.train_accuracy:.3f}"
    yield f"accuracy on the {card.unit} given", accuracy
