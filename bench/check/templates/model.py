"""A model of your own, as an example: put its weights and its training images beside this file."""

from pathlib import Path

from torch import nn

from victims.released import released

HERE = Path(__file__).parent


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 1000), nn.ReLU(), nn.Linear(1000, 10))


VICTIMS = (
    released(
        name="example",
        network=network,
        weights=HERE / "weights.safetensors",  # or a file that torch.save made of model.state_dict()
        images=HERE / "images.npz",  # train_images, train_labels: all that it was trained on, or some
        mean=(0.49, 0.48, 0.45),  # an input is (image - mean) / std, of an image in [0, 1]
        std=(0.25, 0.24, 0.26),
    ),
)
