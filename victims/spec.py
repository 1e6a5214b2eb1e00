"""The description of a victim before it is trained: frozen and hashable. Imports no torch, so `list` is quick."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, model_validator

from victims.dataset_files import tabular
from victims.defences.spec import Defences, RandomSeed, released
from victims.frozen_model import Retrainable
from victims.kernel.spec import KernelFit
from victims.networks import (
    BuiltSpec,
    CNNSpec,
    ConvSpec,
    FrontSpec,
    MLPSpec,
    ModuleSpec,
    NetworkSpec,
    RandomFeaturesSpec,
    SmoothMLPSpec,
    TailSpec,
    has_tail,
)
from victims.recipes import (
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    Interpolation,
    NormalizedDescent,
    Ordinary,
    Regularised,
    Released,
)

__all__ = [
    "BuiltSpec",
    "CNNSpec",
    "ConvSpec",
    "DecayedDescent",
    "FrontSpec",
    "GradientDescent",
    "GramGaussNewton",
    "Loss",
    "MLPSpec",
    "ModuleSpec",
    "NetworkSpec",
    "NormalizedDescent",
    "Ordinary",
    "RandomFeaturesSpec",
    "Regularised",
    "Released",
    "SmoothMLPSpec",
    "TailSpec",
    "VictimSpec",
]

Loss = Literal["cross-entropy", "l2", "l2.5", "huber"]


OWN_RECIPES = {
    "rf": ("interpolation", "random features are trained by `interpolation`"),
    "kernel": ("kernel", "a kernel machine is fitted by the recipe `kernel`"),
}
"""The architectures that one recipe alone trains: that recipe, and what to say of it."""


class VictimSpec(Retrainable):
    """Everything that determines a victim's weights, and what its paper reports of it.

    Attributes:
        name: `<dataset>-<architecture>-<n>[-<variant>]`.
        dataset: a name that `victims.datasets.load` knows; empty for released weights without images.
        n: number of training images, balanced over the classes; of released weights, those that are at hand,
            0 for none.
        loss: cross-entropy (with one output the logistic loss), or a regression of one output to targets of -1 and +1;
            random features of several outputs have "l2" to one-hot targets.
        seed: seed of the initialisation and of the mini-batches.
        twin: "untrained" is the network before training, "disjoint" the same recipe on the n images after the first n;
            a null control attacks them in the victim's place.
        defences: its defences; the recipe includes the ones in training already, see `victims.defences.stacking`.
        reported_test_accuracy: the paper's figure for this victim, in [0, 1], shown beside the measured one.
    """

    setting: ClassVar[Literal["dataset"]] = "dataset"
    """All records are to be reconstructed; of a victim of the setting "informed" only one is not known."""

    dataset: str
    n: NonNegativeInt
    architecture: Annotated[NetworkSpec, Field(discriminator="kind")] = MLPSpec()
    loss: Loss = "cross-entropy"
    training: Annotated[
        GradientDescent
        | NormalizedDescent
        | DecayedDescent
        | GramGaussNewton
        | Regularised
        | Interpolation
        | Ordinary
        | KernelFit
        | Released,
        Field(discriminator="kind"),
    ] = NormalizedDescent()
    twin: Literal["", "untrained", "disjoint"] = ""
    defences: Defences = ()
    reported_test_accuracy: float | None = None

    @model_validator(mode="after")
    def _is_trainable(self) -> VictimSpec:
        self._require_loss()
        if self.training.kind == "released":
            return self
        if not self.n:
            raise ValueError("n is 0, and a recipe trains on at least one image")
        for kind, (recipe, rule) in OWN_RECIPES.items():
            if (self.architecture.kind == kind) != (self.training.kind == recipe):
                raise ValueError(f"{rule}, and nothing else is")
        if self.architecture.kind in OWN_RECIPES:
            return self
        if self.architecture.kind != "mlp" and self.architecture.biases == "all":
            raise ValueError(f"no recipe trains {self.architecture.label}; give its weights, see victims.released")
        if self.architecture.kind in ("cnn", "smooth") and self.training.kind != "ordinary":
            raise ValueError(f"{self.architecture.label} is trained by the recipe `ordinary`")
        if isinstance(self.training, Ordinary):
            self._require_ordinary(self.training)
        if self.architecture.biases != "first" and self.training.kind == "decayed":
            raise ValueError("decayed descent needs a homogeneous network: a bias in layer 1 alone")
        if self.training.kind == "decayed" and self.training.corners and self.architecture.kind != "mlp":
            raise ValueError("only a fully connected network is trained with rounded corners: leave `corners` empty")
        one_output = self.architecture.kind == "mlp" and self.architecture.outputs == 1
        homogeneous = one_output and self.architecture.biases == "first"
        if self.training.kind == "gram-gauss-newton" and not (homogeneous and self.loss != "cross-entropy"):
            raise ValueError("Gauss-Newton steps train a regression by fully connected layers, a bias in layer 1 alone")
        if self.training.kind == "regularised" and not (one_output and self.loss == "cross-entropy"):
            raise ValueError("the regularised minimum is that of a binary classifier without convolution")
        return self

    def _require_loss(self) -> None:
        """Raise a ValueError where the network or the recipe does not have this loss."""
        if self.training.kind == "interpolation" and self.loss != "l2":
            raise ValueError(f"interpolation ends at the least squared error: the loss is l2, not {self.loss}")
        if self.loss != "cross-entropy" and self.architecture.outputs > 1 and self.architecture.kind != "rf":
            raise ValueError(f"the loss {self.loss} is a regression of one output, not of {self.architecture.outputs}")
        if self.loss != "cross-entropy" and self.training.kind == "normalized":
            raise ValueError(f"normalised descent follows the cross-entropy, not {self.loss}")

    def _require_ordinary(self, training: Ordinary) -> None:
        """Raise a ValueError where a loop over torch.optim does not train this network so."""
        network = self.architecture
        if network.kind not in ("mlp", "cnn", "smooth"):
            raise ValueError(f"ordinary training is for an mlp or a cnn, not for {network.kind}")
        if has_tail(network) and (training.last_layers or training.lora_rank):
            raise ValueError(f"of {network.label} all weights are trained: set neither last_layers nor lora_rank")
        most = len(network.hidden) + (network.kind == "cnn")
        if (training.last_layers or 0) > most:
            raise ValueError(f"last_layers leaves something before them: at most {most}")
        if training.privacy is None:
            return
        if network.kind != "mlp" or network.outputs == 1 or network.biases != "every":
            raise ValueError("private training is that of a softmax of several outputs with biases in every layer")
        if training.batch_size < self.n:
            raise ValueError("private training takes all records in every batch")

    @property
    def n_classes(self) -> int:
        """The number of classes: one output tells two apart."""
        return max(self.architecture.outputs, 2)

    @property
    def n_targets(self) -> int:
        """The number of records to be reconstructed: all."""
        return self.n

    @property
    def groups(self) -> tuple[tuple[int, ...], ...] | None:
        """The labels that make up each class: the first C labels, or None for the papers' binary problem."""
        outputs = self.architecture.outputs
        return None if outputs == 1 else tuple((label,) for label in range(outputs))

    @property
    def weight_decay(self) -> float:
        """The decay that the recipe has, 0 if none."""
        return 0.0 if isinstance(self.training, NormalizedDescent) else float(self.training.weight_decay)

    @property
    def keeps_start(self) -> bool:
        """Whether the weights that the training started from are kept."""
        released = isinstance(self.training, Released) and self.training.initial is not None
        return released or isinstance(self.training, Ordinary | Interpolation)

    @property
    def tells_start(self) -> bool:
        """Whether an attacker can be told that start: it was kept, and no secret seed drew it."""
        return self.keeps_start and not any(isinstance(defence, RandomSeed) for defence in self.defences)

    @property
    def tells_momentum(self) -> bool:
        """Whether an attacker can be told the optimiser's momentum; what is defended on release keeps it back."""
        given = isinstance(self.training, Released) and self.training.state is not None
        released = isinstance(self.training, Ordinary) and self.training.momentum_released
        return (given or released) and not any(defence.on_release for defence in self.defences)

    @property
    def tells_checkpoints(self) -> bool:
        """Whether an attacker can be told two states of the training; what is defended on release keeps them back."""
        given = isinstance(self.training, Released) and self.training.earlier is not None
        released = isinstance(self.training, Ordinary) and len(self.training.checkpoints) > 1
        return (given or released) and not any(defence.on_release for defence in self.defences)

    @property
    def tells_snapshots(self) -> bool:
        """Whether an attacker can be told weights on the way: released ones, defended likewise, or a checkpoint's."""
        given = isinstance(self.training, Released) and self.training.on_the_way
        released = isinstance(self.training, Ordinary) and self.training.snapshots
        return bool(given or released or self.tells_checkpoints)

    @property
    def crops(self) -> int:
        """The most pixels by which random crops moved an image in its training, 0 without."""
        if isinstance(self.training, Ordinary):
            return self.training.augmentation.crop
        return self.training.crops if isinstance(self.training, Released) else 0

    @property
    def n_trained(self) -> int:
        """The number of images that it was trained on, `n` of which are at hand."""
        return self.training.n_trained if isinstance(self.training, Released) else self.n

    @property
    def tabular(self) -> bool:
        """Whether its records are rows of a table."""
        return tabular(self.dataset) or (isinstance(self.training, Released) and bool(self.training.columns))

    def identity(self) -> dict[str, Any]:
        """Return the fields that determine what is released, for the cache key."""
        silent = {"weights", "initial", "state", "earlier", "earlier_state", "earlier_weights", "held_out"}
        left_out: dict[str, Any] = {"name": True, "reported_test_accuracy": True, "defences": True, "training": silent}
        return self.model_dump(exclude=left_out) | released(self.defences)

    def as_twin(self, kind: Literal["untrained", "disjoint"]) -> VictimSpec:
        """Return the victim's twin of that kind."""
        return self.model_copy(update={"name": f"{self.name}~{kind}", "twin": kind, "reported_test_accuracy": None})
