"""Scoring protocols: how candidates become one reconstruction per training image, and which count as good.

Matching, voting and rescaling are part of a published number, so each recipe has a name, and no board mixes names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bench.scoring.matching import assign, ncc_distance, stretch, vote
from bench.scoring.metrics import WANG_WINDOW, mse, psnr, ssim_wang, ssim_window3


@dataclass(frozen=True)
class Protocol:
    """One way from candidates to scores.

    Attributes:
        name: As in tables.
        downscale: Factor by which colour images are shrunk before matching. Grey images (one channel) are always
            matched at full resolution, as in the authors' MNIST notebook.
        vote_ratio: None for the nearest candidate alone, else the ratio of `vote`.
        one_to_one: Whether a candidate may serve only one training image; there is no voting then.
        stretch: Whether candidate + mean is stretched to fill [0, 1] (else clipped to it).
        ssim: The SSIM that `threshold` judges; "wang" falls back to "window3" for images under 11 pixels.
        threshold: An image is good when its SSIM is above this.
        source: Where the recipe comes from.
    """

    name: str
    downscale: float
    vote_ratio: float | None
    one_to_one: bool
    stretch: bool
    ssim: Literal["window3", "wang"]
    source: str
    threshold: float = 0.4


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("haim2022-min", 0.5, None, False, True, "window3", "Haim et al. 2022, notebooks (ncc2, vote min)"),
        Protocol("haim2022-mean", 0.5, 1.1, False, True, "window3", "Haim et al. 2022, code (ncc2, vote mean, 1.1)"),
        Protocol("buzaglo2023", 1.0, 1.1, False, True, "wang", "Buzaglo et al. 2023, eq. 16, B = 1.1"),
        Protocol("buzaglo2023-unique", 1.0, None, True, True, "wang", "buzaglo2023, a candidate counts once"),
        Protocol("assigned", 1.0, None, True, False, "wang", "one to one, nothing rescaled"),
    )
}


@dataclass(frozen=True)
class Scores:
    """What one protocol says of one set of candidates; tensors are per training image.

    A training image that no candidate serves (fewer candidates than images, or none finite) is reconstructed by the
    mean image: its metrics are the mean image's and enter the means, but it is never good nor among the best.

    Attributes:
        protocol: The protocol that was followed.
        ssim: (n,) the protocol's SSIM.
        ssim_window3: (n,) the authors' SSIM, whatever the protocol.
        mse: (n,) of the reconstruction as rescaled by the protocol.
        psnr: (n,) dB, likewise.
        candidate: (n,) int64, the nearest or assigned candidate; -1 if none.
        voters: (n,) int64, how many candidates the reconstruction averages.
        reconstruction: (n, C, H, W) in [0, 1].
    """

    protocol: Protocol
    ssim: Tensor
    ssim_window3: Tensor
    mse: Tensor
    psnr: Tensor
    candidate: Tensor
    voters: Tensor
    reconstruction: Tensor

    @property
    def found(self) -> Tensor:
        """(n,) bool: a candidate serves the image."""
        return self.candidate >= 0

    @property
    def good(self) -> Tensor:
        """(n,) bool: a candidate serves the image and the SSIM is above the protocol's threshold."""
        return self.found & (self.ssim > self.protocol.threshold)

    @property
    def n_good(self) -> int:
        """Number of good images."""
        return int(self.good.sum())

    @property
    def ssim_mean(self) -> float:
        """Mean SSIM over all training images."""
        return float(self.ssim.mean())

    @property
    def ssim_top10(self) -> float:
        """Mean SSIM of the ten best found images (of all, if fewer); NaN if none was found."""
        return float(self.ssim[self.found].sort(descending=True).values[:10].mean())

    @property
    def ssim_best(self) -> float:
        """Best SSIM of a found image; NaN if none was found."""
        return max(self.ssim[self.found].tolist(), default=float("nan"))

    @property
    def mse_mean(self) -> float:
        """Mean MSE over all training images."""
        return float(self.mse.mean())

    @property
    def mse_best(self) -> float:
        """Least MSE of a found image; NaN if none was found."""
        return min(self.mse[self.found].tolist(), default=float("nan"))


def _check(candidates: Tensor, truth_images: Tensor, mean: Tensor) -> None:
    shape = tuple(truth_images.shape[1:])
    if truth_images.ndim != 4 or len(truth_images) == 0:
        raise ValueError(f"truth_images must be (n, C, H, W) with n > 0, got {tuple(truth_images.shape)}")
    if tuple(candidates.shape[1:]) != shape or tuple(mean.shape) != shape:
        raise ValueError(
            f"images are {shape}, candidates (m, C, H, W) {tuple(candidates.shape)}, mean {tuple(mean.shape)}"
        )
    if not (truth_images.min() >= 0 and truth_images.max() <= 1):
        raise ValueError("truth_images must lie in [0, 1]")


@torch.no_grad()
def score(protocol: Protocol, candidates: Tensor, truth_images: Tensor, mean: Tensor) -> Scores:
    """Score an attack's candidates against the training set.

    Args:
        protocol: One of `PROTOCOLS`, or another.
        candidates: (m, C, H, W) in the victim's input space, any scale, m may be 0; NaN and infinite ones never serve.
        truth_images: (n, C, H, W) training images in [0, 1].
        mean: (C, H, W), what the victim subtracts from an image in [0, 1] (zeros if nothing).

    Returns:
        The scores, on the device of the tensors given.

    Raises:
        ValueError: Shapes do not fit, there is no training image, or one leaves [0, 1].
    """
    _check(candidates, truth_images, mean)
    colour, height, width = mean.shape[0] > 1, *mean.shape[1:]
    distance = ncc_distance(truth_images - mean, candidates, protocol.downscale if colour else 1.0)
    if protocol.one_to_one:
        served, candidate, voters = assign(candidates, distance)
    else:
        served, candidate, voters = vote(candidates, distance, protocol.vote_ratio)
    shown = stretch(served + mean) if protocol.stretch else served + mean
    reconstruction = torch.where((candidate >= 0)[:, None, None, None], shown, mean).clamp(0, 1)

    window3 = ssim_window3(reconstruction, truth_images)
    wang = protocol.ssim == "wang" and min(height, width) >= WANG_WINDOW
    return Scores(
        protocol=protocol,
        ssim=ssim_wang(reconstruction, truth_images) if wang else window3,
        ssim_window3=window3,
        mse=mse(reconstruction, truth_images),
        psnr=psnr(reconstruction, truth_images),
        candidate=candidate,
        voters=voters,
        reconstruction=reconstruction,
    )
