"""Which weights a fine-tuning moves: all, the weights of the last layers, or low-rank updates beside all weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from victims.recipes import Ordinary


class LowRank(nn.Module):
    """W + B A for a frozen W (h, d), with A (r, d) and B (h, r) that are trained (Hu et al. 2022, LoRA, eq. 3).

    A starts as torch starts a layer, U(-1/sqrt(d), 1/sqrt(d)), and B at zero.

    Args:
        weight: W, of any shape (h, ...).
        rank: r.
        generator: CPU generator of A.
    """

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        h, d = weight.flatten(1).shape
        self.down = nn.Parameter(drawn_down(rank, d, generator).to(weight))
        self.up = nn.Parameter(torch.zeros(h, rank).to(weight))

    def forward(self, weight: Tensor) -> Tensor:
        """Return W + B A."""
        return weight + (self.up @ self.down).view_as(weight)


def drawn_down(rank: int, inputs: int, generator: torch.Generator) -> Tensor:
    """Return A at its start (r, d), float64; its rows are drawn one after the other.

    Args:
        rank: r.
        inputs: d.
        generator: CPU generator.
    """
    drawn = torch.rand(rank, inputs, generator=generator, dtype=torch.float64)
    return (2 * drawn - 1).div(math.sqrt(inputs))


def adapt(model: nn.Module, training: Ordinary, seed: int) -> None:
    """Freeze what a recipe does not train, and put low-rank updates beside the layers where it asks for them.

    Args:
        model: a network of this suite, fully connected or `BatchNormCNN`; changed in place.
        training: the recipe.
        seed: of the updates' start.
    """
    layers: list[nn.Module] = list(model.layers)  # type: ignore[arg-type]
    if training.last_layers is not None:
        model.requires_grad_(False)
        for layer in layers[-training.last_layers :]:
            layer.requires_grad_(True)
    if training.lora_rank is not None:
        model.requires_grad_(False)
        generator = torch.Generator().manual_seed(seed)
        for layer in [*_convolutions(model), *layers]:
            update = LowRank(layer.weight, training.lora_rank, generator)  # type: ignore[arg-type]
            parametrize.register_parametrization(layer, "weight", update)


def public_name(name: str) -> str:
    """Return the name of a parameter as a release has it: A and B beside W as `W.down` and `W.up`."""
    return name.replace("parametrizations.weight.0.", "weight.")


def merged(model: nn.Module, names: Iterable[str]) -> dict[str, Tensor]:
    """Return copies of a network's parameters and statistics of these names, with the low-rank updates added."""
    places = ((name, *name.rpartition(".")) for name in names)
    return {
        name: getattr(model.get_submodule(path), own).detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, path, _, own in places
    }


def _convolutions(model: nn.Module) -> list[nn.Module]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
