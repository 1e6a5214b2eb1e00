"""The records of a victim of the informed adversary: the fixed set, the targets and the shadow pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from victims import datasets
from victims.deletion.spec import DeletionSpec
from victims.errors import UserError
from victims.informed.spec import GLMSpec, InformedSpec

TEST = 1000
"""Largest number of images of the source's test set, the first ones, that measure the accuracy."""


@dataclass(frozen=True)
class Records:
    """Images and labels.

    Attributes:
        images: (k, C, H, W) float32 in [0, 1]; k may be 0.
        labels: (k,) int64.
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def __getitem__(self, chosen: slice | np.ndarray) -> Records:
        return Records(self.images[chosen], self.labels[chosen])


@dataclass(frozen=True)
class InformedSplit:
    """The records of one victim.

    Attributes:
        fixed: D_-, in every model's training set; the adversary has it.
        targets: the secrets; model i was trained on the fixed set and target i.
        pool: the adversary's shadow pool.
        test: the records on which the accuracy is measured.
        prior: (T, N) for each target the indices of the N targets of which the adversary knows that it is one; None
            where the adversary knows none.

    Raises:
        UserError: a target is also in the fixed set or in the shadow pool, or not in its own prior.
    """

    fixed: Records
    targets: Records
    pool: Records
    test: Records
    prior: np.ndarray | None = None

    def __post_init__(self) -> None:
        secret = {image.tobytes(): place for place, image in enumerate(self.targets.images)}
        for name, known in (("fixed set", self.fixed), ("shadow pool", self.pool)):
            for place, image in enumerate(known.images):
                if (target := secret.get(image.tobytes())) is not None:
                    raise UserError(f"target {target} is also record {place} of the {name}; targets must be secret")
        if self.prior is not None:
            missing = (self.prior != np.arange(len(self.prior))[:, None]).all(1)
            if missing.any():
                raise UserError(f"target {int(missing.argmax())} is none of the {self.prior.shape[1]} of its prior")

    @property
    def decoys(self) -> np.ndarray | None:
        """The records of each target's prior that it is not, (T, N - 1, C, H, W); None where there is no prior."""
        if self.prior is None:
            return None
        others = self.prior[self.prior != np.arange(len(self.prior))[:, None]]
        decoys: np.ndarray = self.targets.images[others.reshape(len(self.prior), -1)]
        return decoys

    @property
    def known(self) -> Records:
        """The records that the adversary has: the fixed set and the shadow pool."""
        return Records(*(np.concatenate(pair) for pair in zip(*map(_arrays, (self.fixed, self.pool)), strict=True)))


def _arrays(records: Records) -> tuple[np.ndarray, np.ndarray]:
    return records.images, records.labels


def split_of(spec: InformedSpec | GLMSpec, data_dir: Path | None) -> InformedSplit:
    """Return the records of a victim.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.

    Raises:
        UserError: the data are missing or too few, a label is none of the model's, or sets overlap.
    """
    raw = datasets.load(spec.dataset, data_dir).in_order_of(spec.retraining)
    train, test = Records(raw.train_images, raw.train_labels), Records(raw.test_images, raw.test_labels)
    needed = spec.n + spec.targets
    if needed > len(train):
        raise UserError(
            f"{spec.name}: {spec.n} fixed records and {spec.targets} targets need {needed} training images, "
            f"but {spec.dataset} has {len(train)}"
        )
    pool = train[needed:]
    if spec.shadow_dataset:
        foreign = datasets.load(spec.shadow_dataset, data_dir)
        if foreign.train_images.shape[1:] != train.images.shape[1:]:
            shapes = f"{foreign.train_images.shape[1:]}, not {train.images.shape[1:]}"
            raise UserError(f"{spec.name}: images of the shadow dataset {spec.shadow_dataset} are {shapes}")
        known = foreign.train_labels < spec.n_classes
        pool = Records(foreign.train_images[known], foreign.train_labels[known])
    tested = test[:TEST] if len(test) else train[needed:]
    parts = (train[: spec.n], train[spec.n : needed], pool, tested)
    fixed, targets, pool, tested = (relabelled(spec, part) for part in parts)
    return InformedSplit(fixed, targets, pool, tested, _prior(spec))


def _prior(spec: InformedSpec | GLMSpec) -> np.ndarray | None:
    """Return the prior of each target, (T, N) indices of targets in an order of its own: its place tells nothing.

    The targets of a group share their prior. A guess that ignores the model is then right for one target of each group,
    so that chance is 1/N exactly.
    """
    if spec.prior is None:
        return None
    random = np.random.default_rng([spec.seed, 2])
    groups = np.arange(spec.targets).reshape(-1, spec.prior).repeat(spec.prior, 0)
    prior: np.ndarray = random.permuted(groups, axis=1)
    return prior


def relabelled(spec: InformedSpec | GLMSpec | DeletionSpec, records: Records) -> Records:
    """Return records with the classes that the model tells apart; a regression keeps its labels.

    Raises:
        UserError: a label is no class of the model.
    """
    if spec.n_classes == 1:
        return records
    labels = records.labels
    if spec.n_classes == 2 and spec.dataset in datasets.GROUPS:
        labels = np.isin(labels, datasets.GROUPS[spec.dataset][1]).astype(np.int64)
    if len(labels) and labels.max() >= spec.n_classes:
        raise UserError(f"{spec.name}: {spec.dataset} has the label {labels.max()}; the model has {spec.n_classes}")
    return Records(records.images, labels)
