"""The files that an owner hands over: weights, images, start, and the file that describes the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from photographs import crops
from safetensors.torch import save_file
from torch import Tensor, nn

SIDE, CLASSES = 16, 3
MEAN, STD = 0.5, 0.25
TEST = 30
"""Images that no owner trains on."""
DESCRIPTION = '''"""A model of somebody's own."""

from pathlib import Path

import torch
from torch import nn

from victims.released import released

HERE = Path(__file__).parent


{network}


VICTIMS = (
    released(
        "mine",
        network=network,
        weights=HERE / "weights.safetensors",
        images=HERE / "images.npz",
        mean={mean},
        std={std},
        {options}
    ),
)
'''


def photographs(side: int = SIDE) -> tuple[Tensor, Tensor]:
    """Images (100, 3, side, side) in [0, 1], side dividing 32, and labels, dealt out in turn."""
    images = crops()
    block = images.shape[1] // side
    small = images.reshape(len(images), side, block, side, block, 3).mean((2, 4))
    return torch.from_numpy(small.transpose(0, 3, 1, 2).copy()), torch.arange(len(images)) % CLASSES


def inputs(images: Tensor) -> Tensor:
    """What the owner's networks are given."""
    return (images - MEAN) / STD


def hand_over(
    folder: Path, module: nn.Module, n: int, network: str, start: dict[str, Tensor] | None = None, side: int = SIDE
) -> Path:
    """Write the files of a model that was trained on the first n images, and return the file that describes it."""
    images, labels = photographs(side)
    pixels = images.permute(0, 2, 3, 1).numpy()
    kept = {name: value.contiguous() for name, value in module.state_dict().items()}
    save_file(kept, folder / "weights.safetensors")
    options = ""
    if start is not None:
        save_file(start, folder / "start.safetensors")
        options = 'initial=HERE / "start.safetensors",'
    np.savez(
        folder / "images.npz",
        train_images=pixels[:n],
        train_labels=labels[:n].numpy(),
        test_images=pixels[-TEST:],
        test_labels=labels[-TEST:].numpy(),
    )
    file = folder / "mine.py"
    file.write_text(DESCRIPTION.format(network=network, mean=MEAN, std=STD, options=options))
    return file
