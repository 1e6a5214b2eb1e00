"""Disclosure: what an attack sees of a trained victim, by the items that it declares."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attacks.base import Architecture, Knowledge, UndeclaredKnowledgeError, VictimView
from bench.plan.capability import unknown
from victims.base import Victim
from victims.defences.release import answered, noise_seed
from victims.deletion.cache import training_records
from victims.deletion.victim import DeletionVictim
from victims.equations.architectures import blank
from victims.equations.checkpoint import Checkpoint
from victims.informed.data import Records
from victims.informed.victim import AnyVictim, InformedVictim, logits
from victims.kernel.machine import KernelMachine
from victims.recipes import Interpolation, Ordinary
from victims.released import answering
from victims.spec import BuiltSpec, NetworkSpec, Released

Facts = dict[Knowledge, Any]
"""What is disclosed of a victim, by item: tensors on the CPU, descriptions, numbers."""


def view_of(
    victim: AnyVictim, needs: frozenset[Knowledge], device: torch.device, kind: type[VictimView] = VictimView
) -> VictimView:
    """Return a view of a victim that hands out copies of the items in `needs`, on `device`, and refuses all others.

    Raises:
        LookupError: a victim of its setting has no such item.
    """
    facts, network = disclosed(victim, needs), network_of(victim)
    return view_from(facts, needs, device, network, answer_of(victim, needs, device), kind)


def disclosed(victim: AnyVictim, needs: frozenset[Knowledge]) -> Facts:
    """Return copies of the items in `needs`, on the CPU, ready to be sent to another process.

    Logits are answered where the victim is, and are not among them; the architecture comes without what builds it.

    Raises:
        LookupError: a victim of its setting has no such item.
    """
    facts = _all_facts(victim)
    if absent := needs - facts.keys():
        raise LookupError(f"a victim of the {victim.spec.setting} setting has no {', '.join(sorted(absent))} to tell")
    return {item: _copied(facts[item], torch.device("cpu")) for item in needs}


def view_from(
    facts: Facts,
    needs: frozenset[Knowledge],
    device: torch.device,
    network: Callable[[], nn.Module] | None,
    answer: Callable[[Tensor], Tensor],
    kind: type[VictimView] = VictimView,
) -> VictimView:
    """Return the view that hands out disclosed facts.

    Args:
        facts: what is disclosed, by item.
        needs: the items that the attack declared.
        device: where its tensors are to be.
        network: builds the victim's network, with whatever weights; None if the victim is many models.
        answer: returns the victim's outputs for inputs (m, C, H, W).
        kind: of view.
    """
    shown = {item: _copied(value, device) for item, value in facts.items()}
    architecture = shown.get(Knowledge.ARCHITECTURE)
    if isinstance(architecture, Architecture) and network is not None:
        build_blank = _blank(network, device)
        shown[Knowledge.ARCHITECTURE] = Architecture(architecture.spec, architecture.input_shape, build_blank)
    if Knowledge.LOGITS in needs:
        shown[Knowledge.LOGITS] = answer
    return kind(shown, needs)


def answer_of(victim: AnyVictim, needs: frozenset[Knowledge], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return a function from inputs (m, C, H, W) to the victim's outputs, on `device`, without gradient.

    The function raises UndeclaredKnowledgeError if the attack did not declare that it asks for logits.
    """
    if Knowledge.LOGITS not in needs:
        return _refuse
    if isinstance(victim, InformedVictim):
        weights = {name: value.to(device, copy=True) for name, value in victim.weights.items()}
        noise = torch.Generator().manual_seed(noise_seed(victim.card.weights_sha256))
        return lambda queries: answered(logits(victim.spec, weights, queries.to(device)), victim.spec.defences, noise)
    assert isinstance(victim, Victim)
    model = copy.deepcopy(victim.model).to(device)
    generator = torch.Generator().manual_seed(noise_seed(victim.card.weights_sha256))

    @torch.no_grad()
    def answer(queries: Tensor) -> Tensor:
        return answered(model(queries.to(device)), victim.spec.defences, generator)

    return answer


