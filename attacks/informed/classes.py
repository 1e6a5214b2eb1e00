"""The class of an unknown record, read off the direction in which it moved the weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.informed.networks import Parameters, forward
from victims.informed.spec import DenseSpec, SmallCNNSpec


@dataclass(frozen=True)
class Probes:
    """Records that are added to the fixed set, to measure how a record of each class moves the weights.

    Attributes:
        images: (r, C, H, W): of each class in the fixed set first the mean image, then the hardest records.
        labels: (r,) their classes.
        means: (classes, C, H, W) the mean image of each class; the mean of all images for a class that is not there.
    """

    images: Tensor
    labels: Tensor
    means: Tensor

    @classmethod
    def of(
        cls, spec: DenseSpec | SmallCNNSpec, model: Parameters, images: Tensor, labels: Tensor, hardest: int
    ) -> Probes:
        """Return probes from the fixed set.

        Args:
            spec: the architecture.
            model: one released model.
            images: (n, C, H, W) of the fixed set.
            labels: (n,) its classes.
            hardest: number of records of each class, those with the largest loss under `model`.
        """
        losses = F.cross_entropy(forward(spec, model, images), labels, reduction="none")
        chosen, classes, means = [], [], []
        for label in range(spec.outputs):
            members = (labels == label).nonzero()[:, 0]
            means.append(images[members].mean(0) if len(members) else images.mean(0))
            if len(members):
                hard = members[losses[members].argsort(descending=True)[:hardest]]
                chosen += [means[-1][None], images[hard]]
                classes += [label] * (1 + len(hard))
        return cls(torch.cat(chosen), torch.tensor(classes, device=images.device), torch.stack(means))


def rank_classes(released: Tensor, probed: Tensor, labels: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    """Return the classes of unknown records, ranked by the direction in which the weights moved.

    The weights without the unknown record are estimated by the median over the probes: A(D_-) has one record less, and
    so other mini-batches.

    Args:
        released: (T, p) parameters of the released models.
        probed: (r, p) parameters of the models of the probes.
        labels: (r,) the probes' classes.
        outputs: number of classes.

    Returns:
        Classes (T, outputs), likeliest first, by the largest cosine with a probe of the class; and the squared distance
        (T,) by which the unknown record moved the weights.
    """
    centre = probed.median(0).values
    moved = released - centre
    cosines = F.normalize(moved, dim=1) @ F.normalize(probed - centre, dim=1).T
    absent = cosines.new_full((len(released), 1), -2.0)
    best = [torch.cat([cosines[:, labels == label], absent], 1).amax(1) for label in range(outputs)]
    return torch.stack(best, 1).argsort(dim=1, descending=True), moved.square().sum(1)
