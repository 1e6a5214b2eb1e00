"""What a network explains of the errors of images and of mixtures, by which `cocktail-party --variant rounds` goes.

    python tests/benchmarks/explained_errors.py DIR

prints, for a victim, the median share of the errors' squares that come back from the outputs: for the training images
themselves, and for as many mixtures, each at a cosine of .8 to an image of its own. The last number is the share that a
mixture can reach by chance: an attack finds what the network explains better.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.pictures import Images
from attacks.independent_components.span import Span
from bench.plan import registry
from victims.equations.network import Network
from victims.obtain import obtain

CPU = torch.device("cpu")
VICTIMS = (
    "cifar-mlp-100-c10-finetuned",
    "cifar-mlp-500-c10-sgd-lr5e-3",
    "cifar-mlp-100-c10-sgd",
    "cifar-mlp-300-c10-sgd",
    "cifar-mlp-500-c10-sgd",
    "mnist-mlp-100-c10-sgd",
)
COSINE = 0.8


def main() -> None:
    """Print the shares."""
    known_victims, data_dir = registry.victims().items, Path(sys.argv[1])
    for name in VICTIMS:
        victim = obtain(known_victims[name], data_dir, CPU, lambda progress: None, lambda notice: None)
        assert victim.start is not None
        channels, height, width = victim.split.inputs.shape[1:]
        shape = (channels, height, width)
        start, end = (Network.of(state, shape) for state in (victim.start, victim.model.state_dict()))
        images = torch.from_numpy(victim.split.inputs).flatten(1)
        span = Span.added_to(start, end, len(images))
        likelihood = JointLikelihood(span, Images(shape), float(images.square().mean().sqrt()))
        drawn = torch.randn(len(images), len(images), generator=torch.Generator().manual_seed(0)) @ images
        across = drawn - (drawn * F.normalize(images)).sum(1, keepdim=True) * F.normalize(images)
        mixtures = COSINE * F.normalize(images) + math.sqrt(1 - COSINE**2) * F.normalize(across)
        shares = [likelihood.explained(likelihood.length * F.normalize(one)).median() for one in (images, mixtures)]
        shares.append(torch.tensor(likelihood.chance))
        sys.stdout.write(f"{name} | {' | '.join(f'{share:.2f}' for share in shares)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