class Counted:
    """A function that answers queries and counts them.

    Attributes:
        asked: how many inputs it has answered.
    """

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        self._answer, self.asked = answer, 0

    def __call__(self, queries: Tensor) -> Tensor:
        """Return the answers to queries (m, C, H, W)."""
        self.asked += len(queries)
        return self._answer(queries)


def _refuse(queries: Tensor) -> Tensor:
    raise UndeclaredKnowledgeError(f"the attack asks for {Knowledge.LOGITS.value!r}, which its `needs` do not declare")


def network_of(victim: AnyVictim) -> Callable[[], nn.Module] | None:
    """Return a function that builds a victim's network; None for many models, and for one that stores its images."""
    if not isinstance(victim, Victim) or victim.spec.architecture.kind == "kernel":
        return None
    spec, shape = victim.spec, victim.input_shape
    own = spec.training.network if isinstance(spec.training, Released) else None
    return lambda: network_from(spec.architecture, shape, own)


def network_from(
    architecture: NetworkSpec, shape: tuple[int, int, int], own: Callable[[], nn.Module] | None
) -> nn.Module:
    """Return a victim's network, float32 on the CPU, with arbitrary weights.

    Args:
        architecture: the victim's.
        shape: (C, H, W) of an input.
        own: builds a released module; None for a network of this suite.
    """
    if own is not None:
        return answering(own().float().eval(), shape)
    assert isinstance(architecture, BuiltSpec)
    return blank(architecture, shape)


def _blank(network: Callable[[], nn.Module], device: torch.device) -> Callable[[], nn.Module]:
    def blank() -> nn.Module:
        empty = network().to(device)
        empty.load_state_dict({name: torch.zeros_like(value) for name, value in empty.state_dict().items()})
        return empty

    return blank


def _all_facts(victim: AnyVictim) -> Facts:
    if isinstance(victim, DeletionVictim):
        return _deletion_facts(victim)
    return _facts(victim) if isinstance(victim, Victim) else _informed_facts(victim)


def _facts(victim: Victim) -> Facts:
    split = victim.split
    labels, pool = torch.from_numpy(split.labels), torch.from_numpy(split.test_inputs)
    counts = np.bincount(split.labels, minlength=victim.spec.n_classes)
    stored = victim.model if isinstance(victim.model, KernelMachine) else None
    training = victim.spec.training
    told = training.class_balance if isinstance(training, Released) else ()
    told_mean = isinstance(training, Released) and training.mean != "training"
    own_mean = stored is None and not told_mean and not isinstance(training, Ordinary | Interpolation)
    weights = victim.model.state_dict() if stored is None else {}  # those are its training images
    checkpoints = victim.checkpoints if victim.spec.tells_checkpoints else ()
    balance = told or tuple(float(count) / max(len(split.labels), 1) for count in counts)
    facts = {
        Knowledge.ARCHITECTURE: Architecture(victim.spec.architecture, victim.input_shape),
        Knowledge.WEIGHTS: weights,
        Knowledge.KERNEL_WIDTH: None if stored is None else float(stored.gamma),
        Knowledge.CLASS_BALANCE: balance,
        Knowledge.N: victim.spec.n_trained,
        Knowledge.LABELS: labels,
        Knowledge.DATA_MEAN: torch.from_numpy(split.mean),
        Knowledge.LOSS: victim.spec.loss,
        Knowledge.WEIGHT_DECAY: victim.spec.weight_decay,
        Knowledge.SHADOW_POOL: (pool - pool.mean(0) if own_mean else pool, torch.from_numpy(split.test_labels)),
        Knowledge.LOGITS: None,
        Knowledge.INITIAL_WEIGHTS: victim.start if victim.spec.tells_start else None,
        Knowledge.EARLIER_WEIGHTS: victim.earlier,
        Knowledge.SNAPSHOTS: _releases(victim, weights, checkpoints),
        Knowledge.MOMENTUM: victim.momentum if victim.spec.tells_momentum else None,
        Knowledge.CHECKPOINTS: checkpoints,
        Knowledge.TRAINING_IMAGES: (torch.from_numpy(split.inputs), labels),
    }
    if isinstance(training, Ordinary):
        facts[Knowledge.TRAINING] = training
    return {item: facts[item] for item in facts.keys() - unknown(victim.spec)}


