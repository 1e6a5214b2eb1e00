"""From a trained victim to what an attack may see of it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from attacks.base import Architecture, Knowledge, VictimView
from victims.base import Victim
from victims.informed.data import Records
from victims.informed.victim import AnyVictim, InformedVictim, logits


def view_of(victim: AnyVictim, needs: frozenset[Knowledge], device: torch.device) -> VictimView:
    """Return the view of a victim that hands out what `needs` names and nothing else: copies of it, on `device`.

    Raises:
        LookupError: a victim of its setting has no such item.
    """
    facts = _facts(victim, device) if isinstance(victim, Victim) else _informed_facts(victim, device)
    if absent := needs - facts.keys():
        raise LookupError(f"a victim of the {victim.spec.setting} setting has no {', '.join(sorted(absent))} to tell")
    return VictimView({item: facts[item] for item in needs}, needs)


def _facts(victim: Victim, device: torch.device) -> dict[Knowledge, Any]:
    split = victim.split
    labels = torch.tensor(split.labels, device=device)
    inputs, pool = (torch.tensor(images, device=device) for images in (split.inputs, split.test_inputs))
    model = copy.deepcopy(victim.model).to(device)

    @torch.no_grad()
    def answer(queries: torch.Tensor) -> torch.Tensor:
        answered: torch.Tensor = model(queries)
        return answered

    counts = np.bincount(split.labels, minlength=split.n_classes)
    return {
        Knowledge.ARCHITECTURE: Architecture(victim.spec.architecture, victim.input_shape),
        Knowledge.WEIGHTS: {name: value.to(device) for name, value in victim.model.state_dict().items()},
        Knowledge.CLASS_BALANCE: tuple(float(count) / len(split.labels) for count in counts),
        Knowledge.N: len(split.labels),
        Knowledge.LABELS: labels,
        Knowledge.DATA_MEAN: torch.tensor(split.mean, device=device),
        Knowledge.WEIGHT_DECAY: victim.spec.weight_decay,
        Knowledge.SHADOW_POOL: (pool - pool.mean(0), torch.tensor(split.test_labels, device=device)),
        Knowledge.LOGITS: answer,
        Knowledge.TRAINING_IMAGES: (inputs, labels),
    }


def _informed_facts(victim: InformedVictim, device: torch.device) -> dict[Knowledge, Any]:
    split, spec = victim.split, victim.spec

    def points(records: Records) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(records.images, device=device), torch.tensor(records.labels, device=device)

    def moved(named: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: value.to(device) for name, value in named.items()}

    targets = points(split.targets)
    return {
        Knowledge.ARCHITECTURE: Architecture(spec.architecture, victim.input_shape),
        Knowledge.WEIGHTS: moved(victim.weights),
        Knowledge.N: spec.n,
        Knowledge.LABELS: targets[1],
        Knowledge.SHADOW_POOL: points(split.pool),
        Knowledge.LOGITS: lambda queries: logits(spec, moved(victim.weights), queries),
        Knowledge.KNOWN_POINTS: points(split.fixed),
        Knowledge.TRAINING: spec.training,
        Knowledge.INITIAL_WEIGHTS: None if victim.start is None else moved(victim.start),
        Knowledge.TRAINING_IMAGES: targets,
    }
