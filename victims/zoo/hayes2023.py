"""The victims of Hayes, Mahloujifar, Balle 2023: private trainings whose every noisy gradient is released.

`mnist-relu10-999-trace-eps1e1` is the MNIST configuration of the authors' notebook: a network of one hidden layer of
10 units, 1,000 records, 100 steps of learning rate 9, clipping norm .1, a prior of 8 records, delta 1e-5; here pixels
lie in [0, 1], not in [-1, 1]. The digits ones are the same on 200 records of 8 x 8 pixels. `-sampled` has each record
in a tenth of the batches (Poisson sampling), `-prior2` a prior of 2 records.
"""

from __future__ import annotations

from victims.informed.spec import DenseSpec, Descent, InformedSpec
from victims.recipes import Privacy

EPSILONS = ("1", "3", "1e1", "3e1", "1e2", "1e3", "1e4")
RATE = 0.1


def traced(dataset: str, n: int, targets: int, epsilon: str, prior: int = 8, rate: float | None = None) -> InformedSpec:
    """Return a private training whose trace is released to an adversary with a prior."""
    privacy = Privacy(clip=0.1, epsilon=float(epsilon), sampling_rate=rate)
    variant = "-sampled" if rate else ""
    size = "" if prior == 8 else f"-prior{prior}"
    return InformedSpec(
        name=f"{dataset}-relu10-{n}-trace{variant}{size}-eps{epsilon}",
        dataset=dataset,
        n=n,
        targets=targets,
        architecture=DenseSpec(activation="relu"),
        training=Descent(lr=9, momentum=0, epochs=100, privacy=privacy),
        prior=prior,
    )


VICTIMS: tuple[InformedSpec, ...] = (
    *(traced("mnist", 999, 64, epsilon) for epsilon in EPSILONS),
    *(traced("digits", 199, 256, epsilon) for epsilon in EPSILONS),
    *(traced("digits", 199, 256, epsilon, rate=RATE) for epsilon in EPSILONS),
    *(traced("digits", 199, 256, "1e1", prior=size) for size in (2, 32, 128)),
)
