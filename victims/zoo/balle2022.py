"""The victims of Balle, Cherubin, Hayes 2022: one model a target, each trained on the fixed set and that target.

Networks are `<dataset>-<architecture>-<size of the fixed set>`; `mnist-elu10-1000` is the authors' notebook's
(learning rate .1, a fixed set of 1,000), `-paper` the recipe of Table V. `-small` has fewer targets, `-eps1e2` is
private with epsilon 100 and delta 1e-5: a network by its training, a linear model by noise on the result.
"""

from __future__ import annotations

from victims.informed.spec import (
    DenseSpec,
    Descent,
    GLMArchitecture,
    GLMSpec,
    InformedSpec,
    Newton,
    OutputPrivacy,
)
from victims.recipes import Privacy

NOTEBOOK = Descent(lr=0.1, momentum=0.9, epochs=100)
TABLE_V = Descent(lr=0.2, momentum=0.9, epochs=100)
LINEAR = GLMArchitecture(family="linear")
POISSON = GLMArchitecture(family="poisson")
SOFTMAX = GLMArchitecture(family="multinomial", outputs=10)
RIDGE = Newton(strength=1.0, convention="half-lambda")

PENALISED = GLMArchitecture(intercept="penalised")
PENALISED_LINEAR = GLMArchitecture(family="linear", intercept="penalised")
LARGEST_PROGRESS = 346.0
"""The largest label of the diabetes data: the bound on labels that private regression needs."""


def private_glm(epsilon: str) -> GLMSpec:
    """Return a logistic regression whose parameters are released with noise for that epsilon."""
    training = Newton(strength=100, convention="half-lambda", privacy=OutputPrivacy(epsilon=float(epsilon)))
    name = f"digits-logistic-eps{epsilon}"
    return GLMSpec(name=name, dataset="digits", n=1000, architecture=PENALISED, training=training)


def private_ridge(epsilon: str) -> GLMSpec:
    """Return a ridge regression whose parameters are released with noise for that epsilon."""
    privacy = OutputPrivacy(epsilon=float(epsilon), label_bound=LARGEST_PROGRESS)
    training = Newton(strength=100, convention="half-lambda", privacy=privacy)
    name = f"diabetes-ridge-eps{epsilon}"
    return GLMSpec(name=name, dataset="diabetes", n=300, architecture=PENALISED_LINEAR, training=training)


def private_network(dataset: str, n: int, epsilon: str) -> InformedSpec:
    """Return the notebook's network trained by private gradient descent, clipped at the paper's 1."""
    training = NOTEBOOK.model_copy(update={"privacy": Privacy(clip=1, epsilon=float(epsilon))})
    name = f"{dataset}-elu10-{n}-eps{epsilon}"
    return InformedSpec(name=name, dataset=dataset, n=n, targets=100, training=training)


VICTIMS: tuple[InformedSpec | GLMSpec, ...] = (
    InformedSpec(name="mnist-elu10-1000", dataset="mnist", n=1000, training=NOTEBOOK),
    InformedSpec(name="mnist-elu10-1000-small", dataset="mnist", n=1000, targets=20, training=NOTEBOOK),
    InformedSpec(name="mnist-elu10-1000-random-init", dataset="mnist", n=1000, initialisation="random"),
    InformedSpec(name="mnist-elu10-10000-paper", dataset="mnist", n=10_000, training=TABLE_V),
    InformedSpec(
        name="cifar-elu4-200",
        dataset="cifar",
        n=200,
        targets=50,
        architecture=DenseSpec(hidden=(4,)),
        training=Descent(lr=0.01),
    ),
    InformedSpec(name="digits-elu10-200", dataset="digits", n=200, targets=100),
    GLMSpec(name="cancer-logistic", dataset="cancer", n=400),
    GLMSpec(name="diabetes-ridge", dataset="diabetes", n=300, architecture=LINEAR, training=RIDGE),
    GLMSpec(name="diabetes-poisson", dataset="diabetes", n=300, architecture=POISSON, training=RIDGE),
    GLMSpec(name="digits-logistic", dataset="digits", n=1000),
    GLMSpec(name="digits-softmax", dataset="digits", n=1000, targets=50, architecture=SOFTMAX),
    GLMSpec(name="mnist-logistic", dataset="mnist", n=1000),
    GLMSpec(
        name="mnist-logistic-no-intercept",
        dataset="mnist",
        n=1000,
        architecture=GLMArchitecture(intercept="none"),
    ),
    *(private_glm(epsilon) for epsilon in ("1", "1e1", "1e2", "1e3", "1e4", "1e5", "1e6")),
    *(private_ridge(epsilon) for epsilon in ("1", "1e2", "1e4", "1e6", "1e8")),
    *(private_network("mnist", 1000, epsilon) for epsilon in ("1", "1e1", "1e2", "1e3", "1e4")),
    *(private_network("digits", 200, epsilon) for epsilon in ("1", "1e1", "1e2", "1e3", "1e4", "1e5", "1e6")),
)
