"""The victims of Balle, Cherubin, Hayes 2022: one model a target, each trained on the fixed set and that target.

Networks are `<dataset>-<architecture>-<size of the fixed set>`; `mnist-elu10-1000` is that of the authors' notebook
(learning rate .1, a fixed set of 1,000), `-paper` the recipe of Table V. `-small` has fewer targets.
"""

from __future__ import annotations

from victims.informed.spec import Descent, GLMArchitecture, GLMSpec, InformedSpec, Newton, SmallCNNSpec

NOTEBOOK = Descent(lr=0.1, momentum=0.9, epochs=100)
TABLE_V = Descent(lr=0.2, momentum=0.9, epochs=100)
LINEAR = GLMArchitecture(family="linear")
POISSON = GLMArchitecture(family="poisson")
SOFTMAX = GLMArchitecture(family="multinomial", outputs=10)
RIDGE = Newton(strength=1.0, convention="half-lambda")

VICTIMS: tuple[InformedSpec | GLMSpec, ...] = (
    InformedSpec(name="mnist-elu10-1000", dataset="mnist", n=1000, training=NOTEBOOK),
    InformedSpec(name="mnist-elu10-1000-small", dataset="mnist", n=1000, targets=20, training=NOTEBOOK),
    InformedSpec(name="mnist-elu10-1000-random-init", dataset="mnist", n=1000, initialisation="random"),
    InformedSpec(name="mnist-elu10-10000-paper", dataset="mnist", n=10_000, training=TABLE_V),
    InformedSpec(name="digits-elu10-200", dataset="digits", n=200, targets=100),
    InformedSpec(
        name="cifar-cnn-1000",
        dataset="cifar",
        n=1000,
        targets=200,
        architecture=SmallCNNSpec(),
        training=Descent(lr=0.01, epochs=100),
    ),
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
)
