"""The start of an optimising attack: noise, images that are no members, the training images, or a mixture.

Most of what a reconstruction attack returns depends on it (Runkel et al. 2024, Figs. 1-4 and 10): an image that is put
in comes out again, member or not. A start from the training images is an oracle, for experiments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field, PositiveFloat

from attacks.base import Attack, AttackParams, Knowledge, VictimView

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Share = Annotated[float, Field(ge=0, le=1)]
NOISE = ("normal", "uniform")


class InitialisedParams(AttackParams):
    """Parameters of an attack that starts from images.

    Attributes:
        init: "normal" and "uniform" noise; "truth", the training images (an oracle); "partition", images of the same
            distribution that are no members; "mixture", see `mixture`.
        init_scale: standard deviation of the normal noise, half the width of the uniform one, which is centred: the
            papers' U(0, 1) less its mean has 0.5.
        mixture: (l1, l2) of x = l2 (l1 truth + (1 - l1) partition) + (1 - l2) uniform noise (Runkel et al., eq. 10).
    """

    init: Literal["normal", "uniform", "truth", "partition", "mixture"] = "normal"
    init_scale: PositiveFloat = 0.5
    mixture: tuple[Share, Share] = (0.5, 0.5)

    def shares(self) -> tuple[float, float]:
        """Return the weights of the training images and of the partition in the start; noise has the rest."""
        if self.init in NOISE:
            return 0.0, 0.0
        l1, l2 = {"truth": (1.0, 1.0), "partition": (0.0, 1.0)}.get(self.init, self.mixture)
        return l1 * l2, (1 - l1) * l2

    def start_needs(self) -> frozenset[Knowledge]:
        """Return the knowledge that the start needs."""
        truth, partition = self.shares()
        items = {Knowledge.TRAINING_IMAGES: truth, Knowledge.SHADOW_POOL: partition}
        return frozenset(item for item, share in items.items() if share)


InitialisedT = TypeVar("InitialisedT", bound=InitialisedParams)


class InitialisedAttack(Attack[InitialisedT]):
    """An attack whose parameters say where it starts; its start may need more knowledge than `needs`."""

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, and those that its start needs."""
        return self.needs | self.params.start_needs()


def initial(params: InitialisedParams, view: VictimView, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Return the start of every candidate, (m, C, H, W) float32 on the CPU.

    Args:
        params: the kind of start.
        view: the victim, which must show what `params.start_needs()` names.
        labels: (m,) classes of the candidates. Each starts from an image of its own class: the k-th candidate of a
            class from its k-th image, and from the first again after the last.
        generator: CPU generator of the noise, which is drawn even if it has no share.

    Raises:
        ValueError: there is no image of some class to start from.
    """
    import torch

    shape = (len(labels), *view.architecture.input_shape)
    normal = params.init == "normal"
    noise = torch.randn(shape, generator=generator) if normal else 2 * torch.rand(shape, generator=generator) - 1
    truth, partition = params.shares()
    start = noise * (params.init_scale * (1 - truth - partition))
    if truth:
        start += truth * _of_classes(*view.training_images, labels)
    if partition:
        start += partition * _of_classes(*view.shadow_pool, labels)
    return start


def balanced_labels(m: int, balance: tuple[float, ...]) -> Tensor:
    """Return m class indices (m,), class by class, in the proportions of `balance`."""
    import torch

    ends = [round(m * sum(balance[: index + 1])) for index in range(len(balance))]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return torch.arange(len(balance)).repeat_interleave(torch.tensor(counts))


def _of_classes(images: Tensor, classes: Tensor, labels: Tensor) -> Tensor:
    """Return images (m, C, H, W) of the classes `labels` (m,), on the CPU.

    Args:
        images: (k, C, H, W) to choose from.
        classes: (k,) their classes.
        labels: (m,) the classes that are wanted.
    """
    import torch

    images, classes, labels = images.float().cpu(), classes.cpu(), labels.cpu()
    chosen = torch.empty(len(labels), dtype=torch.long)
    for label in labels.unique().tolist():
        wanted, there = (labels == label).nonzero()[:, 0], (classes == label).nonzero()[:, 0]
        if not len(there):
            raise ValueError(f"there is no image of class {label} to start from")
        chosen[wanted] = there[torch.arange(len(wanted)) % len(there)]
    return images[chosen]
