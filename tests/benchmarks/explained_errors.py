"""What a network explains of the errors of images and of mixtures, by which rounds of `cocktail-party` go.

    python tests/benchmarks/explained_errors.py DIR [VICTIM ...]

prints, for a victim, the median share of the errors' squares that come back from the outputs: for the training images
themselves, and for as many mixtures, each at a cosine of .8 to an image of its own. The last number is the share that a
mixture can reach by chance: an attack finds what the network explains better. Behind convolutions the features take the
place of the images (`cocktail-party-features`), and a second line takes the errors at three points of the way, as
joint rounds do.
"""

from __future__ import annotations

import math
import sys
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from trained import trained

from attacks.independent_components.errors import Explaining, chance, explained
from attacks.independent_components.maps import features_span
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.independent_components.span import UpdateSpan
from attacks.known_start.equation import interpolated
from attacks.known_start.front import FeatureExtractor, head
from victims.base import Victim
from victims.equations.network import Network

VICTIMS = (
    "cifar-mlp-100-c10-finetuned",
    "cifar-mlp-500-c10-sgd-lr5e-3",
    "cifar-mlp-100-c10-sgd",
    "cifar-mlp-300-c10-sgd",
    "cifar-mlp-500-c10-sgd",
    "mnist-mlp-100-c10-sgd",
    "cifar-cnn-100-c10-finetuned",
    "cifar-cnn-100-c10-finetuned-deep-pooled",
    "cifar-cnn-100-c10-sgd-lr5e-3-deep-pooled",
)
COSINE = 0.8


def main() -> None:
    """Print the shares."""
    for name in sys.argv[2:] or VICTIMS:
        victim = trained(name, Path(sys.argv[1]))
        added, ways, rows = seen_by_the_first_layer(victim)
        drawn = torch.randn(len(rows), len(rows), generator=torch.Generator().manual_seed(0)) @ rows
        across = drawn - (drawn * F.normalize(rows)).sum(1, keepdim=True) * F.normalize(rows)
        mixtures = COSINE * F.normalize(rows) + math.sqrt(1 - COSINE**2) * F.normalize(across)
        for way in ways:
            sized = [rows.norm(dim=1).mean() * F.normalize(one) for one in (rows, mixtures)]
            shares = [median_explained(added, way, one) for one in sized]
            shares.append(chance(len(rows), len(way) * victim.spec.n_classes, len(added)))
            sys.stdout.write(f"{name} | {len(way)} | {' | '.join(f'{share:.2f}' for share in shares)}\n")
            sys.stdout.flush()


def median_explained(added: Tensor, way: tuple[Explaining, ...], rows: Tensor) -> float:
    """Return the median share of the errors of rows (n, d) that networks explain; L = D' X is `added` (h, d)."""
    errors = (added.double() @ torch.linalg.pinv(rows.double())).T.to(rows)
    return float(explained(rows, errors, way).median())


def seen_by_the_first_layer(victim: Victim) -> tuple[Tensor, list[tuple[Explaining, ...]], Tensor]:
    """Return what was added to the first fully connected layer, choices of networks on the way, and what it sees."""
    assert victim.start is not None
    first, last, images = victim.start, victim.model.state_dict(), torch.from_numpy(victim.split.inputs)
    if victim.spec.architecture.kind == "mlp":
        span = UpdateSpan.added_to(Network.of(first), Network.of(last), len(images))
        return span.added, [span.way], images.flatten(1)
    start, end = head(first, 0), head(last, 0)
    one, three = (
        features_span(start, end, None, partial(interpolated, start, end), params)
        for params in (CocktailPartyFeaturesParams(), CocktailPartyFeaturesParams(joint_rounds=1))
    )
    front = FeatureExtractor.of(lambda: deepcopy(victim.model), first, last, CocktailPartyFeaturesParams().point, 0)
    return one.added, [one.way, three.way], front(images)


if __name__ == "__main__":
    main()
