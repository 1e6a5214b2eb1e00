"""A victim as it is released: made of the trained one that the cache holds, measured anew and kept beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from safetensors.torch import load_file
from torch import Tensor

from victims.base import Victim
from victims.cache import WEIGHTS, locked_folder, origin, victim_card
from victims.card import VictimCard, describe
from victims.defences.release import degraded, noise_seed, require_released
from victims.files import write_tensors
from victims.ordinary.displacement import with_start
from victims.spec import Released, VictimSpec


def released(spec: VictimSpec, trained: Victim, device: torch.device, notice: Callable[[str], None]) -> Victim:
    """Return a victim under its defences on release: from the cache if it is there and whole, else made and cached.

    Its parameters are changed in place; buffers, such as running means, stay as they are. Weights that were released on
    the way are defended likewise, with noise of their own.

    Args:
        spec: the victim.
        trained: the same without these defences; not to be used any more.
        device: where it was trained.
        notice: told in one line what the user should know.

    Raises:
        UserError: a weight is too large for the format that it is rounded to, or the cache cannot be written.
    """
    model, dataset_sha256, earlier = trained.model, trained.card.dataset_sha256, _earlier(spec, trained)
    with locked_folder(spec, dataset_sha256, notice) as folder:
        card = victim_card(VictimCard, spec, folder, notice)
        if card is not None:
            model.load_state_dict(load_file(folder / WEIGHTS))
            return replace(trained, card=card, earlier=earlier)
        generator = torch.Generator().manual_seed(noise_seed(trained.card.weights_sha256))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(degraded(parameter, spec.defences, generator))
        require_released(spec.name, model.state_dict())
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        stored, own = write_tensors(folder / WEIGHTS, weights), trained.card
        made = origin(stored, dataset_sha256, device, own.train_s, own.training_sha)
        card = describe(spec, model, trained.split, made)
        if trained.start is not None:
            card = with_start(card, own.start_sha256, trained.start, model.state_dict())
        card.store(folder)
        return replace(trained, card=card, earlier=earlier)


def _earlier(spec: VictimSpec, trained: Victim) -> tuple[dict[str, Tensor], ...]:
    """Return the weights that were released on the way, under the defences on release.

    Raises:
        UserError: a weight is too large for the format that it is rounded to.
    """
    if not trained.earlier:
        return ()
    training, stored = spec.training, trained.card.snapshots_sha256
    if isinstance(training, Released):
        stored = "".join(sha256 for _, sha256 in training.on_the_way)
    assert stored is not None
    generator = torch.Generator().manual_seed(noise_seed(stored))
    learnt = {name for name, _ in trained.model.named_parameters()}
    earlier = tuple(
        {
            name: degraded(value, spec.defences, generator) if name in learnt else value
            for name, value in weights.items()
        }
        for weights in trained.earlier
    )
    for weights in earlier:
        require_released(spec.name, weights)
    return earlier
