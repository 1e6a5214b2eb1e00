"""What small filters tell of the span of images, without a network, by which `cocktail-party` separates them.

    python tests/benchmarks/separated_spans.py DIR [N [FIRST]]

takes N training images of CIFAR-10 from the FIRST of the file on (500 from 0), and prints for each way to separate
their span: how many of them a component comes nearer than a cosine of .9 and .7, the median, and the negative logarithm
of the likelihood under scale mixtures, per image. The last way begins at the images themselves: what it ends at is what
a better descent could find.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.context import AttackContext
from attacks.independent_components.params import CocktailPartyParams
from attacks.optimisation.parts import Parts
from attacks.source_separation.density import SPARSE, Density, ScaleMixture
from attacks.source_separation.filter_bank import filtered
from attacks.source_separation.mixed import Mixed, by_themselves
from attacks.source_separation.relative import descended
from attacks.source_separation.responses import responses
from attacks.source_separation.unmixing import unmix, whitening_of

CPU = torch.device("cpu")
LAST = ScaleMixture(3)
ANNEALED = CocktailPartyParams()


def main() -> None:
    """Print a line for each way."""
    count, first = (int(text) for text in (*sys.argv[2:], *("500", "0")[len(sys.argv) - 2 :]))
    pixels = np.load(Path(sys.argv[1]) / "cifar10.npz")["train_images"][first : first + count]
    images = torch.from_numpy(pixels.astype("float32")).permute(0, 3, 1, 2) / 255
    images = ((images - images.mean((0, 2, 3), keepdim=True)) / images.std((0, 2, 3), keepdim=True)).flatten(1)
    basis = torch.linalg.svd(images, full_matrices=False).Vh
    pictures = basis.reshape(-1, 3, 32, 32)
    sparse, mixed = by_themselves(responses(pictures)), filtered(pictures)
    answered = mixed.responses()
    rotation, annealed = (ANNEALED.steps, 0), (ANNEALED.steps, ANNEALED.free_steps)
    whitening = whitening_of(answered)
    white = whitening @ answered.double()

    def told(way: str, mixture: Tensor) -> None:
        near = (F.normalize(mixture @ basis) @ F.normalize(images).T).abs().amax(0)
        components = mixture @ torch.linalg.solve(whitening, torch.eye(count).double()).to(mixture)
        cost = LAST.cost(components @ white.to(mixture)) - torch.linalg.slogdet(components).logabsdet
        figures = f"{int((near > 0.9).sum())} | {int((near > 0.7).sum())} | {float(near.median()):.3f}"
        sys.stdout.write(f"{way} | {figures} | {float(cost) / count:.4f}\n")
        sys.stdout.flush()

    ways: tuple[tuple[str, tuple[int, int], Density, Mixed], ...] = (
        ("rotation", rotation, SPARSE, sparse),
        ("annealed", annealed, LAST, mixed),
    )
    for way, steps, density, rows in ways:
        parts = Parts(AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None), sum(steps))
        told(way, unmix(rows, steps, parts, density).mixture)
    truth = torch.linalg.solve(whitening, (images @ basis.T).double(), left=False)
    truth /= (truth @ white).square().mean(1, keepdim=True).sqrt()
    found, _, _ = descended(LAST, mixed.by(whitening), truth.to(basis), ANNEALED.free_steps)
    told("from the images", found @ whitening.to(basis))


if __name__ == "__main__":
    main()
