"""Where the descents of `conv-span` end: from the training images, from noise, and what held-out images have.

    python tests/benchmarks/span_minima.py DIR [VICTIM]

prints medians of the share of features outside their span, and of the SSIM with the nearest training image, of
`cifar-conv-50-c10-wd1e-4` unless another victim is named; and how many candidates of one round, and how many training
images, are good among those that end below `accepted` and above it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor
from trained import CPU, trained

from attacks.feature_span.deflation import PER_DIRECTION
from attacks.feature_span.params import ConvSpanParams
from attacks.feature_span.search import SpanSearch, shown_span
from bench.scoring import PROTOCOLS
from bench.scoring.evaluation import Reference
from bench.scoring.scores import rescaled, similarity
from victims.equations.network import Network

PROTOCOL = PROTOCOLS["buzaglo2023"]


def ended(search: SpanSearch) -> tuple[Tensor, Tensor]:
    """Return the images (m, d) that a search ends at, and the shares (m,) of their features outside the span."""
    for _ in range(search.params.steps):
        search.step()
    with torch.no_grad():
        images = search.images()
        return images, search.features_of(images)[0]


def main() -> None:
    """Descend, and print."""
    data_dir, name = Path(sys.argv[1]), (*sys.argv[2:3], "cifar-conv-50-c10-wd1e-4")[0]
    victim = trained(name, data_dir)
    truth, reference = torch.from_numpy(victim.split.inputs).float(), Reference.of(victim)
    channels, height, width = truth.shape[1:]
    network = Network.of(victim.model.state_dict(), (channels, height, width), CPU, torch.float32)
    span, params = shown_span(network.weights[1]), ConvSpanParams()
    known = span.basis.new_zeros(0, span.rank)
    drawn = torch.randn(PER_DIRECTION * span.rank, network.inputs, generator=torch.Generator().manual_seed(0))
    noise = SpanSearch(network, span, drawn * params.init_scale, known, params)
    coordinates = noise.space.coordinates(truth.flatten(1)) / noise.scale
    alone = params.model_copy(update={"repulsion": 0.0})

    def line(what: str, images: Tensor, outside: Tensor) -> None:
        matcher = reference.matcher(images.view(-1, *truth.shape[1:]))
        image = matcher.distance(PROTOCOL).min(0).indices
        shown = rescaled(PROTOCOL, matcher.candidates, matcher.truth)
        alike = similarity(PROTOCOL, shown, matcher.truth.images[image], matcher.truth)
        good = alike > PROTOCOL.threshold
        sys.stdout.write(
            f"{what}: {outside.median():.5f} outside, SSIM {alike.median():.2f}, "
            f"{int(good.sum())} of {len(images)} good, {len(image[good].unique())} images\n"
        )

    held = torch.from_numpy(victim.split.test_inputs[:500]).float().flatten(1)
    with torch.no_grad():
        line("held-out images", held, noise.features_of(held)[0])
    line("from the training images", *ended(SpanSearch(network, span, coordinates, known, alone)))
    images, outside = ended(noise)
    line("from noise, accepted", images[outside < params.accepted], outside[outside < params.accepted])
    line("from noise, others", images[outside >= params.accepted], outside[outside >= params.accepted])


if __name__ == "__main__":
    main()
