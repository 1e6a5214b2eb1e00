"""Where on the way of a training the features of its images lie in the span that the first fully connected layer shows.

    python tests/benchmarks/features_on_the_way.py DIR

prints, for a CNN from scratch, the number of directions that `cocktail-party-features --variant scratch` searches, and
the share of the squares of an image's features inside them (median), for features of the front at the start, at a
quarter, the middle and three quarters of the straight way, and at the end; then the same where the front is normalised
by the start's own running statistics on the way, which are of no batch.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from trained import trained

from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.independent_components.maps import features_span
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.known_start.equation import interpolated
from attacks.known_start.front import FeatureExtractor, head, without_batches
from victims.base import Victim
from victims.equations.spans import share_outside

VICTIMS = ("cifar-cnn-100-c10-sgd", "cifar-cnn-100-c10-sgd-lr5e-3", "cifar-cnn-100-c10-adamw")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
PARAMS = CocktailPartyFeaturesParams(**CocktailPartyFeatures.variants["scratch"])


def main() -> None:
    """Print the shares."""
    for name in VICTIMS:
        victim = trained(name, Path(sys.argv[1]))
        assert victim.start is not None
        directions, shares = shares_inside(victim, victim.start)
        # a hair off what torch begins with, so that the start's own statistics count as those of data
        nearly = {
            key: value + 1e-6 if key in without_batches(victim.start) else value for key, value in victim.start.items()
        }
        _, own = shares_inside(victim, nearly)
        told = [" ".join(f"{share:.3f}" for share in one) for one in (shares, own)]
        sys.stdout.write(f"{name} | {directions} | {' | '.join(told)}\n")
        sys.stdout.flush()


def shares_inside(victim: Victim, start: dict[str, Tensor]) -> tuple[int, list[float]]:
    """Return the number of directions searched, and of each share of the way the median share of features inside."""
    end, images = victim.model.state_dict(), torch.from_numpy(victim.split.inputs)
    first, last = head(start, 0), head(end, 0)
    basis = features_span(first, last, None, partial(interpolated, first, last), PARAMS).basis
    shares = []
    for share in SHARES:
        features = FeatureExtractor.of(lambda: deepcopy(victim.model), start, end, share, 0)(images)
        shares.append(1 - float(share_outside(features @ basis.T, features).median()))
    return len(basis), shares


if __name__ == "__main__":
    main()
