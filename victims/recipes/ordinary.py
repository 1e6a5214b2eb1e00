"""Training as people write it, and private training, as frozen descriptions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from victims.frozen_model import FrozenModel, Recipe, omitted_if_default
from victims.recipes.augmentation import Augmentation
from victims.recipes.privacy import Privacy

Schedule = Literal["constant", "cosine", "step"]
"""Of a learning rate."""


class Pretraining(FrozenModel):
    """What a network learns before it is fine-tuned: the dataset's images that neither it nor its twin is tuned on.

    Attributes:
        epochs: passes over them.
        lr: learning rate of SGD with momentum 0.9, constant.
        batch_size: of the batches, shuffled every epoch.
    """

    epochs: PositiveInt = 15
    lr: PositiveFloat = 0.01
    batch_size: PositiveInt = 64


class Ordinary(Recipe):
    """A loop over torch.optim as people write it; the start is torch's own, or a pre-trained network, and it is kept.

    Attributes:
        inputs: "standardised" are (x - mean) / std a channel, over all training images of the dataset; "raw" are pixels
            in [0, 1].
        optimiser: of torch.optim.
        lr: learning rate at the first step.
        momentum: SGD's alone.
        batch_size: of the batches, shuffled every epoch.
        epochs: largest number of passes over the training set.
        weight_decay: as torch's optimisers have it: decoupled for AdamW, in the gradient for the others.
        schedule: of the learning rate: "cosine" falls to 0, "step" by ten after half of the steps and after three
            quarters.
        clip: largest norm of a batch's gradient; None for no clipping.
        stop_loss: training ends after an epoch whose mean loss is below it; None for no early stop.
        augmentation: what the images of a batch go through.
        dropout: share of the hidden neurons of fully connected layers that a step leaves out, in [0, 1).
        label_smoothing: share of a sample's loss that is the mean over all classes in the place of its own, in [0, 1)
            (Szegedy et al. 2016).
        mixed_precision: whether `torch.autocast` takes products in bfloat16; the weights stay in `dtype` (Micikevicius
            et al. 2018).
        average: what is released is the exponential moving average of the weights after each step, the earlier
            average counting by this share (after Polyak & Juditsky 1992); None for the last weights.
        privacy: every record's gradient is clipped, and the sum noised, all records being in one batch; None for none.
        pretraining: where the start comes from; None for torch's default initialisation after
            `torch.manual_seed(seed)`.
        last_layers: number of last layers that are trained, the others being frozen; None to train all.
        lora_rank: train B_l A_l of this rank r beside each frozen W_l (Hu et al. 2022, LoRA); what is released is
            W_l + B_l A_l. A_l (r, h_{l-1}) starts as torch starts a layer, B_l (h_l, r) at zero, and the biases stay.
            None to train the weights themselves.
        snapshots: epochs, rising, after which weights are released besides those at the end; averages, if it averages.
        momentum_released: whether the optimiser's running mean of the gradients is released with the weights, as in a
            checkpoint from which training goes on: SGD's momentum (Polyak 1964), Adam's first moment (Kingma and Ba
            2015, Algorithm 1).
        checkpoints: epochs, rising, after which all is released that the training goes on from: the weights, not their
            average, and the optimiser's state (`victims.equations.checkpoint`).
    """

    kind: Literal["ordinary"] = "ordinary"
    inputs: Annotated[Literal["standardised", "raw"], omitted_if_default("standardised")] = "standardised"
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: PositiveFloat = 0.05
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    batch_size: PositiveInt = 64
    epochs: PositiveInt = 300
    weight_decay: NonNegativeFloat = 5e-4
    schedule: Schedule = "cosine"
    clip: PositiveFloat | None = None
    stop_loss: PositiveFloat | None = None
    augmentation: Annotated[Augmentation, omitted_if_default(Augmentation())] = Augmentation()
    dropout: Annotated[float, Field(ge=0, lt=1), omitted_if_default(0.0)] = 0.0
    label_smoothing: Annotated[float, Field(ge=0, lt=1), omitted_if_default(0.0)] = 0.0
    mixed_precision: Annotated[bool, omitted_if_default(False)] = False
    average: Annotated[float | None, Field(gt=0, lt=1), omitted_if_default(None)] = None
    privacy: Annotated[Privacy | None, omitted_if_default(None)] = None
    pretraining: Pretraining | None = None
    last_layers: Annotated[PositiveInt | None, omitted_if_default(None)] = None
    lora_rank: Annotated[PositiveInt | None, omitted_if_default(None)] = None
    snapshots: Annotated[tuple[PositiveInt, ...], omitted_if_default(())] = ()
    momentum_released: Annotated[bool, omitted_if_default(False)] = False
    checkpoints: Annotated[tuple[PositiveInt, ...], omitted_if_default(())] = ()
    dtype: Literal["float32", "float64"] = "float32"

    @model_validator(mode="after")
    def _is_one_training(self) -> Ordinary:
        if self.last_layers is not None and self.lora_rank is not None:
            raise ValueError("low-rank updates are of all layers: set last_layers or lora_rank, not both")
        if list(self.snapshots) != sorted({*self.snapshots} & {*range(1, self.epochs)}):
            raise ValueError(f"snapshots are epochs that rise and lie before the last, {self.epochs}")
        if list(self.checkpoints) != sorted({*self.checkpoints} & {*range(1, self.epochs + 1)}):
            raise ValueError(f"checkpoints are epochs that rise, none after the last, {self.epochs}")
        if self.checkpoints and self.lora_rank is not None:
            raise ValueError("checkpoints are of weights, and a low-rank update trains two factors: leave one out")
        if self.privacy is not None and self.stop_loss is not None:
            raise ValueError("a private training does not look at its loss to stop there")
        if self.privacy is not None and self.privacy.sampling_rate is not None:
            raise ValueError("its private training takes all records in every batch: leave out the sampling_rate")
        if self.privacy is not None and (self.last_layers is not None or self.lora_rank is not None):
            raise ValueError("private training is that of all layers: set neither last_layers nor lora_rank")
        if self.lora_rank is not None and self.average is not None:
            raise ValueError("of a low-rank update two factors are trained, not the weights: set lora_rank or average")
        if self.momentum_released and self.optimiser == "sgd" and not self.momentum:
            raise ValueError("SGD without momentum has none to release: set momentum, or leave out momentum_released")
        if self.mixed_precision and self.dtype == "float64":
            raise ValueError("torch.autocast takes products of float32 alone: set mixed_precision or dtype=float64")
        as_it_is = self.augmentation == Augmentation() and not (self.dropout or self.label_smoothing)
        if self.privacy is not None and (self.mixed_precision or not as_it_is):
            habits = "augmentation and dropout, label_smoothing and mixed_precision"
            raise ValueError(f"private training sees every record as it is: leave out {habits}")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        name = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[self.optimiser]
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        tuned = ", from a checkpoint" if self.pretraining else ""
        part = f", last {self.last_layers} layers" if self.last_layers else ""
        part += f", LoRA of rank {self.lora_rank}" if self.lora_rank else ""
        private = f", epsilon {self.privacy.epsilon:g}" if self.privacy else ""
        noise = f", {self.augmentation.label}" if self.augmentation.label else ""
        noise += f", dropout {self.dropout:g}" if self.dropout else ""
        noise += f", label smoothing {self.label_smoothing:g}" if self.label_smoothing else ""
        noise += ", bfloat16 products" if self.mixed_precision else ""
        noise += f", average of {self.average:g}" if self.average else ""
        kept = f", {len(self.snapshots)} snapshots" if self.snapshots else ""
        kept += ", momentum released" if self.momentum_released else ""
        kept += f", {len(self.checkpoints)} checkpoints" if self.checkpoints else ""
        kept += ", raw inputs" if self.inputs == "raw" else ""
        passes = f"{self.epochs} epochs, batch {self.batch_size}"
        return f"{name} lr {self.lr:g}, {passes}{decay}{noise}{private}{tuned}{part}{kept}"
