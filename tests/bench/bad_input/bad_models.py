"""Somebody's own model: its module, its weights, its images."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scene import Scene, Words, case
from torch import nn

NETWORK = "nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 1))"
PLUGIN = """
from torch import nn
from victims.released import released


def network():
    return {network}


VICTIMS = (released("mine", network=network, weights={weights!r}, images={images!r}, {options}),)
"""


def model(scene: Scene, network: str = NETWORK, options: str = "", weights: str = "weights.safetensors") -> Words:
    """A run on a model that would work but for what is given."""
    scene.data()
    if not (scene.root / weights).exists():
        module = nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 1))
        save_file(module.state_dict(), scene.root / "weights.safetensors")
    files: dict[str, Any] = {"weights": str(scene.root / weights), "images": str(scene.root / "data.npz")}
    return scene.plugin("mine.py", PLUGIN.format(network=network, options=options, **files), victim="mine")


def images(scene: Scene, drop: str = "", **changes: Any) -> Words:
    words = model(scene)
    scene.data(drop=drop, **changes)
    return words


@case("there are no weights at")
def model_without_weights(scene: Scene) -> Words:
    words = model(scene)
    (scene.root / "weights.safetensors").unlink()
    return words


@case("cannot be read as safetensors")
def model_weights_of_text(scene: Scene) -> Words:
    scene.file("weights.safetensors", "these are no weights")
    return model(scene)


@case("cannot be read as safetensors")
def model_weights_cut_short(scene: Scene) -> Words:
    words = model(scene)
    path = scene.root / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    return words


@case("cannot be read as safetensors")
def model_weights_empty(scene: Scene) -> Words:
    scene.file("weights.safetensors", b"")
    return model(scene)


@case("does not fit the network")
def model_weights_of_another_network(scene: Scene) -> Words:
    save_file({"weight": torch.zeros(3)}, scene.root / "weights.safetensors")
    return model(scene)


@case("does not fit the network")
def model_weights_of_another_shape(scene: Scene) -> Words:
    return model(scene, NETWORK.replace("8", "9"))


@case("its outputs are not finite")
def model_weights_that_are_no_numbers(scene: Scene) -> Words:
    words = model(scene)
    weights = load_file(scene.root / "weights.safetensors")
    save_file({name: value * torch.nan for name, value in weights.items()}, scene.root / "weights.safetensors")
    return words


@case("is no torch file of tensors alone")
def model_weights_that_are_code(scene: Scene) -> Words:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("raise SystemExit('the code in the weights was run')",)

    scene.file("weights.pt", pickle.dumps(Code(), protocol=2))
    return model(scene, weights="weights.pt")


@case("holds no state dict, which is tensors by name, but a Tensor; write it with safetensors.torch.save_file")
def model_weights_that_are_one_tensor(scene: Scene) -> Words:
    torch.save(torch.zeros(3), scene.root / "weights.pt")
    return model(scene, weights="weights.pt")


@case("but a dict of net (dict), epoch (int), loss (list), lr (float) and 1 more; write it with safetensors")
def model_weights_that_are_a_checkpoint(scene: Scene) -> Words:
    more = {"epoch": 3, "loss": [0.5], "lr": 0.1, "best": True}
    torch.save({"net": {"weight": torch.zeros(3)}, **more}, scene.root / "weights.pt")
    return model(scene, weights="weights.pt")


@case("holds several state dicts, under state_dict and model; save the state dict of the released model alone")
def model_weights_of_two_models(scene: Scene) -> Words:
    torch.save({key: {"weight": torch.zeros(3)} for key in ("model", "state_dict")}, scene.root / "weights.pt")
    return model(scene, weights="weights.pt")


@case("there are no images at")
def model_without_images(scene: Scene) -> Words:
    words = model(scene)
    (scene.root / "data.npz").unlink()
    return words


@case("no array train_labels")
def model_without_labels(scene: Scene) -> Words:
    return images(scene, drop="train_labels")


@case("no array test_labels")
def model_with_half_a_test_set(scene: Scene) -> Words:
    return images(scene, drop="test_labels")


@case("has the label 2; mine tells the classes 0 to 1 apart")
def model_with_a_label_too_many(scene: Scene) -> Words:
    return images(scene, train_labels=np.arange(8) % 3)


@case("does not take inputs of shape (n, 3, 12, 12)")
def model_with_images_in_colour(scene: Scene) -> Words:
    grey = np.arange(8, dtype=np.uint8).repeat(12 * 12 * 3).reshape(8, 12, 12, 3)
    return images(scene, train_images=grey, test_images=grey[:4])


@case("expected one number, for one channel")
def model_with_three_means(scene: Scene) -> Words:
    return model(scene, options="mean=(0.4, 0.5, 0.6)")


@case("expected one number, for one channel")
def model_with_an_infinite_mean(scene: Scene) -> Words:
    return model(scene, options="mean=float('inf')")


@case("expected one number, above 0, for one channel")
def model_with_a_deviation_of_zero(scene: Scene) -> Words:
    return model(scene, options="std=0.0")


@case("holds 8 training images, more than n_trained = 3")
def model_trained_on_fewer_images(scene: Scene) -> Words:
    return model(scene, options="n_trained=3")


@case("greater than or equal to 0")
def model_with_a_negative_decay(scene: Scene) -> Words:
    return model(scene, options="weight_decay=-1")


@case("'cross-entropy'")
def model_with_an_unknown_loss(scene: Scene) -> Words:
    return model(scene, options="loss='hinge'")


@case("`network` returned NoneType; expected a torch.nn.Module")
def model_without_a_network(scene: Scene) -> Words:
    return model(scene, "None")


@case("name 'resnet' is not defined")
def model_of_an_unknown_network(scene: Scene) -> Words:
    return model(scene, "resnet()")


@case("answers 2 inputs with (2, 1, 12, 8)")
def model_that_answers_with_images(scene: Scene) -> Words:
    return model(scene, "nn.Linear(12, 8)")


@case("answers 2 inputs with dict")
def model_that_answers_with_a_dict(scene: Scene) -> Words:
    named = "type('Named', (nn.Sequential,), {'forward': lambda self, x: {'logits': nn.Sequential.forward(self, x)}})"
    return model(scene, f"{named}(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 1))")


@case("the network answers with probabilities; return logits, without the softmax")
def model_that_answers_with_probabilities(scene: Scene) -> Words:
    return model(scene, "nn.Sequential(nn.Flatten(), nn.Linear(144, 2), nn.Softmax(1))")


@case("; expected real weights")
def model_of_complex_weights(scene: Scene) -> Words:
    words = model(scene)
    weights = load_file(scene.root / "weights.safetensors")
    save_file({name: value * 1j for name, value in weights.items()}, scene.root / "weights.safetensors")
    return words
