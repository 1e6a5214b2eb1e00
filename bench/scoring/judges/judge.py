"""A trained judge, and the divergence that it measures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bench.scoring.judges.networks import Network
from victims.cache import StoredCard

_CHUNK = 500
"""Images that are classified at once: it bounds the memory."""


class JudgeCard(StoredCard):
    """The description of a judge, stored beside its weights.

    Accuracy in [0, 1] and loss (mean cross-entropy, nats) are those on `n_test` images that it was not trained on: the
    dataset's test set, or, if `held_out`, a fifth of its training set.
    """

    dataset: str
    network: Network
    shape: tuple[int, int, int]
    n_classes: int
    n_train: int
    n_test: int
    held_out: bool
    accuracy: float
    loss: float
    steps: int
    seed: int


@dataclass(frozen=True)
class Judge:
    """A classifier of a dataset's images.

    Attributes:
        card: what is known of it.
        model: takes images (k, C, H, W) in [0, 1] and gives logits (k, n_classes); in evaluation mode.
    """

    card: JudgeCard
    model: nn.Module

    @property
    def label(self) -> str:
        """The judge in a few words, such as `judge lenet on mnist, accuracy 0.991`."""
        return f"judge {self.card.network} on {self.card.dataset}, accuracy {self.card.accuracy:.3f}"

    @torch.no_grad()
    def kl(self, images: Tensor, references: Tensor) -> Tensor:
        """Kullback-Leibler divergence between the judge's outputs for a reference and for an image.

        Args:
            images: (k, C, H, W) in [0, 1], the reconstructions.
            references: (k, C, H, W) in [0, 1], the true images.

        Returns:
            (k,) float32, KL(p(reference) || p(image)) in nats, at least 0, on the device of the images; NaN where
            either image has a pixel that is NaN or infinite.

        Raises:
            ValueError: the batches differ in shape, or are not of the judge's.

        Source:
            Balle et al. 2022, section 5.2. The paper does not state the direction; the reference comes first here, so
            that what the judge is sure of in the true image and misses in the reconstruction costs most.
        """
        if images.shape != references.shape or tuple(images.shape[1:]) != self.card.shape:
            raise ValueError(
                f"expected two (k, {', '.join(map(str, self.card.shape))}) batches of one length, "
                f"got {tuple(images.shape)} and {tuple(references.shape)}"
            )
        image, reference = self._log_probabilities(images), self._log_probabilities(references)
        divergence = (reference.exp() * (reference - image)).sum(1).clamp(min=0)
        finite = (images + references).isfinite().all(dim=3).all(dim=2).all(dim=1)
        return torch.where(finite, divergence, math.nan).float()

    def _log_probabilities(self, images: Tensor) -> Tensor:
        """Return log-probabilities (k, n_classes), float64, on the images' device."""
        parameter = next(self.model.parameters())
        logits = [self.model(chunk.to(parameter)).to(images.device) for chunk in images.split(_CHUNK)]
        return torch.cat(logits).double().log_softmax(1)
