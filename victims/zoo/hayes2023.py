"""The victims of Hayes, Mahloujifar, Balle 2023: private trainings whose every noisy gradient is released.

`mnist-relu10-999-trace-eps1e1` is the MNIST configuration of the authors' notebook: a network of one hidden layer of
10 units, 1,000 records, 100 steps of learning rate 9, clipping norm .1, a prior of 8 records, delta 1e-5; here pixels
lie in [0, 1], not in [-1, 1]. The digits ones are trained as `digits-elu10-200-eps1e1` is: clipping norm 1, which few
gradients reach at the end. `-sampled` has each record in a tenth of the batches (Poisson sampling), `-prior2` a prior
of 2 records.
"""

from __future__ import annotations

from victims.informed.spec import DenseSpec, Descent, InformedSpec
from victims.recipes import Privacy

EPSILONS = ("1", "3", "1e1", "3e1", "1e2", "1e4", "1e6")
PRIOR, RATE = 8, 0.1


def mnist(epsilon: str) -> InformedSpec:
    """Return the paper's victim of that epsilon."""
    return InformedSpec(
        name=f"mnist-relu10-999-trace-eps{epsilon}",
        dataset="mnist",
        n=999,
        targets=64,
        architecture=DenseSpec(activation="relu"),
        training=Descent(lr=9, momentum=0, epochs=100, privacy=Privacy(clip=0.1, epsilon=float(epsilon))),
        prior=PRIOR,
    )


def digits(epsilon: str, prior: int = PRIOR, rate: float | None = None) -> InformedSpec:
    """Return the small victim of that epsilon, with a prior of another size, or Poisson sampled."""
    privacy = Privacy(clip=1, epsilon=float(epsilon), sampling_rate=rate)
    variant = f"{'-sampled' if rate else ''}{'' if prior == PRIOR else f'-prior{prior}'}"
    return InformedSpec(
        name=f"digits-elu10-200-trace{variant}-eps{epsilon}",
        dataset="digits",
        n=200,
        targets=128,
        training=Descent(lr=0.1, momentum=0.9, epochs=100, privacy=privacy),
        prior=prior,
    )


VICTIMS: tuple[InformedSpec, ...] = (
    *(mnist(epsilon) for epsilon in EPSILONS),
    *(digits(epsilon) for epsilon in EPSILONS),
    *(digits(epsilon, rate=RATE) for epsilon in EPSILONS),
    *(digits("1e1", size) for size in (2, 32, 128)),
)
