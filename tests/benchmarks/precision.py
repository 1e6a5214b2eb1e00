"""What rounding of the released weights takes from the attacks on a known start.

    python tests/benchmarks/precision.py DATA_DIR

Prints a row a victim and precision: the rank and the decay that W1 - c W1(0) shows, the correlation of the guessed seed
with its threshold, and the images of `kkt-delta` (one restart), one to one, beside those of held-out images.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from attacks.base import AttackContext
from attacks.kkt_delta import KKTDelta
from attacks.known_start.params import KKTDeltaParams
from bench.plan import registry
from bench.run.disclosure import view_of
from bench.scoring import PROTOCOLS
from bench.scoring.evaluation import Reference, count_scores, counts
from victims.base import Victim
from victims.obtain import obtain
from victims.ordinary.difference import difference
from victims.ordinary.seeds import TORCH, guess_seed

CPU = torch.device("cpu")
SEEDS = 1000
ATTACKED = {"cifar-mlp-100-c10-finetuned": 1.0, "cifar-mlp-100-c10-sgd": 0.0}
"""By victim, the weight of the second layer's residual in a search of 300 steps."""


def int8(weights: Tensor) -> Tensor:
    """Weights on 255 levels of one scale a tensor, the largest on the last."""
    scale = weights.abs().max() / 127
    return (weights / scale).round() * scale


PRECISIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "float32": lambda weights: weights,
    "float16": lambda weights: weights.half().float(),
    "bfloat16": lambda weights: weights.bfloat16().float(),
    "int8": int8,
}


def rounded(victim: Victim, precision: str) -> Victim:
    """The victim, released in another precision; its start is known as it was."""
    model = copy.deepcopy(victim.model)
    model.load_state_dict({name: PRECISIONS[precision](value) for name, value in model.state_dict().items()})
    return replace(victim, model=model)


def row(victim: Victim, second_layer: float) -> str:
    """What the attacks get of a victim, as a row of a table."""
    assert victim.start is not None
    first = victim.model.state_dict()["layers.0.weight"]
    shown = difference(first, victim.start["layers.0.weight"])
    guess = guess_seed(first.numpy(), range(SEEDS), [TORCH])
    seed = f"seed {guess.seed}, {guess.correlation:.3f} > {guess.threshold:.3f}" if guess.found else "no seed"
    attack = KKTDelta(KKTDeltaParams(steps=300, second_layer=second_layer))
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    reference, held_out = Reference.of(victim), torch.from_numpy(victim.split.test_inputs)
    good, null = (
        counts(count_scores(PROTOCOLS["buzaglo2023"], one, reference))["n_good_unique"]
        for one in (found.candidates, held_out)
    )
    rank = shown.rank if shown.shows_images else "none"
    return f"rank {rank}, c {shown.decay:.5f} | {seed} | {good} of {victim.spec.n}, held-out images {null}"


def main() -> None:
    """Print the table."""
    victims, data_dir = registry.victims().items, Path(sys.argv[1])
    for name, second_layer in ATTACKED.items():
        victim = obtain(victims[name], data_dir, CPU, lambda progress: None, lambda notice: None)
        for precision in PRECISIONS:
            sys.stdout.write(f"{name} | {precision} | {row(rounded(victim, precision), second_layer)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
