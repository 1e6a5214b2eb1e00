"""Victims trained as people train: torch's own start, biases everywhere, shuffled batches of torch.optim; start kept.

Names are `<dataset>-<mlp or cnn>-<n>[-c10]-<training>`: `sgd` is SGD with momentum, decay and a cosine over 300 epochs,
`sgd-lr5e-3` at a tenth of its rate, `sgd3000` over 3,000 epochs, `adamw` 100 epochs of AdamW, `finetuned` a few epochs
of SGD from a network pre-trained on other images of the dataset: all its layers, the `last2` or the `last1`, or a
low-rank update (`lora8`, of rank 8); `finetuned-adamw` is all layers by AdamW. `snapshots` also released weights on the
way, `deep` has two convolutions instead of one, `pooled` max pooling in the place of strides, `gelu` and `tanh` have
these activations, `ln` layer normalisation before them, `width1000` 1,000 hidden neurons behind a convolution, not 500.
`flips`, `crops` by at most 4 pixels, `crops1` by one, `jitter` of the colours, `erasing` of a rectangle, `mixup`,
`cutmix` and `dropout` of one half came in at every step; labels had a `smoothing` of .1, products were in `bf16`, or
`ema`, a moving average of the weights, is released; a `recipe` has all of these but dropout and what mixes images, for
as many `epochs` as its name says; with `state` the optimiser's state is released too, with `checkpoints` all that the
training went on from halfway and an epoch later, or as many epochs later as its name says, with `5checkpoints` after
each of four epochs, and with `5releases` the averages alone. Without `c10` they are the binary problems of Haim et al.
2022.
"""

from __future__ import annotations

from typing import Any, Literal

from victims.recipes import Augmentation, Ordinary, Pretraining
from victims.spec import CNNSpec, MLPSpec, SmoothMLPSpec, VictimSpec

