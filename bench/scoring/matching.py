"""Which candidate reconstructs which training image.

An attack returns candidates in no particular order, some of them copies, some of them junk. Matching measures how far
every candidate is from every training image and picks, averages or assigns. It uses the training set, which the
attacker does not have: a matched score says what is among the candidates, not what the attacker could pick out.

Everywhere n counts training images and m candidates; both live in the victim's input space, (., C, H, W).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

_CHUNK = 2048
"""Candidates whose distances are computed at once: it bounds the memory, and changes no number."""

_DIVERGED = 1e18
"""A pixel of this size or more, infinite or NaN, spoils its candidate (its square would leave float32)."""

_SAME = 1e-9
"""Two normalised images at a smaller squared distance are one image up to rounding."""


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances (n, m) of the rows of a (n, D) and b (m, D), divided by D; float64 keeps small ones."""
    products = a @ b.T
    return (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * products).clamp(min=0) / a.shape[1]


def _normalised(images: Tensor, downscale: float) -> tuple[Tensor, Tensor]:
    """Return rows (k, D) of zero mean and unit deviation a channel, and which images (k,) have any deviation.

    A channel without variation becomes zeros (neither like nor unlike anything); an image of only such channels, or
    with a pixel that is not a reasonable number, has nothing to compare.
    """
    sane = (images.abs() < _DIVERGED).flatten(1).all(1)
    images = torch.where(sane[:, None, None, None], images, 0).double()
    if downscale != 1.0:
        images = F.interpolate(images, scale_factor=downscale, mode="bicubic", align_corners=False)
    pixels = images.flatten(2)
    deviation, mean = torch.std_mean(pixels, dim=2, correction=1, keepdim=True)
    varies = deviation > 1e-9 * pixels.abs().amax(2, keepdim=True)
    rows = torch.where(varies, (pixels - mean) / deviation, 0).flatten(1)
    return rows, varies.flatten(1).any(1)


def ncc_distance(truth: Tensor, candidates: Tensor, downscale: float = 1.0) -> Tensor:
    """Squared distance of normalised images: 0 if alike up to a x + b with a > 0 in each channel, about 2 if unrelated.

    Args:
        truth: (n, C, H, W) training images in the victim's input space.
        candidates: (m, C, H, W) in the same space.
        downscale: factor by which both are shrunk first (bicubic), in (0, 1]; 0.5 is half resolution.

    Returns:
        (n, m) float64 in [0, 4], never NaN. A candidate that is constant or holds NaN or infinity is at distance inf of
        every image, and a constant training image at distance inf of every candidate.

    Raises:
        ValueError: the images differ in shape.

    Source:
        Buzaglo et al. 2023, eq. 16, with mean and deviation (ddof 1) per channel and the sum divided by D as in the
        authors' code (`ncc`; `ncc2` with downscale 0.5); the equation itself normalises over the whole image.
    """
    if truth.shape[1:] != candidates.shape[1:]:
        raise ValueError(f"training images are {tuple(truth.shape[1:])} but candidates {tuple(candidates.shape[1:])}")
    targets, comparable = _normalised(truth, downscale)
    distance = torch.full((len(truth), len(candidates)), torch.inf, dtype=torch.float64, device=truth.device)
    for start in range(0, len(candidates), _CHUNK):
        rows, usable = _normalised(candidates[start : start + _CHUNK], downscale)
        pairs = comparable[:, None] & usable
        distance[:, start : start + _CHUNK] = _squared_distances(targets, rows).where(pairs, torch.inf)
    return distance


