"""The records of a victim that deletes some: those that stay, the targets, and what is public."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from victims import datasets
from victims.deletion.spec import DeletionSpec
from victims.errors import UserError
from victims.informed.data import TEST, Records, relabelled


@dataclass(frozen=True)
class DeletionSplit:
    """The records of one victim.

    Attributes:
        retained: in both releases.
        targets: the secrets, in the first release alone.
        pool: public records of the same distribution, none of them a target.
        test: the records on which the accuracy is measured.

    Raises:
        UserError: a target is also public.
    """

    retained: Records
    targets: Records
    pool: Records
    test: Records

    def __post_init__(self) -> None:
        public = {image.tobytes() for image in self.pool.images}
        for place, image in enumerate(self.targets.images):
            if image.tobytes() in public:
                raise UserError(f"target {place} is also a public record; targets must be secret")

    @property
    def known(self) -> Records:
        """The records that the adversary has: the public ones."""
        return self.pool


def split_of(spec: DeletionSpec, data_dir: Path | None) -> DeletionSplit:
    """Return the records of a victim.

    Args:
        spec: the victim.
        data_dir: the data folder, None for the default.

    Raises:
        UserError: the data are missing or too few, a label is none of the model's, or a target is public.
    """
    raw = datasets.load(spec.dataset, data_dir).in_order_of(spec.retraining)
    train, test = (
        relabelled(spec, Records(raw.train_images, raw.train_labels)),
        relabelled(spec, Records(raw.test_images, raw.test_labels)),
    )
    if spec.n >= len(train):
        raise UserError(
            f"{spec.name}: {spec.n} training records leave no public ones: {spec.dataset} has {len(train)}; lower n"
        )
    pool, kept = train[spec.n :], spec.n - spec.targets
    return DeletionSplit(train[:kept], train[kept : spec.n], pool, test[:TEST] if len(test) else pool[:TEST])
