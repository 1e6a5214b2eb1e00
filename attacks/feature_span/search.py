"""Images whose features lie in the span that the layer behind convolutions shows, apart from one another.

At a stationary point the rows of that layer, W = sum_i D_i' phi(x_i), are combinations of the n features phi(x_i) of
the training images. The range of phi bends with the ReLUs and meets the span at the features themselves: each training
image is a solution by itself, without its label, its coefficient and the other images. The filters of a trained
convolution have few strong directions, and the span says nothing about what phi does not see of an image. There the
smoothness of natural images decides, as a price for each cosine that grows with its frequency.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attacks.feature_span.params import ConvSpanParams
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace, RowSpace, data_rank
from victims.equations.spans import share_outside


def shown_span(weight: Tensor) -> RowSpace:
    """Return the span that the weight (h, f) behind the convolutions shows: basis (f, r), singular values (r,).

    The span ends at the deepest drop of the singular values above the edge of the noise. The directions behind that
    drop, and still above the edge, are left over from the features of earlier training steps.
    """
    _, singular, directions = torch.linalg.svd(weight.double(), full_matrices=False)
    above = min(data_rank(singular, *weight.shape), len(singular) - 1)
    rank = 1 + int((singular[:above] / singular[1 : above + 1]).argmax()) if above else len(singular)
    gap = 0 < rank < len(singular)
    return RowSpace(directions[:rank].T.to(weight).contiguous(), singular[:rank].to(weight), gap)


class SpanSearch:
    """One round: m images, apart from better ones and from those that were found before.

    Args:
        network: the victim, whose first layer is a convolution.
        span: the span of the features that layer 2 shows.
        start: (m, d) coordinates of the candidates on the cosines, in units of the amplitudes of natural images.
        known: (k, r) signatures of images that earlier rounds have found, from which candidates stay apart.
        params: what candidates pay, and the steps.
    """

    def __init__(self, network: Network, span: RowSpace, start: Tensor, known: Tensor, params: ConvSpanParams) -> None:
        assert network.input_shape is not None
        self.network, self.span, self.known, self.params = network, span, known, params
        self.space = CosineSpace.of(network.input_shape, span.basis)
        self.scale = self.space.amplitudes(1.0)
        self.divisors = span.singular**params.whitening
        self.coordinates = start.to(span.basis).clone().requires_grad_()
        self.cycle = OneCycle([([self.coordinates], params.lr)], params.steps)

    def images(self) -> Tensor:
        """Return the candidates (m, d)."""
        return self.space.inputs(self.coordinates * self.scale)

    def features_of(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share (m,) of the images' features outside their span, and the images' signatures (m, r).

        A signature is the direction of the features in the span, on coordinates that are divided by powers of the
        singular values: training images are nearly orthogonal there, while their features are not.
        """
        features = self.network.features(images)
        projected = features @ self.span.basis
        return share_outside(projected, features), normalize(projected / self.divisors, dim=1)

    def objective(self) -> Tensor:
        """Return what all candidates pay, a scalar tensor that can be differentiated."""
        outside, signatures = self.features_of(self.images())
        # of two that look alike the one that is farther from the span gives way
        better = (outside < outside[:, None]).detach().to(outside)
        among, before = signatures @ signatures.detach().T, signatures @ self.known.T
        beyond = torch.cat([better * (among - self.params.apart).relu(), (before - self.params.apart).relu()], dim=1)
        smooth = self.coordinates.square().mean(1).sum()
        return outside.sum() + self.params.repulsion * beyond.square().sum() + self.params.smoothness * smooth

    def step(self) -> None:
        """Move the candidates by one step of Adam."""
        self.cycle.zero_grad()
        self.objective().backward()
        self.cycle.step()
