"""What `replay` adds to `kkt-delta` on a narrow network from scratch: `python tests/benchmarks/replay_gain.py DIR`.

DIR holds cifar10.npz. The victim learns 60 images with 150 neurons a layer, 300 epochs of SGD in batches of 30. Written
are the images that come back one to one under `buzaglo2023`; there are no controls.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from trained import CPU, trained

from attacks.base import AttackContext
from attacks.kkt_delta import KKTDelta
from attacks.known_start.params import KKTDeltaParams
from attacks.replay import Replay, ReplayParams
from bench.run.disclosure import view_of
from bench.scoring.evaluation import Reference, count_scores, counts
from bench.scoring.protocols import protocol_named
from victims.recipes import Ordinary
from victims.spec import MLPSpec, VictimSpec

VICTIM = VictimSpec(
    name="cifar-mlp-60-c10-narrow",
    dataset="cifar",
    n=60,
    architecture=MLPSpec(hidden=(150, 150), outputs=10, biases="every", first_layer_scale=None),
    training=Ordinary(lr=0.02, batch_size=30),
)


def main(data_dir: Path) -> None:
    """Write the counts of both attacks."""
    victim = trained(VICTIM, data_dir)
    for attack in (KKTDelta(KKTDeltaParams()), Replay(ReplayParams())):
        ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
        found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
        counted = counts(count_scores(protocol_named("buzaglo2023"), Reference.of(victim).matcher(found.candidates)))
        sys.stdout.write(f"{attack.name} {counted} {found.flags} {ctx.seconds:.0f} s\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
