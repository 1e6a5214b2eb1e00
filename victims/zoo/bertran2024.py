"""Models that are released before and after records are deleted, after Bertran et al. 2024.

`<dataset>-unlearn-<model>-<n>[-<variant>]`: n training records, of which the last 50 are deleted, one at a time. The
variants: `-newton` and `-ascent` delete by one Newton step and by gradient ascent, `-batch5` deletes five records at
once, `-lambda1` has another penalty than 100 (of the sum of losses; a weight decay of lambda / n of their mean).
"""

from __future__ import annotations

from typing import Any

from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec

RIDGE = ShallowSpec()
SOFTMAX = ShallowSpec(loss="cross-entropy")
MNIST_FOURIER = ShallowSpec(front="fourier", units=1500, width=8.0)
DIGITS_FOURIER = ShallowSpec(front="fourier", units=300, width=4.0)
MLP = ShallowSpec(front="hidden", units=10, loss="cross-entropy")
LOGISTIC = ShallowSpec(loss="cross-entropy", outputs=2)
REGRESSION = ShallowSpec(outputs=1)


def mnist(model: str, architecture: ShallowSpec, variant: str = "", **training: Any) -> DeletionSpec:
    """Return a model of 5,000 MNIST digits with the penalty 100."""
    name = f"mnist-unlearn-{model}-5000{variant}"
    deletion = Deletion(**({"penalty": 100} | training))
    return DeletionSpec(name=name, dataset="mnist", n=5000, architecture=architecture, training=deletion)


def digits(model: str, architecture: ShallowSpec, variant: str = "", **training: Any) -> DeletionSpec:
    """Return a model of 1,000 digits of 8 x 8 pixels; they come with scikit-learn."""
    name = f"digits-unlearn-{model}-1000{variant}"
    deletion = Deletion(**({"penalty": 100} | training))
    return DeletionSpec(name=name, dataset="digits", n=1000, architecture=architecture, training=deletion)


METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("-newton", {"method": "newton"}),
    ("-ascent", {"method": "ascent"}),
    ("-ascent10", {"method": "ascent", "steps": 10}),
)
BATCHES = (2, 5, 10)
PENALTIES = (1, 10, 1000)

VICTIMS: tuple[DeletionSpec, ...] = (
    mnist("ridge", RIDGE),
    mnist("softmax", SOFTMAX),
    mnist("rff", MNIST_FOURIER, penalty=1),
    mnist("mlp", MLP),
    *(mnist("ridge", RIDGE, f"-lambda{penalty}", penalty=penalty) for penalty in PENALTIES),
    mnist("softmax", SOFTMAX, "-ascent", method="ascent"),
    mnist("softmax", SOFTMAX, "-batch2", records=2),
    digits("ridge", RIDGE),
    *(digits("ridge", RIDGE, f"-batch{records}", records=records) for records in BATCHES),
    digits("softmax", SOFTMAX, penalty=10),
    digits("rff", DIGITS_FOURIER, penalty=1),
    digits("mlp", MLP, penalty=30),
    *(digits("softmax", SOFTMAX, variant, penalty=10, **training) for variant, training in METHODS),
    *(digits("softmax", SOFTMAX, f"-batch{records}", penalty=10, records=records) for records in BATCHES),
    DeletionSpec(
        name="cancer-unlearn-logistic-400",
        dataset="cancer",
        n=400,
        architecture=LOGISTIC,
        training=Deletion(penalty=10),
    ),
    DeletionSpec(
        name="diabetes-unlearn-ridge-300",
        dataset="diabetes",
        n=300,
        architecture=REGRESSION,
        training=Deletion(penalty=1),
    ),
)
