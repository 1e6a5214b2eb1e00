"""The candidates of all restarts of an attack on a known start, what they agree on, and the confidence in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.base import Reconstruction
from attacks.kkt_family.ranking import evidence
from attacks.known_start.params import Ranking
from attacks.optimisation.restarts import Restart, Restarts


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


def agreed(ended: Sequence[Restart], cosine: float | None) -> tuple[Tensor, Tensor] | None:
    """Return the means (k, d) of each two candidates of the last two restarts that agree, and of their coefficients.

    None if no two agree. Two agree if each is the other's most similar one, and similar enough: what one search took
    for an image by chance, another hardly takes for it, too.

    Args:
        ended: the restarts, in their order, with coefficients.
        cosine: from which on they agree; None for never.
    """
    if cosine is None or len(ended) < 2:
        return None
    before, last = ended[-2:]
    assert before.coefficients is not None
    assert last.coefficients is not None
    similar = F.normalize(before.candidates, dim=1) @ F.normalize(last.candidates, dim=1).T
    best, partner = similar.max(1)
    mutual = similar.argmax(0)[partner] == torch.arange(len(best), device=best.device)
    kept = mutual & (best >= cosine)
    if not kept.any():
        return None
    pairs = (before.candidates, last.candidates), (before.coefficients, last.coefficients)
    candidates, coefficients = ((one[kept] + other[partner[kept]]) / 2 for one, other in pairs)
    return candidates, coefficients


def pooled(
    restarts: Restarts,
    shape: tuple[int, int, int],
    ranking: Ranking,
    resolved: Mapping[str, Any],
    flags: tuple[str, ...],
) -> Reconstruction:
    """Return the candidates of all restarts that did not diverge.

    Args:
        restarts: at their end.
        shape: (C, H, W) of a candidate.
        ranking: as for `ranked`.
        resolved: the parameters that were read off the weights, by name.
        flags: on the run; one that counts the restarts that diverged follows.

    Raises:
        DivergedError: all restarts diverged.
    """
    kept, lost = restarts.kept()
    candidates = torch.cat([one.candidates for one in kept]).reshape(-1, *shape).float()
    return Reconstruction(
        candidates=candidates,
        confidence=ranked(kept, candidates, ranking),
        resolved=dict(resolved),
        loss=min(one.loss for one in kept),
        grad_evals=restarts.spent,
        flags=(*flags, *lost),
    )
