"""How well an attack's own confidence separates its hits from its misses.

Matching uses the training set; the attacker has only the candidates, and what it believes of them. An attack that finds
an image among a thousand candidates and cannot say which one it is has given away less (Runkel et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bench.scoring.protocols import Protocol
from bench.scoring.scores import Matcher, rescaled, verdicts


@dataclass(frozen=True)
class ConfidenceCurve:
    """Precision and recall of an attack's ranking of its candidates; tensors are in the order of that ranking.

    Tied candidates are in their own order.

    Attributes:
        confidence: (m,) falling.
        hit: (m,) bool: the candidate alone reconstructs the training image nearest to it.
        precision: (m,) share of hits among the candidates up to this one.
        recall: (m,) share of the training images that any candidate reconstructs alone, up to this one.
        images: (m,) int64, how many different training images the candidates up to this one reconstruct alone.
        average_precision: in [0, 1], of the hits over all candidates; ties count as their mean order would.
    """

    confidence: Tensor
    hit: Tensor
    precision: Tensor
    recall: Tensor
    images: Tensor
    average_precision: float

    @property
    def base_rate(self) -> float:
        """Share of the candidates that are hits: the average precision where all are tied.

        The mean average precision of a random order lies a little above it where hits are few: with R hits of m it is
        (H_m + (R - 1) / (m - 1) (m - H_m)) / m, H_m being the m-th harmonic number.
        """
        return float(self.hit.double().mean())

    def precision_at(self, k: int) -> float:
        """Return the share of hits among the k surest candidates, k at least 1.

        Ties count as their mean order would, and candidates that are lacking as misses.
        """
        places = min(k, len(self.hit))
        last = self.confidence[places - 1]
        above, tied = self.confidence > last, self.confidence == last
        among = float(self.hit[tied].double().mean()) * (places - int(above.sum()))
        return (int(self.hit[above].sum()) + among) / k

    def images_at(self, k: int) -> int:
        """Return how many different training images the k surest candidates reconstruct alone, k at least 1.

        It is a count, so ties are not averaged as in `precision_at`: they go by the order of the candidates.
        """
        return int(self.images[min(k, len(self.hit)) - 1])


@torch.no_grad()
def confidence_curve(protocol: Protocol, matcher: Matcher, confidence: Tensor) -> ConfidenceCurve:
    """Return how good an attack's own ranking of its candidates is, place by place.

    Args:
        protocol: says how a candidate is matched, rescaled and judged, each alone and without a vote; a hit is
            what it calls good.
        matcher: the candidates (m, C, H, W), m at least 1, and the truth.
        confidence: (m,) the attack's; NaN counts as the least.

    Raises:
        ValueError: there is not one number per candidate.
    """
    from sklearn.metrics import average_precision_score  # a second, which only what scores need spend

    candidates, truth = matcher.candidates, matcher.truth
    if confidence.shape != candidates.shape[:1] or len(candidates) == 0:
        raise ValueError(f"confidence has shape {tuple(confidence.shape)} for {len(candidates)} candidates")
    distance, image = matcher.distance(protocol).min(0)
    usable = distance.isfinite()
    shown = rescaled(protocol, torch.where(usable[:, None, None, None], candidates, 0), truth)
    hit = usable & verdicts(protocol, shown, image, truth)[1]

    confidence = confidence.detach().double().cpu()
    confidence = confidence.nan_to_num(nan=-torch.inf).clamp(min=torch.finfo(torch.float64).min)
    order = confidence.argsort(descending=True, stable=True)
    hit, image = hit[order], image[order]
    position = hit.nonzero().flatten()
    _, first = np.unique(image[hit].numpy(), return_index=True)
    discovered = torch.zeros_like(hit)
    discovered[position[first]] = True
    images = discovered.cumsum(0)
    rank = torch.arange(1, len(hit) + 1, dtype=torch.float64)
    average = average_precision_score(hit.numpy(), confidence[order].numpy()) if bool(hit.any()) else 0.0
    return ConfidenceCurve(
        confidence=confidence[order],
        hit=hit,
        precision=hit.cumsum(0) / rank,
        recall=images / max(1, len(first)),
        images=images,
        average_precision=float(average),
    )
