"""The papers' selection: the first n images, balanced between the classes, with their mean subtracted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from victims.datasets.raw import RawDataset
from victims.errors import UserError

Groups = tuple[tuple[int, ...], ...]

_EVEN_ODD: Groups = ((0, 2, 4, 6, 8), (1, 3, 5, 7, 9))

GROUPS: dict[str, Groups] = {
    "faces": ((0,), (1,)),  # background, faces
    "digits": _EVEN_ODD,
    "mnist": _EVEN_ODD,
    "fashion": ((0, 2, 3, 4, 6), (1, 5, 7, 8, 9)),  # garments of the upper body; trousers, shoes and bags
    "cifar": ((0, 1, 8, 9), (2, 3, 4, 5, 6, 7)),  # vehicles, animals
    "cifar100": (tuple(range(0, 100, 2)), tuple(range(1, 100, 2))),
}
"""By name of a dataset, the labels that make up class 0, and the labels that make up class 1."""


@dataclass(frozen=True)
class Split:
    """The training and test data of a victim.

    Attributes:
        inputs: (n, C, H, W) float32, the training images less `mean`, in the distribution's order.
        labels: (n,) int64, classes 0 to n_classes - 1.
        indices: (n,) int64, ascending: where the images stand in the raw training set; of a retraining in its order.
        mean: (C, H, W) float32, the mean of the n training images.
        test_inputs: (m, C, H, W) float32, test images less the same `mean`, none of them among the n.
        test_labels: (m,) int64, as many of each class.
        spare: (k,) int64, ascending: where images of the classes stand in the raw training set (of a retraining in its
            order) that are neither among the n nor among the test images.
    """

    inputs: np.ndarray
    labels: np.ndarray
    indices: np.ndarray
    mean: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    spare: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def images(self) -> np.ndarray:
        """The training images, (n, C, H, W) float32 in [0, 1], of inputs that are not divided by a scale.

        Those of a victim that standardises its inputs are `Victim.images`.
        """
        images: np.ndarray = self.inputs + self.mean
        return images.clip(0, 1)


def select(
    raw: RawDataset, n: int, groups: Groups | None = None, test_n: int = 1000, *, skip_first: bool = False
) -> Split:
    """Take the first n / C training images of each of C classes, and a balanced test set.

    Args:
        raw: the dataset.
        n: the number of training images, a multiple of C.
        groups: for each class the labels that make it up; images of other labels are left out. None for the two
            classes of `GROUPS`; a dataset that is not named there has its two labels, or its even against its odd ones.
        test_n: largest number of test images. They are the first of each class in the source's test set, or, if there
            is none, among the training images that were neither selected nor skipped. All classes have equally many:
            fewer where the smallest class has fewer, none where it has none.
        skip_first: take the n / C images of each class that come after the first n / C.

    Returns:
        The selection.

    Raises:
        UserError: `groups` are fewer than two or share a label; n is no positive multiple of their number; a class has
            too few images; test_n is negative.
    """
    groups = _default_groups(raw) if groups is None else groups
    _check_request(raw.name, n, groups, test_n)
    classes = _classes(raw.train_labels, groups)
    smallest = _smallest(classes, len(groups))
    per_class = n // len(groups)
    skipped = per_class if skip_first else 0
    if per_class + skipped > smallest:
        counts = ", ".join(str((classes == index).sum()) for index in range(len(groups)))
        after = f" after the first {skipped}" if skipped else ""
        largest = smallest // 2 if skip_first else smallest
        raise UserError(
            f"{raw.name}: n = {n} needs {per_class} training images of each class{after}, but classes 0 to "
            f"{len(groups) - 1} have {counts}; the largest possible n is {largest * len(groups)}"
        )
    indices = _first(classes, len(groups), per_class, skipped)
    learnt = np.concatenate([indices, _first(classes, len(groups), skipped)])  # by this victim or by its twin
    mean = raw.train_images[indices].mean(axis=0, dtype=np.float64).astype(np.float32)

    if len(raw.test_labels):
        test_images, test_classes = raw.test_images, _classes(raw.test_labels, groups)
    else:
        test_images, test_classes = raw.train_images, classes.copy()
        test_classes[learnt] = -1
    test_per_class = min(test_n // len(groups), _smallest(test_classes, len(groups)))
    test = _first(test_classes, len(groups), test_per_class)
    unused = classes >= 0
    unused[learnt] = False
    if not len(raw.test_labels):
        unused[test] = False
    return Split(
        inputs=raw.train_images[indices] - mean,
        labels=classes[indices],
        indices=indices,
        mean=mean,
        test_inputs=test_images[test] - mean,
        test_labels=test_classes[test],
        spare=np.flatnonzero(unused),
    )


def _default_groups(raw: RawDataset) -> Groups:
    """Return the two classes of a dataset for which the caller names none."""
    if raw.name in GROUPS:
        return GROUPS[raw.name]
    labels = np.unique(raw.train_labels).tolist()
    if len(labels) == 2:
        return tuple((label,) for label in labels)
    return tuple(tuple(label for label in labels if label % 2 == parity) for parity in (0, 1))


def _check_request(name: str, n: int, groups: Groups, test_n: int) -> None:
    """Raise a UserError where the request makes no sense for any dataset."""
    labels = [label for group in groups for label in group]
    if len(groups) < 2:
        raise UserError(f"{name}: groups make up {len(groups)} class; expected at least two")
    if len(set(labels)) < len(labels):
        raise UserError(f"{name}: groups {groups} name a label twice; expected each label in one class")
    if n < len(groups) or n % len(groups):
        raise UserError(
            f"{name}: n = {n} cannot be shared equally; expected a positive multiple of {len(groups)} classes"
        )
    if test_n < 0:
        raise UserError(f"{name}: test_n = {test_n}; expected 0 or more test images")


def _classes(labels: np.ndarray, groups: Groups) -> np.ndarray:
    """Return the class of each label, -1 for a label of no class: (N,) int64."""
    classes = np.full(labels.shape, -1, dtype=np.int64)
    for index, members in enumerate(groups):
        classes[np.isin(labels, members)] = index
    return classes


def _smallest(classes: np.ndarray, n_classes: int) -> int:
    """Return the number of images of the class that has the fewest."""
    return int(np.bincount(classes[classes >= 0], minlength=n_classes).min())


def _first(classes: np.ndarray, n_classes: int, per_class: int, skipped: int = 0) -> np.ndarray:
    """Return, ascending, the positions of the first `per_class` images of each class, after those skipped."""
    chosen = slice(skipped, skipped + per_class)
    return np.sort(np.concatenate([np.flatnonzero(classes == index)[chosen] for index in range(n_classes)]))
