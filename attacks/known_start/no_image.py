"""Where an attack on a known start shows no image: what it declines, what it doubts, its flags. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attacks.unknown_start import UNLIKE, untold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

FIRST_MOVED = "its first layer was trained and sees the images: use kkt-delta"
FIRST_STAYED = "its first layer was not trained and shows no image: use kkt-delta-features"
LAST_ALONE = (
    "only the last layer moved: its difference is one sum of features a class, not one an image; try projection"
)
STILL = (
    "no fully connected layer differs from its start: none was trained, or a new head alone, whose start is not known"
)


def declined(victim: VictimSpec, start: str, otherwise: str, kinds: Sequence[str] = ("mlp",)) -> str | None:
    """Return why an attack on the first layer declines a victim: it needs a hidden layer, and a start that was kept.

    Args:
        victim: the victim.
        start: "known" where the start is told, "guess" where its seed is sought, "momentum", "snapshots" or
            "checkpoints" where the optimiser's state, releases, or states of the training are told in its place.
        otherwise: what to set where it was not kept.
        kinds: of networks that the attack takes.
    """
    architecture = victim.architecture
    if architecture.kind not in kinds or not getattr(architecture, "hidden", ()):
        return f"{architecture.label}: for fully connected networks with a hidden layer"
    if architecture.kind == "tail" and start == "guess":
        return f"{architecture.label}: what draws its layers is not known, so no seed is found"
    if why := untold(victim, start, otherwise):
        return why
    if victim.training.kind == "ordinary" and victim.training.last_layers is not None:
        return FIRST_STAYED
    return None


def took_no_crops(victim: VictimSpec, crops: int) -> str | None:
    """Return why an attack declines a victim whose crops it would undo, by at most `crops` pixels: it took none."""
    return "its training moved no image; leave out crops" if crops and not victim.crops else None


def took_no_update(victim: VictimSpec, lora: bool, start: str) -> str | None:
    """Return why an attack declines a victim whose low-rank update it would take apart: all weights were trained.

    Where the momentum is in the place of the start, it declines a low-rank update without `lora`, since W1 itself has
    no momentum, and one whose momentum holds its own start.

    Args:
        victim: the victim.
        lora: whether the attack is for a low-rank update.
        start: how the attack has the start, a key of `attacks.unknown_start.THREATS`.
    """
    if victim.training.kind != "ordinary":
        return None
    if lora and victim.training.lora_rank is None:
        return "its training was no low-rank update; leave out lora"
    if start == "momentum" and not lora and victim.training.lora_rank is not None:
        return "its momentum is that of a low-rank update: cocktail-party --variant momentum-lora takes it"
    if start == "momentum" and lora and victim.training.optimiser != "adamw" and victim.training.weight_decay:
        return "weight decay in the gradient puts the update's own start into its momentum"
    return None


def doubted(exposure: Exposure, start: Literal["known", "guess"], seeds: int) -> str | None:
    """Return why a card speaks against an attack: the seed is not found, the training began elsewhere, a layer stayed.

    Args:
        exposure: what the weights show.
        start: whether the start is told, or its seed guessed.
        seeds: the number of seeds that are tried.
    """
    if start == "guess" and not (exposure.seed is not None and exposure.seed.found):
        return f"no seed below {seeds} drew the first layer"
    if start == "guess" and exposure.start is None:
        return UNLIKE
    if exposure.start is not None and exposure.start.wrong:
        return f"the training did not begin at this start: outside the span the cosine is {exposure.start.cosine:.2g}"
    if exposure.start is not None and not exposure.start.movement:
        return STILL
    if exposure.start is not None and exposure.start.stayed:
        return FIRST_STAYED
    return None


def adapted(rank: int) -> str:
    """Return what a low-rank update of this rank says of its directions, for a flag."""
    apart = "cocktail-party --variant lora takes them apart"
    several = f"as by LoRA: W1 shows {rank} directions and no image in them, {apart}"
    one = "as by LoRA, whose direction is no image, or by training on one image, which is the direction"
    return f"every layer moved by rank {rank}, {several if rank > 1 else one}"