def _releases(
    victim: Victim, weights: dict[str, Tensor], checkpoints: tuple[Checkpoint, ...]
) -> tuple[dict[str, Tensor], ...]:
    """Return the weights at the most points of a training that are as many epochs apart, the last of several such.

    A training that was stopped early shows the release and the one before alone. Where no weights were released on
    the way they are those of the checkpoints alone. Of a model of one's own they are all, for its owner says that
    they are evenly apart.
    """
    training = victim.spec.training
    if not isinstance(training, Ordinary):
        return (*victim.earlier, weights) if victim.earlier else ()
    if len(victim.earlier) < len(training.snapshots):
        return (*victim.earlier[-1:], weights) if victim.earlier else ()
    if victim.earlier:
        return (*victim.earlier, weights)[evenly_spaced((*training.snapshots, training.epochs))]
    return tuple(state.weights for state in checkpoints)[evenly_spaced(training.checkpoints)]


def evenly_spaced(epochs: Sequence[int]) -> slice:
    """Return which of rising numbers follow one another at one distance: the most, the last of several; none of one."""
    runs, begin = [(0, 0)], 0
    for end in range(2, len(epochs) + 1):
        if epochs[end - 1] - epochs[end - 2] != epochs[begin + 1] - epochs[begin]:
            begin = end - 2
        runs.append((end - begin, end))
    length, end = max(runs)
    return slice(end - length, end)


def _informed_facts(victim: InformedVictim) -> Facts:
    split, spec = victim.split, victim.spec

    def points(records: Records) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(records.images), torch.from_numpy(records.labels)

    targets = points(split.targets)
    prior = None if split.prior is None else tuple(part[torch.from_numpy(split.prior)] for part in targets)
    return {
        Knowledge.ARCHITECTURE: Architecture(spec.architecture, victim.input_shape),
        Knowledge.WEIGHTS: victim.weights,
        Knowledge.N: spec.n,
        Knowledge.LABELS: targets[1],
        Knowledge.SHADOW_POOL: points(split.pool),
        Knowledge.LOGITS: None,
        Knowledge.KNOWN_POINTS: points(split.fixed),
        Knowledge.TRAINING: spec.training,
        Knowledge.INITIAL_WEIGHTS: victim.start,
        Knowledge.GRADIENT_TRACE: victim.trace,
        Knowledge.PRIOR: prior,
        Knowledge.TRAINING_IMAGES: targets,
    }


def _deletion_facts(victim: DeletionVictim) -> Facts:
    split, spec = victim.split, victim.spec
    return {
        Knowledge.ARCHITECTURE: Architecture(spec.architecture, victim.input_shape),
        Knowledge.WEIGHTS: victim.weights,
        Knowledge.EARLIER_WEIGHTS: (victim.before,),
        Knowledge.N: spec.n,
        Knowledge.SHADOW_POOL: (torch.from_numpy(split.pool.images), torch.from_numpy(split.pool.labels)),
        Knowledge.TRAINING: spec.training,
        Knowledge.TRAINING_IMAGES: training_records(split),
    }


def _copied(value: Any, device: torch.device) -> Any:
    """Return a copy on `device`. A copied tensor shares no storage with a larger one."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True, memory_format=torch.contiguous_format)
    if isinstance(value, Checkpoint):
        return Checkpoint.unpacked(_copied(value.packed(), device))
    if isinstance(value, dict):
        return {name: _copied(part, device) for name, part in value.items()}
    if isinstance(value, tuple) and any(isinstance(part, Tensor | dict | Checkpoint) for part in value):
        return tuple(_copied(part, device) for part in value)
    return value
