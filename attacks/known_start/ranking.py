"""The confidence of an attack on a known start in its candidates, by the evidence of the KKT family."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attacks.kkt_family.ranking import evidence
from attacks.kkt_family.restarts import Restart
from attacks.known_start.params import Ranking


def ranked(kept: Sequence[Restart], images: Tensor, ranking: Ranking, labels: Tensor | None = None) -> Tensor:
    """Return the confidence (m,) float32 in all candidates of the restarts.

    Args:
        kept: the restarts; the size of a candidate is its share in the span, or its weight in the batches.
        images: (m, C, H, W) their candidates, one restart after another.
        ranking: see `attacks.known_start.params.KKTDeltaParams`.
        labels: (m,) the classes of the candidates, None if they have none.
    """
    sizes = torch.cat([one.sizes for one in kept]).float()
    return evidence.ranked(sizes, kept, images, labels, copies_count=ranking != "distinct")
