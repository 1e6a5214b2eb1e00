"""Ridge regression from features to images, its strength chosen on images kept apart.

It is a linear baseline of the reconstructor network of Balle et al. 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Strengths of the penalty that are tried, relative to the mean squared norm of a model's features."""


@dataclass(frozen=True)
class Ridge:
    """An affine map from features (p,) to images (d,).

    Attributes:
        weight: (p, d).
        bias: (d,) the mean image.
        strength: the strength that was chosen, one of `STRENGTHS`.
        error: mean squared error on the images kept apart.
    """

    weight: Tensor
    bias: Tensor
    strength: float
    error: float

    def __call__(self, features: Tensor) -> Tensor:
        """Return images (k, d) in [0, 1] for features (k, p)."""
        return (features @ self.weight + self.bias).clamp(0, 1)


def fit_ridge(features: Tensor, images: Tensor, apart: tuple[Tensor, Tensor]) -> Ridge:
    """Return the ridge regression of the strength with the least error on `apart`.

    The normal equations are solved in the smaller of their two forms, k x k or p x p, in float64.

    Args:
        features: (k, p), of mean 0.
        images: (k, d).
        apart: features and images that are not fitted.
    """
    k, p = features.shape
    bias = images.mean(0)
    gram = (features @ features.T if k < p else features.T @ features).double()
    right = images - bias if k < p else features.T @ (images - bias)
    unit = float(gram.diagonal().sum()) / k
    fits = []
    for strength in STRENGTHS:
        penalised = gram + strength * unit * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        solved = torch.cholesky_solve(right.double(), torch.linalg.cholesky(penalised)).to(features.dtype)
        fit = Ridge(features.T @ solved if k < p else solved, bias, strength, 0.0)
        error = float((fit(apart[0]) - apart[1]).square().mean())
        fits.append(Ridge(fit.weight, bias, strength, error))
    return min(fits, key=lambda fit: fit.error)