SGD = Ordinary()
FINETUNED = Ordinary(lr=2e-3, batch_size=32, epochs=10, weight_decay=0, schedule="constant", pretraining=Pretraining())
TRAININGS = {
    "sgd": SGD,
    "adamw": Ordinary(optimiser="adamw", lr=3e-4, weight_decay=1e-2, epochs=100, schedule="constant"),
    "sgd3000": Ordinary(epochs=3000),
    "finetuned": FINETUNED,
}
PARTS = {
    "finetuned-last1": FINETUNED.model_copy(update={"last_layers": 1, "lr": 0.02, "epochs": 30}),
    "finetuned-last2": FINETUNED.model_copy(update={"last_layers": 2, "epochs": 20}),
    "finetuned-adamw": FINETUNED.model_copy(update={"optimiser": "adamw", "lr": 1e-4, "weight_decay": 1e-2}),
    "sgd-snapshots": SGD.model_copy(update={"snapshots": (1, 3, 10, 30, 100)}),
}
LOW_RANK = {
    f"finetuned-lora{rank}": FINETUNED.model_copy(update={"lora_rank": rank, "lr": 0.02, "epochs": 30})
    for rank in (8, 16, 32, 64)
}
LOW_RANK["finetuned-adamw-lora64"] = LOW_RANK["finetuned-lora64"].model_copy(
    update={"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2}
)
SLOW = {"sgd-lr5e-3": SGD.model_copy(update={"lr": 5e-3})}
"""What CNNs learn by from scratch; `victims.zoo.ordinary_factors` has it for fully connected networks."""
AUGMENTATIONS: dict[str, dict[str, Any]] = {
    "flips": {"augmentation": Augmentation(flip=True)},
    "crops1": {"augmentation": Augmentation(crop=1)},
    "crops": {"augmentation": Augmentation(crop=4)},
    "flips-crops": {"augmentation": Augmentation(flip=True, crop=4)},
    "mixup": {"augmentation": Augmentation(mixup=True)},
    "dropout": {"dropout": 0.5},
    "jitter": {"augmentation": Augmentation(jitter=0.4)},
    "erasing": {"augmentation": Augmentation(erase=0.5)},
    "cutmix": {"augmentation": Augmentation(cutmix=True)},
    "smoothing": {"label_smoothing": 0.1},
    "bf16": {"mixed_precision": True},
    "ema": {"average": 0.9},
    "recipe": {
        "augmentation": Augmentation(flip=True, crop=4, jitter=0.4, erase=0.5),
        "label_smoothing": 0.1,
        "mixed_precision": True,
        "average": 0.9,
    },
}
AUGMENTED = {
    f"{name}-{habit}": (TRAININGS | PARTS | SLOW)[name].model_copy(update=changes)
    for name in ("sgd-lr5e-3", "adamw", "finetuned", "finetuned-adamw")
    for habit, changes in AUGMENTATIONS.items()
}
LONGER = {
    f"finetuned-recipe-epochs{epochs}": AUGMENTED["finetuned-recipe"].model_copy(update={"epochs": epochs})
    for epochs in (20, 30, 60)
}
ALL = TRAININGS | PARTS | LOW_RANK | SLOW | AUGMENTED | LONGER


def _mlp(dataset: str, n: int, variant: str, outputs: int = 10) -> VictimSpec:
    """Return a victim of two hidden layers."""
    architecture = MLPSpec(hidden=(1000, 1000), outputs=outputs, biases="every", first_layer_scale=None)
    return _named(dataset, n, variant, architecture)


def _cnn(dataset: str, n: int, variant: str, channels: tuple[int, ...] = (32,)) -> VictimSpec:
    """Return a victim of convolutions and one hidden layer."""
    return _named(dataset, n, variant, CNNSpec(channels=channels, outputs=10))


def _deep(dataset: str, n: int, variant: str = "finetuned") -> VictimSpec:
    """Return a victim of two convolutions."""
    shallow = _cnn(dataset, n, variant, channels=(32, 64))
    return shallow.model_copy(update={"name": f"{shallow.name}-deep"})


def _pooled(strided: VictimSpec) -> VictimSpec:
    """Return a victim with max pooling in the place of strides."""
    architecture = strided.architecture.model_copy(update={"halved": "pooling"})
    return strided.model_copy(update={"name": f"{strided.name}-pooled", "architecture": architecture})


def _wide(usual: VictimSpec, width: int) -> VictimSpec:
    """Return a victim of convolutions whose hidden layer has more neurons than there are images."""
    architecture = usual.architecture.model_copy(update={"hidden": (width,)})
    return usual.model_copy(update={"name": f"{usual.name}-width{width}", "architecture": architecture})


def _activated(usual: VictimSpec, activation: Literal["gelu", "tanh"]) -> VictimSpec:
    """Return a victim of convolutions with an activation other than the ReLU."""
    architecture = usual.architecture.model_copy(update={"activation": activation})
    return usual.model_copy(update={"name": f"{usual.name}-{activation}", "architecture": architecture})


def _with_state(usual: VictimSpec) -> VictimSpec:
    """Return a victim that is released with its optimiser's state, as a checkpoint from which training goes on."""
    training = usual.training.model_copy(update={"momentum_released": True})
    return usual.model_copy(update={"name": f"{usual.name}-state", "training": training})


def _with_checkpoints(usual: VictimSpec, apart: int = 1, count: int = 2) -> VictimSpec:
    """Return a victim that is released with checkpoints, the first halfway, each next one `apart` epochs later."""
    training = usual.training
    assert isinstance(training, Ordinary)
    halfway = training.epochs // 2
    training = training.model_copy(update={"checkpoints": tuple(halfway + apart * k for k in range(count))})
    suffix = f"{'' if count == 2 else count}checkpoints{'' if apart == 1 else apart}"
    return usual.model_copy(update={"name": f"{usual.name}-{suffix}", "training": training})


def _with_releases(usual: VictimSpec, count: int) -> VictimSpec:
    """Return a victim that is released after halfway and each next epoch too, as its recipe has it: averages if any."""
    training = usual.training
    assert isinstance(training, Ordinary)
    halfway = training.epochs // 2
    training = training.model_copy(update={"snapshots": tuple(range(halfway, halfway + count))})
    return usual.model_copy(update={"name": f"{usual.name}-{count}releases", "training": training})


def _smooth(dataset: str, n: int, variant: str, activation: Literal["gelu", "tanh"], ln: bool = False) -> VictimSpec:
    """Return a victim of two hidden layers with an activation other than the ReLU."""
    usual = _mlp(dataset, n, variant)
    architecture = SmoothMLPSpec(activation=activation, layer_norm=ln, outputs=10)
    name = f"{usual.name}-{activation}{'-ln' if ln else ''}"
    return usual.model_copy(update={"name": name, "architecture": architecture})


def _named(dataset: str, n: int, variant: str, architecture: MLPSpec | CNNSpec) -> VictimSpec:
    classes = f"-c{architecture.outputs}" if architecture.outputs > 1 else ""
    name = f"{dataset}-{architecture.kind}-{n}{classes}-{variant}"
    return VictimSpec(name=name, dataset=dataset, n=n, architecture=architecture, training=ALL[variant])


VICTIMS = (
    *(_mlp("cifar", n, variant) for n in (50, 100, 300, 500) for variant in TRAININGS),
    *(_mlp("mnist", n, variant) for n in (100, 300, 500) for variant in ("sgd", "finetuned")),
    _mlp("mnist", 100, "adamw"),
    *(_mlp("cifar", 100, variant) for variant in PARTS),
    *(_mlp("cifar", 50, variant) for variant in LOW_RANK),
    *(_mlp("cifar", 100, variant) for variant in ("finetuned-lora8", "finetuned-lora64")),
    *(_cnn("cifar", 50, variant) for variant in ("finetuned-lora16", "finetuned-lora64")),
    *(_mlp("cifar", 100, variant) for variant in (*AUGMENTED, *LONGER)),
    *(_cnn("cifar", 100, variant) for variant in AUGMENTED if not variant.startswith("adamw")),
    *(_mlp("digits", 20, f"finetuned-{habit}") for habit in ("flips", "crops1")),
    _mlp("cifar", 300, "sgd-snapshots"),
    _mlp("cifar", 100, "sgd", outputs=1),
    _mlp("faces", 50, "sgd", outputs=1),
    _mlp("photos", 100, "sgd"),
    *(_mlp("digits", 20, variant) for variant in ("sgd", "finetuned", *PARTS, "finetuned-lora8")),
    *(_smooth("cifar", 100, "finetuned", activation) for activation in ("gelu", "tanh")),
    *(_smooth("cifar", n, "finetuned", "gelu", ln=True) for n in (100, 300)),
    *(_smooth("cifar", 100, variant, "gelu") for variant in ("sgd", "adamw")),
    _smooth("mnist", 100, "finetuned", "gelu", ln=True),
    *(_smooth("digits", 20, "finetuned", activation) for activation in ("gelu", "tanh")),
    *(_cnn("cifar", n, "finetuned") for n in (100, 300)),
    *(_wide(_cnn("cifar", n, "finetuned"), 2 * n) for n in (500, 1000)),
    _cnn("mnist", 100, "finetuned"),
    _cnn("cifar", 100, "finetuned-adamw"),
    _deep("cifar", 100),
    _pooled(_cnn("cifar", 100, "finetuned")),
    _pooled(_deep("cifar", 100)),
    _cnn("digits", 20, "finetuned"),
    *(_cnn("cifar", 100, variant) for variant in ("sgd", "adamw")),
    *(_cnn("cifar", n, "sgd-lr5e-3") for n in (100, 300)),
    _pooled(_cnn("cifar", 100, "sgd-lr5e-3")),
    _pooled(_deep("cifar", 100, "sgd-lr5e-3")),
    _activated(_cnn("cifar", 100, "finetuned"), "gelu"),
    _activated(_cnn("cifar", 100, "finetuned"), "tanh"),
    _activated(_pooled(_deep("cifar", 100)), "gelu"),
    _activated(_cnn("digits", 20, "finetuned"), "gelu"),
    *map(
        _with_state,
        (
            *(_mlp("cifar", n, "adamw") for n in (100, 500, 2000)),
            *(_mlp("cifar", 100, f"adamw-{habit}") for habit in ("crops", "recipe")),
            *(_mlp("cifar", 100, variant) for variant in ("sgd", "sgd-lr5e-3-recipe", "finetuned-adamw-recipe")),
            _mlp("cifar", 2000, "adamw-recipe"),
            *(
                _mlp(dataset, n, "adamw")
                for dataset, n in (("mnist", 100), ("mnist", 500), ("photos", 100), ("digits", 20))
            ),
            *(_cnn("cifar", 100, variant) for variant in ("adamw", "adamw-recipe", "finetuned-adamw-recipe")),
            _pooled(_deep("cifar", 100, "adamw")),
            _mlp("cifar", 50, "finetuned-adamw-lora64"),
            _cnn("digits", 20, "adamw"),
        ),
    ),
    *map(
        _with_checkpoints,
        (
            *(_mlp("cifar", n, f"{kind}-recipe") for n in (100, 500) for kind in ("adamw", "sgd-lr5e-3")),
            *(_mlp(dataset, n, "adamw") for dataset, n in (("cifar", 500), ("mnist", 500), ("digits", 20))),
            _cnn("digits", 20, "adamw"),
        ),
    ),
    *(
        _with_checkpoints(_mlp("cifar", 100, f"{kind}-recipe"), 4)
        for kind in ("adamw", "sgd-lr5e-3", "finetuned-adamw")
    ),
    *(
        _with_checkpoints(usual, count=5)
        for kind in ("adamw", "sgd-lr5e-3")
        for usual in (
            *(_mlp("cifar", n, f"{kind}-recipe") for n in (100, 500)),
            *(_mlp(dataset, 100, f"{kind}-recipe") for dataset in ("photos", "mnist")),
            _cnn("cifar", 100, f"{kind}-recipe"),
        )
    ),
    *(_with_checkpoints(_cnn("cifar", 100, f"{kind}-recipe"), 4) for kind in ("adamw", "sgd-lr5e-3")),
    _with_checkpoints(_pooled(_deep("cifar", 100, "sgd-lr5e-3-recipe")), count=5),
    _with_state(_wide(_pooled(_deep("cifar", 2500, "adamw-flips-crops")), 1000)),
    *(_with_releases(_mlp("cifar", 100, f"{kind}-recipe"), 5) for kind in ("adamw", "sgd-lr5e-3")),
)
