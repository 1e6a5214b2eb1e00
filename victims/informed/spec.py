"""What a victim of the informed adversary is before it is trained. Imports no torch, so `list` is quick."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from victims.defences.spec import Defences, released
from victims.deletion.spec import DeletionSpec
from victims.frozen_model import FrozenModel, Recipe, Retrainable, omitted_if_default
from victims.recipes import Privacy, Share
from victims.spec import VictimSpec

Activation = Literal["elu", "relu", "gelu", "sigmoid", "tanh", "softplus"]
Family = Literal["linear", "logistic", "poisson", "multinomial"]
Intercept = Literal["none", "penalised", "unpenalised"]
Convention = Literal["lambda", "half-lambda", "inverse-c", "mean-loss"]
PriorSize = Annotated[int | None, Field(ge=2), omitted_if_default(None)]


class DenseSpec(FrozenModel):
    """A fully connected network d-h1-...-C with biases in every layer (Balle et al. 2022, Table V).

    Attributes:
        hidden: widths of the hidden layers; none for the affine classifier.
        activation: activation of the hidden layers; "elu" with alpha 1 is the paper's.
        outputs: C, the number of classes.
    """

    kind: Literal["dense"] = "dense"
    hidden: tuple[PositiveInt, ...] = (10,)
    activation: Activation = "elu"
    outputs: PositiveInt = 10

    @property
    def label(self) -> str:
        """Short text for tables, e.g. `elu 10`."""
        return f"{self.activation} {'-'.join(map(str, self.hidden))}" if self.hidden else "affine"


class SmallCNNSpec(FrozenModel):
    """The paper's convolutional network (Balle et al. 2022, Table VI), no padding: 55,098 parameters on CIFAR-10.

    Two convolutions, 16 channels (4 x 4, stride 2) and 32 (4 x 4, stride 1), and the outputs.

    Attributes:
        activation: activation of all layers but the last.
        outputs: C, the number of classes.
    """

    kind: Literal["cnn"] = "cnn"
    activation: Activation = "elu"
    outputs: PositiveInt = 10

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"cnn {self.activation} 16-32"


class OutputPrivacy(FrozenModel):
    """Differential privacy of the released parameters by Gaussian noise on them, once (Chaudhuri et al. 2011).

    The noise is calibrated to how far one record can move the optimum, whatever the others are: features lie in [0, 1],
    and the regulariser makes the objective strongly convex. Neighbouring data sets are defined as for `Privacy`.

    Attributes:
        epsilon: epsilon of the (epsilon, delta) to which the noise is calibrated.
        delta: likewise, in (0, 1).
        label_bound: the largest possible |y| of a linear model.
    """

    epsilon: PositiveFloat = 10.0
    delta: Share = 1e-5
    label_bound: PositiveFloat = 1.0


class Descent(Recipe):
    """The algorithm A of a network: gradient descent on the mean cross-entropy over D_- and the target.

    Everything here is public. What is not is drawn for each model from a secret seed of its own: its initialisation
    where the spec says so, the order of its mini-batches without an `order_seed`, and its noise.

    Attributes:
        optimizer: "sgd", or "adam" with torch's defaults.
        lr: learning rate, constant.
        momentum: momentum of SGD.
        epochs: passes over the records.
        batch_size: None for full-batch descent.
        order_seed: seed of the mini-batches' order, which all models then share and the adversary knows; None for
            a secret order of each model's own.
        privacy: clipping, noise and sampling, None for none; `order_seed` then samples the known records.
    """

    kind: Literal["descent"] = "descent"
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: PositiveFloat = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    epochs: PositiveInt = 100
    batch_size: PositiveInt | None = None
    order_seed: int | None = 0
    privacy: Privacy | None = None

    @model_validator(mode="after")
    def _is_private_in_full_batches(self) -> Descent:
        if self.privacy is not None and (self.batch_size is not None or self.optimizer != "sgd"):
            raise ValueError("private descent has no batch size and no Adam; give privacy a sampling_rate")
        if self.sampling_rate is not None and self.order_seed is None:
            raise ValueError("the known records of a sampled batch are public; give their order_seed")
        return self

    @property
    def sampling_rate(self) -> float | None:
        """The rate of Poisson sampling, None without."""
        return None if self.privacy is None else self.privacy.sampling_rate

    @property
    def label(self) -> str:
        """Short text for tables."""
        sampled = "full batch" if self.sampling_rate is None else f"sampled at {self.sampling_rate:g}"
        batch = sampled if self.batch_size is None else f"batch {self.batch_size}"
        order = ", secret order" if self.batch_size is not None and self.order_seed is None else ""
        private = "" if self.privacy is None else f", epsilon {self.privacy.epsilon:g}"
        return f"{self.optimizer} lr {self.lr:g}, {self.epochs} epochs, {batch}{order}{private}"


class OneTargetSpec(Retrainable):
    """What both kinds of victims of this setting have: T models, of which each has a target of its own."""

    setting: ClassVar[Literal["informed"]] = "informed"
    twin: ClassVar[str] = ""
    targets: PositiveInt
    defences: Defences = ()

    @property
    def n_targets(self) -> int:
        """The number of records to be reconstructed."""
        return self.targets

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine what is released and what the adversary is told, for the cache key."""
        return self.model_dump(exclude={"name", "defences"}) | released(self.defences)


