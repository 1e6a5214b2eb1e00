"""The share of a last layer's update that the features of candidates do not span.

A last layer that was trained by gradient descent from W(0) has learnt W - W(0) = sum_i c_i phi(x_i)', whatever the
loss: its rows lie in the span of the training images' features. With Phi (m, p) the features of candidates,

    L(X) = ||D - A' Phi||^2 / ||D||^2,   D = W - W(0) (C, p),   A = (Phi Phi')^-1 Phi D' (m, C),

is 0 at the training images (Iurada et al. 2026, Section 5; there with one output, as 1 - v' (Phi Phi')^-1 v / ||w||^2).
With p C below d n it is 0 elsewhere, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from victims.equations.architectures import split_last

RIDGE = 1e4
"""Ridge of Phi Phi', relative to its mean diagonal, in units of the machine epsilon, since candidates may merge."""


@dataclass(frozen=True)
class ProjectionLoss:
    """The loss L, its gradient, and what each candidate adds.

    Attributes:
        features: maps candidates (m, k) to their features (m, p), with the gradient by them.
        learnt: D (C, p).
    """

    features: Callable[[Tensor], Tensor]
    learnt: Tensor

    @classmethod
    def of(cls, network: nn.Module, start: Mapping[str, Tensor], shape: tuple[int, int, int]) -> ProjectionLoss:
        """Return the projection for a trained network, on images as rows (m, d).

        A bias of the last layer is the weight of a feature that is 1 for all images.

        Args:
            network: as released, in the precision to compute in, without gradients.
            start: the weights before, by parameter name.
            shape: (C, H, W) of an image.
        """
        below, last = split_last(network)
        name = next(name for name, module in network.named_modules() if module is last)
        learnt = last.weight - start[f"{name}.weight"].to(last.weight)
        biased = last.bias is not None
        if biased:
            learnt = torch.cat([learnt, (last.bias - start[f"{name}.bias"].to(last.bias))[:, None]], 1)

        def features(rows: Tensor) -> Tensor:
            phi: Tensor = below(rows.reshape(-1, *shape))
            return torch.cat([phi, phi.new_ones(len(phi), 1)], 1) if biased else phi

        return cls(features, learnt)

    def evaluate(self, candidates: Tensor) -> tuple[float, Tensor]:
        """Return L and its gradient (m, k) at candidates (m, k).

        A minimises the numerator, so that dL/dPhi = -2 A (D - A' Phi) / ||D||^2 with A held.
        """
        inputs = candidates.detach().requires_grad_()
        phi = self.features(inputs)
        with torch.no_grad():
            coefficients, _ = self._fitted(phi)
            residual = self.learnt - coefficients.T @ phi
            size = self.learnt.square().sum()
            slope = coefficients @ residual * (-2 / size)
        (gradient,) = torch.autograd.grad(phi, inputs, slope)
        return float(residual.square().sum() / size), gradient

    @torch.no_grad()
    def added(self, candidates: Tensor) -> Tensor:
        """Return by how much L rises without each candidate, (m,): ||a_i||^2 / (((Phi Phi')^-1)_ii ||D||^2)."""
        coefficients, inverse = self._fitted(self.features(candidates))
        return coefficients.square().sum(1) / inverse.diagonal() / self.learnt.square().sum()

    def pruned(self, candidates: Tensor, count: int) -> Tensor:
        """Return `count` of the candidates, (count, k); each round leaves out the one without which L rises least."""
        while len(candidates) > count:
            kept = torch.ones(len(candidates), dtype=torch.bool, device=candidates.device)
            kept[self.added(candidates).argmin()] = False
            candidates = candidates[kept]
        return candidates

    def _fitted(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Return A (m, C) and (Phi Phi')^-1 (m, m), with a ridge."""
        gram = phi @ phi.T
        gram.diagonal().add_(RIDGE * torch.finfo(phi.dtype).eps * gram.diagonal().mean())
        inverse = torch.linalg.inv(gram)
        return inverse @ (phi @ self.learnt.T), inverse
