"""Victims trained as people train: torch's own start, biases everywhere, shuffled batches of torch.optim; start kept.

Names are `<dataset>-mlp-<n>[-c10]-<training>`: `sgd` is SGD with momentum, decay and a cosine over 300 epochs,
`sgd3000` over 3,000, `adamw` 100 epochs of AdamW, `finetuned` a few epochs of SGD from a network pre-trained on other
images of the dataset. Without `c10` they are the binary problems of Haim et al. 2022.
"""

from __future__ import annotations

from victims.recipes import Ordinary, Pretraining
from victims.spec import MLPSpec, VictimSpec

SGD = Ordinary()
SGD_3000 = Ordinary(epochs=3000)
ADAMW = Ordinary(optimiser="adamw", lr=3e-4, weight_decay=1e-2, epochs=100, schedule="constant")
FINETUNED = Ordinary(lr=2e-3, batch_size=32, epochs=10, weight_decay=0, schedule="constant", pretraining=Pretraining())
TRAININGS = {"sgd": SGD, "adamw": ADAMW, "sgd3000": SGD_3000, "finetuned": FINETUNED}


def _ordinary(dataset: str, n: int, variant: str, outputs: int = 10, width: int = 1000) -> VictimSpec:
    """Return a victim of two hidden layers."""
    classes = f"-c{outputs}" if outputs > 1 else ""
    return VictimSpec(
        name=f"{dataset}-mlp-{n}{classes}-{variant}",
        dataset=dataset,
        n=n,
        architecture=MLPSpec(hidden=(width, width), outputs=outputs, biases="every", first_layer_scale=None),
        training=TRAININGS[variant],
    )


VICTIMS = (
    *(_ordinary("cifar", n, variant) for n in (50, 100, 300, 500) for variant in TRAININGS),
    *(_ordinary("mnist", n, variant) for n in (100, 300, 500) for variant in ("sgd", "finetuned")),
    _ordinary("cifar", 100, "sgd", outputs=1),
    _ordinary("faces", 50, "sgd", outputs=1),
    _ordinary("digits", 20, "sgd"),
    _ordinary("digits", 20, "finetuned"),
)