class InformedSpec(OneTargetSpec):
    """T networks, each trained on the fixed set and one target.

    Of the dataset's training images, in their order, the first n are the fixed set D_-, the next T the targets, and
    the rest the shadow pool; labels are the dataset's own. Images stay in [0, 1]; no mean is subtracted.

    Attributes:
        name: `<dataset>-<architecture>-<n>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows.
        n: size of the fixed set.
        targets: T.
        architecture: the network.
        training: the algorithm A.
        initialisation: "known" is one initial network for all models, which the adversary knows; "pretrained" one that
            was trained first, by A, on the last n images of the shadow pool; "random" one of each model's own.
        shadow_dataset: the shadow pool is this dataset's training images instead: out-of-distribution shadows.
        prior: N, for the adversary of Hayes et al. 2023, who has N records, one of which is the target, and every noisy
            gradient of the private training. N consecutive targets are the prior of each of them; None for no prior.
        seed: secret; all that models draw for themselves comes from it, and so does the known initialisation.
        defences: as for `VictimSpec`.
    """

    kind: Literal["network"] = "network"
    dataset: str
    n: PositiveInt
    targets: PositiveInt = 1000
    architecture: Annotated[DenseSpec | SmallCNNSpec, Field(discriminator="kind")] = DenseSpec()
    training: Descent = Descent()
    initialisation: Literal["known", "pretrained", "random"] = "known"
    shadow_dataset: str = ""
    prior: PriorSize = None

    @model_validator(mode="after")
    def _can_have_its_prior(self) -> InformedSpec:
        if self.prior and (self.training.privacy is None or self.initialisation == "random"):
            raise ValueError("a prior is for a private training from a known start")
        if self.prior and self.targets % self.prior:
            raise ValueError(f"{self.targets} targets are no multiple of the prior's {self.prior} records")
        if self.prior and any(defence.on_release for defence in self.defences):
            raise ValueError("its trace is released too, which nothing done to the released weights hides")
        return self

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.architecture.outputs


class GLMArchitecture(FrozenModel):
    """A generalised linear model with its canonical link (Balle et al. 2022, Section 3).

    Attributes:
        family: "linear" (identity), "logistic" (logit, two classes), "poisson" (log), "multinomial" (softmax).
        intercept: whether there is one, and whether the regulariser includes it.
        outputs: linear predictors: the number of classes of a multinomial model, 1 for the others.
    """

    kind: Literal["glm"] = "glm"
    family: Family = "logistic"
    intercept: Intercept = "unpenalised"
    outputs: PositiveInt = 1

    @model_validator(mode="after")
    def _has_outputs_of_its_family(self) -> GLMArchitecture:
        if (self.family == "multinomial") != (self.outputs > 1):
            raise ValueError(f"a {self.family} model does not have {self.outputs} outputs")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        return f"{self.family}, {'no' if self.intercept == 'none' else self.intercept} intercept"


class Newton(Recipe):
    """The algorithm A of a generalised linear model: the minimum of loss and regulariser, by Newton's method.

    Attributes:
        strength: strength of the regulariser; 0 for none.
        convention: what `strength` multiplies: "lambda", the sum of losses + strength ||theta||^2; "half-lambda", the
            sum of losses + (strength / 2) ||theta||^2; "inverse-c", scikit-learn's strength * sum of losses +
            (1/2) ||theta||^2; "mean-loss", the mean of losses + (strength / 2) ||theta||^2. The loss of a linear model
            is (1/2) (f - y)^2.
        privacy: noise on the released parameters, None for none.
    """

    kind: Literal["newton"] = "newton"
    strength: NonNegativeFloat = 1.0
    convention: Convention = "inverse-c"
    privacy: OutputPrivacy | None = None

    @model_validator(mode="after")
    def _has_a_finite_c(self) -> Newton:
        if self.convention == "inverse-c" and self.strength == 0:
            raise ValueError("scikit-learn's C must be positive; for no regulariser take another convention")
        return self

    def penalty(self, records: int) -> float:
        """Return mu such that the gradient of sum of losses + regulariser has the term mu theta.

        Args:
            records: the number of records that the model is fitted to, the target included.
        """
        factor = {"lambda": 2 * self.strength, "half-lambda": self.strength, "mean-loss": records * self.strength}
        return 1 / self.strength if self.convention == "inverse-c" else factor[self.convention]

    @property
    def label(self) -> str:
        """Short text for tables."""
        private = "" if self.privacy is None else f", epsilon {self.privacy.epsilon:g}"
        return f"Newton, {self.convention} {self.strength:g}{private}"


class GLMSpec(OneTargetSpec):
    """T generalised linear models, each fitted to the fixed set and one target.

    The records are split as for `InformedSpec`; features lie in [0, 1]. A logistic model tells the two classes of
    `victims.datasets.GROUPS` apart, a linear or Poisson one predicts the label itself.

    Attributes:
        name: `<dataset>-<family>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows.
        n: size of the fixed set.
        targets: T.
        architecture: family and intercept.
        training: the objective.
        seed: seed of the noise on the released parameters.
        defences: as for `VictimSpec`.
    """

    kind: Literal["glm"] = "glm"
    dataset: str
    n: PositiveInt
    targets: PositiveInt = 100
    architecture: GLMArchitecture = GLMArchitecture()
    training: Newton = Newton()
    shadow_dataset: ClassVar[str] = ""
    prior: ClassVar[None] = None

    @model_validator(mode="after")
    def _has_a_bounded_sensitivity(self) -> GLMSpec:
        free = self.architecture.intercept == "unpenalised" or self.training.strength == 0
        if self.training.privacy is not None and (free or self.architecture.family == "poisson"):
            raise ValueError("one record can move this model without bound; noise needs a regulariser on all of it")
        return self

    @property
    def n_classes(self) -> int:
        """The number of classes, 1 for a regression."""
        return 2 if self.architecture.family == "logistic" else self.architecture.outputs


AnySpec = VictimSpec | InformedSpec | GLMSpec | DeletionSpec
"""A victim of any setting."""
