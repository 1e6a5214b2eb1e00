"""From a trained victim to what an attack may see of it."""

from __future__ import annotations

import copy

import numpy as np
import torch

from attacks.base import Architecture, Knowledge, VictimView
from victims.base import Victim


def view_of(victim: Victim, needs: frozenset[Knowledge], device: torch.device) -> VictimView:
    """Return the view of a victim that hands out what `needs` names and nothing else: copies of it, on `device`."""
    split = victim.split
    labels = torch.tensor(split.labels, device=device)
    inputs, pool = (torch.tensor(images, device=device) for images in (split.inputs, split.test_inputs))
    model = copy.deepcopy(victim.model).to(device)

    @torch.no_grad()
    def answer(queries: torch.Tensor) -> torch.Tensor:
        answered: torch.Tensor = model(queries)
        return answered

    channels, height, width = split.inputs.shape[1:]
    counts = np.bincount(split.labels, minlength=split.n_classes)
    facts = {
        Knowledge.ARCHITECTURE: Architecture(victim.spec.architecture, (channels, height, width)),
        Knowledge.WEIGHTS: {name: value.to(device, copy=True) for name, value in victim.model.state_dict().items()},
        Knowledge.CLASS_BALANCE: tuple(float(count) / len(split.labels) for count in counts),
        Knowledge.N: len(split.labels),
        Knowledge.LABELS: labels,
        Knowledge.DATA_MEAN: torch.tensor(split.mean, device=device),
        Knowledge.LOSS: victim.spec.loss,
        Knowledge.WEIGHT_DECAY: victim.spec.weight_decay,
        Knowledge.SHADOW_POOL: (pool - pool.mean(0), torch.tensor(split.test_labels, device=device)),
        Knowledge.LOGITS: answer,
        Knowledge.TRAINING_IMAGES: (inputs, labels),
    }
    return VictimView({item: facts[item] for item in needs}, needs)


def require_intact(view: VictimView, victim: Victim) -> None:
    """See that an attack left the weights alone.

    Raises:
        ValueError: those that it was shown and the victim's own are not the same any more.
    """
    shown = view.shown(Knowledge.WEIGHTS) or {}
    own = victim.model.state_dict()
    if not all(torch.equal(value.cpu(), own[name]) for name, value in shown.items()):
        raise ValueError("the attack changed the victim's weights; view.weights hands out a copy for each call")
