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


def view_of(
    victim: AnyVictim, needs: frozenset[Knowledge], device: torch.device, kind: type[VictimView] = VictimView
) -> VictimView:
    """Return the view of a victim that hands out what `needs` names and nothing else: copies of it, on `device`.

    Raises:
        LookupError: a victim of its setting has no such item.
    """
    facts = _facts(victim, device) if isinstance(victim, Victim) else _informed_facts(victim, device)
    if absent := needs - facts.keys():
        raise LookupError(f"a victim of the {victim.spec.setting} setting has no {', '.join(sorted(absent))} to tell")
    return kind({item: facts[item] for item in needs}, needs)


def _facts(victim: Victim, device: torch.device) -> dict[Knowledge, Any]:
    split = victim.split
    labels = torch.tensor(split.labels, device=device)
    inputs, pool = (torch.tensor(images, device=device) for images in (split.inputs, split.test_inputs))
    model = copy.deepcopy(victim.model).to(device)

    @torch.no_grad()
    def answer(queries: torch.Tensor) -> torch.Tensor:
        answered: torch.Tensor = model(queries)
        return answered

    def blank() -> torch.nn.Module:
        empty = copy.deepcopy(model)
        empty.load_state_dict({name: torch.zeros_like(value) for name, value in empty.state_dict().items()})
        return empty

    counts = np.bincount(split.labels, minlength=victim.spec.n_classes)
    return {
        Knowledge.ARCHITECTURE: Architecture(victim.spec.architecture, victim.input_shape, blank),
        Knowledge.WEIGHTS: {name: value.to(device, copy=True) for name, value in victim.model.state_dict().items()},
        Knowledge.CLASS_BALANCE: tuple(float(count) / len(split.labels) for count in counts),
        Knowledge.N: victim.spec.n_trained,
        Knowledge.LABELS: labels,
        Knowledge.DATA_MEAN: torch.tensor(split.mean, device=device),
        Knowledge.LOSS: victim.spec.loss,
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
        return {name: value.to(device, copy=True) for name, value in named.items()}

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


def require_intact(view: VictimView, victim: AnyVictim) -> None:
    """See that an attack left the weights alone.

    Raises:
        ValueError: those that it was shown and the victim's own are not the same any more.
    """
    shown = view.shown(Knowledge.WEIGHTS) or {}
    own = victim.model.state_dict() if isinstance(victim, Victim) else victim.weights
    if not all(torch.equal(value.cpu(), own[name]) for name, value in shown.items()):
        raise ValueError("the attack changed the victim's weights; view.weights hands out a copy for each call")
