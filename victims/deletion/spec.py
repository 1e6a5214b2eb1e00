"""What a victim that releases two models is before it is trained. Imports no torch, so `list` is quick."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt, model_validator

from victims.defences.spec import Defences, released
from victims.frozen_model import FrozenModel, Recipe, Retrainable

Front = Literal["none", "fourier", "hidden"]
ModelLoss = Literal["squared", "cross-entropy"]


class ShallowSpec(FrozenModel):
    """A model that is linear in features of a record, with a bias: f(x) = W phi(x) + b.

    Attributes:
        front: what phi is: "none", the record itself (ridge and softmax regression); "fourier", random Fourier features
            sqrt(2 / units) cos(omega_j'x + b_j), which are public and not trained (Rahimi & Recht 2007); "hidden", a
            trained layer tanh(V x + c).
        units: number of features; 0 for "none".
        width: of the Gaussian kernel that the Fourier features stand for: omega_j is N(0, 1 / width^2).
        loss: of one record: "squared", (1/2) ||f - y||^2, or "cross-entropy" of a softmax.
        outputs: number of classes, whose y is one-hot; 1 for a regression on the label itself.
    """

    kind: Literal["shallow"] = "shallow"
    front: Front = "none"
    units: int = 0
    width: PositiveFloat = 10.0
    loss: ModelLoss = "squared"
    outputs: PositiveInt = 10

    @model_validator(mode="after")
    def _is_one_model(self) -> ShallowSpec:
        if (self.front == "none") != (self.units == 0) or self.units < 0:
            raise ValueError(f"a model with the front {self.front!r} does not have {self.units} units")
        if self.loss == "cross-entropy" and self.outputs == 1:
            raise ValueError("a softmax of one output is constant; two classes have two outputs")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        head = "ridge" if self.loss == "squared" else "softmax"
        return (
            head
            + {"none": "", "fourier": f" on {self.units} Fourier features", "hidden": f", tanh {self.units}"}[
                self.front
            ]
        )


class Deletion(Recipe):
    """Training to the minimum of sum of losses + (penalty / 2) ||theta||^2, and then the deletion of records.

    Everything here is public. The model is at its minimum before the deletion, in float64.

    Attributes:
        penalty: of all parameters, biases too.
        records: number of records that are deleted at once.
        method: "refit" goes from theta to the minimum without them; "newton" takes one Newton step of the objective
            without them (Guo et al. 2020); "ascent" takes `steps` steps of gradient ascent on their summed losses.
        steps: of the ascent.
        lr: learning rate of the ascent.
    """

    kind: Literal["deletion"] = "deletion"
    penalty: PositiveFloat = 1.0
    records: PositiveInt = 1
    method: Literal["refit", "newton", "ascent"] = "refit"
    steps: PositiveInt = 1
    lr: PositiveFloat = 1e-3

    @property
    def label(self) -> str:
        """Short text for tables."""
        method = {"refit": "refit", "newton": "one Newton step", "ascent": f"{self.steps} steps of ascent"}[self.method]
        return f"lambda {self.penalty:g}, {self.records} deleted at once by {method}"


class DeletionSpec(Retrainable):
    """One model, and T / records models, each of which lacks some of the T targets and has all other records.

    Of the dataset's training images, in their order, the first n are the training set. Its last T are the targets,
    deleted in their order; the images after them are public. Images stay in [0, 1]; no mean is subtracted.

    Attributes:
        name: `<dataset>-unlearn-<model>-<n>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows.
        n: number of training records before the deletion.
        targets: T, a multiple of `training.records`.
        architecture: the model.
        training: the objective, and how records are deleted.
        seed: of the start of a hidden layer.
        defences: as for `VictimSpec`; noise and rounding are of both releases.
    """

    setting: ClassVar[Literal["deletion"]] = "deletion"
    twin: ClassVar[str] = ""
    shadow_dataset: ClassVar[str] = ""

    kind: Literal["deletion"] = "deletion"
    dataset: str
    n: PositiveInt
    targets: PositiveInt = 50
    architecture: ShallowSpec = ShallowSpec()
    training: Deletion = Deletion()
    defences: Defences = ()

    @model_validator(mode="after")
    def _deletes_whole_batches(self) -> DeletionSpec:
        if self.targets % self.training.records:
            raise ValueError(f"{self.targets} targets are no whole number of deletions of {self.training.records}")
        if self.targets > self.n:
            raise ValueError(f"{self.targets} targets cannot be among {self.n} training records")
        return self

    @property
    def n_targets(self) -> int:
        """The number of records to be reconstructed."""
        return self.targets

    @property
    def n_classes(self) -> int:
        """The number of classes, 1 for a regression."""
        return self.architecture.outputs

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine what is released, for the cache key."""
        return self.model_dump(exclude={"name", "defences"}) | released(self.defences)