def vote(candidates: Tensor, distance: Tensor, ratio: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """Reconstruct each training image from the candidates nearest to it; one candidate may serve many images.

    Args:
        candidates: (m, C, H, W).
        distance: (n, m), inf where a candidate must not serve.
        ratio: None takes the nearest candidate ("min"); a number above 1 averages all those whose distance is less
            than that many times the nearest one's ("mean").

    Returns:
        The voted images (n, C, H, W), the index of each image's nearest candidate (n,) and the number of its voters
        (n,). An image without a candidate at finite distance gets zeros, index -1 and 0 voters.

    Raises:
        ValueError: the ratio is not above 1.

    Source:
        Haim et al. 2022, published code (vote "min" and "mean"); Buzaglo et al. 2023, appendix (ratio B = 1.1).
    """
    if ratio is not None and ratio <= 1:
        raise ValueError(f"ratio must be above 1, got {ratio}")
    n, m = distance.shape
    if m == 0:
        none = torch.zeros(n, dtype=torch.long, device=distance.device)
        return candidates.new_zeros(n, *candidates.shape[1:]), none - 1, none
    nearest, index = distance.min(1)
    if ratio is None:
        voters = F.one_hot(index, m).bool() & distance.isfinite()
    else:
        voters = distance < ratio * nearest.clamp(min=_SAME)[:, None]
    count = voters.sum(1)
    serving = torch.where(voters.any(0)[:, None], candidates.flatten(1), 0)  # 0 x NaN would be NaN
    voted = voters.to(candidates.dtype) @ serving / count.clamp(min=1)[:, None]
    return voted.view(n, *candidates.shape[1:]), index.where(count > 0, -1), count


def assign_pairs(distance: Tensor) -> tuple[Tensor, Tensor]:
    """Pair training images and candidates, each used at most once, at the smallest total distance.

    Args:
        distance: (n, m) nonnegative; inf where a pair is forbidden.

    Returns:
        Training images (rows) and their candidates (columns), int64, of equal length at most min(n, m): as many pairs
        at finite distance as there can be.

    Source:
        The assignment problem, by scipy.optimize.linear_sum_assignment.
    """
    allowed = distance.isfinite()
    largest = distance.where(allowed, 0).max() if distance.numel() else 0.0
    forbidden = float(largest + 1) * (min(distance.shape) + 1)  # dearer than any assignment without it
    rows, columns = _cheapest(distance.where(allowed, forbidden))
    pairs = torch.as_tensor(rows, device=distance.device), torch.as_tensor(columns, device=distance.device)
    kept = allowed[pairs]
    return pairs[0][kept], pairs[1][kept]


def _cheapest(cost: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of a matrix, each used at most once, whose sum is the smallest."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost.cpu().numpy())
    return rows, columns


def assign(candidates: Tensor, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each training image by its one candidate of `assign_pairs`; arguments and results as of `vote`."""
    rows, columns = assign_pairs(distance)
    index = torch.full((len(distance),), -1, dtype=torch.long, device=distance.device)
    index[rows] = columns
    assigned = candidates.new_zeros(len(distance), *candidates.shape[1:])
    assigned[rows] = candidates[columns]
    return assigned, index, (index >= 0).long()


def in_order(candidates: Tensor, images: Tensor, together: int) -> Tensor:
    """Return candidates in the order of their images within each group, at the smallest sum of squared errors.

    Args:
        candidates: (n, C, H, W); one that is not finite comes where the others leave a place.
        images: (n, C, H, W) in [0, 1], in groups of `together` that follow each other.
        together: size of a group; 1 leaves all where they are.
    """
    if together == 1:
        return candidates
    order = torch.arange(len(candidates))
    for first in range(0, len(images), together):
        group = slice(first, first + together)
        error = torch.cdist(images[group].flatten(1), candidates[group].clamp(0, 1).flatten(1)).square()
        finite = candidates[group].isfinite().flatten(1).all(1)
        order[group] = first + torch.from_numpy(_cheapest(error.where(finite, _DIVERGED))[1])
    return candidates[order]


def stretch(images: Tensor) -> Tensor:
    """Stretch each image linearly to fill [0, 1], all channels together; a constant image becomes zeros.

    Args:
        images: (k, C, H, W), finite.

    Returns:
        (k, C, H, W) in [0, 1].

    Source:
        Haim et al. 2022, published code (`transform_vmin_vmax_batch`). It forgives a wrong scale and offset.
    """
    low = images.amin((1, 2, 3), keepdim=True)
    span = images.amax((1, 2, 3), keepdim=True) - low
    return (images - low) / torch.where(span > 0, span, 1)


def nearest_neighbours(images: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """Find the nearest image of a pool by mean squared pixel error: the best that can be done without the model.

    Args:
        images: (n, C, H, W) in [0, 1].
        pool: (p, C, H, W) in [0, 1], p at least 1, none of them among the images.

    Returns:
        The error (n,), float32 in [0, 1], and the index in the pool (n,), int64.

    Raises:
        ValueError: the pool is empty.

    Source:
        Balle et al. 2022, section 5: the nearest-neighbour oracle.
    """
    if len(pool) == 0:
        raise ValueError("the nearest image needs a pool of at least one image")
    rows = images.flatten(1).double()
    distance = torch.cat([_squared_distances(rows, part.flatten(1).double()) for part in pool.split(_CHUNK)], dim=1)
    nearest, index = distance.min(1)
    return nearest.float(), index
