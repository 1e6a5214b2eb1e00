"""The score of every training record: what each attack reached on it, and what null controls reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attacks.base import Reconstruction
from bench.plan.run import Run
from bench.run.artifacts import read_reconstruction
from bench.run.nulls.controls import NoControlError, NullControls
from bench.scoring import PROTOCOLS, Protocol, Scores, score
from bench.scoring.evaluation import Reference, mean_image_score
from bench.scoring.matching import nearest_neighbours
from bench.scoring.metrics import Evidence, nearest_neighbour_mse
from bench.store.folders import Store
from victims.base import Victim
from victims.equations.losses import margins

IMAGES, ALIKE, ROWS = PROTOCOLS["buzaglo2023-unique"], PROTOCOLS["nearest-public"], PROTOCOLS["vero2023"]
"""A candidate serves one record alone, so that no candidate counts twice."""
MOST_BY_CHANCE = 0.5
"""If held-out images pass for more than this share of the training images, SSIM is not used."""

RANDOM, HELD_OUT = "null_random", "null_held_out"
"""Null controls that have candidates of their own and attack nothing."""


@dataclass(frozen=True)
class Reached:
    """What candidates reach on every training record, one candidate for one record.

    Attributes:
        similarity: (n,) the SSIM of an image, the share of a row's columns that are right; 0 where none serves it.
        good: (n,) bool: the protocol calls it reconstructed.
    """

    similarity: Tensor
    good: Tensor

    @classmethod
    def of(cls, scores: Scores) -> Reached:
        """Return what the scores of all records say."""
        return cls(torch.where(scores.found, scores.similarity, 0), scores.good)


@dataclass(frozen=True)
class Hits:
    """What one attack reached, and chance by the same protocol.

    Attributes:
        protocol: name of the protocol that says which records are good.
        own: what the attack reached.
        nulls: what each of its null controls reaches, by name.
        reconstruction: (n, C, H, W) in [0, 1].
        fewer: of the controls that have fewer candidates than the attack, by name, how many.
        surest: what the attack reaches with as many candidates as these have.
    """

    protocol: str
    own: Reached
    nulls: dict[str, Reached]
    reconstruction: Tensor
    fewer: dict[str, int] = field(default_factory=dict)
    surest: dict[str, Reached] = field(default_factory=dict)

    def evenly(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what the attack and each control got, (n,) bool each, with as many candidates."""
        for name, reached in self.nulls.items():
            yield self.surest.get(name, self.own).good, reached.good

    @property
    def similarity(self) -> Tensor:
        """The similarity (n,) that the attack reached."""
        return self.own.similarity

    @property
    def good(self) -> Tensor:
        """(n,) bool: the records that the attack got."""
        return self.own.good

    @property
    def null(self) -> Tensor:
        """The best similarity (n,) that its null controls reach."""
        return torch.stack([reached.similarity for reached in self.nulls.values()]).amax(0)

    @property
    def null_good(self) -> Tensor:
        """(n,) bool: the records that any of its null controls gets."""
        return torch.stack([reached.good for reached in self.nulls.values()]).any(0)

    @property
    def strictest(self) -> str:
        """The null control that gets most records."""
        return max(self.nulls, key=lambda name: int(self.nulls[name].good.sum()))


@dataclass(frozen=True)
class Scored:
    """The training records of a model beside what attacks made of them.

    Attributes:
        images: (n, C, H, W) in [0, 1].
        labels: (n,).
        margins: (n,).
        nearest: (n, C, H, W), the nearest held-out record of each; None where none were given.
        attacks: what each attack reached, by name.
    """

    images: Tensor
    labels: Tensor
    margins: Tensor
    nearest: Tensor | None
    attacks: dict[str, Hits]

    def null(self, attacks: Iterable[str]) -> Tensor:
        """Return the best similarity (n,) that any null control of these attacks reaches; 0 without attacks."""
        reached = [self.attacks[name].null for name in attacks]
        return torch.stack(reached).amax(0) if reached else torch.zeros(len(self.labels))

    def null_good(self, attacks: Iterable[str]) -> Tensor:
        """Return the records (n,) bool that any null control of these attacks gets; none without attacks."""
        reached = [self.attacks[name].null_good for name in attacks]
        return torch.stack(reached).any(0) if reached else torch.zeros(len(self.labels), dtype=torch.bool)


def scored(runs: Mapping[str, tuple[Run, str]], victim: Victim, store: Store, controls: NullControls) -> Scored:
    """Return the scores of all records; the tensors are empty if the model came without records.

    Args:
        runs: each attack that ended well, by name: its run, and the id of what is stored of it.
        victim: the model with its training records.
        store: where the runs are.
        controls: draws the null controls.
    """
    if not victim.spec.n:
        nothing = torch.zeros(0)
        return Scored(torch.zeros(0, *victim.input_shape), nothing.long(), nothing, None, {})
    given = Reference.of(victim)
    usual = ROWS if victim.spec.tabular else ALIKE if _alike(given, victim) else IMAGES
    found: dict[str, Hits] = {}
    for name, (run, run_id) in runs.items():
        reconstruction = read_reconstruction(store.folder(run_id))
        own = PROTOCOLS[run.protocol]
        protocol, reference, spared = (own if own.good == "oracle" else usual), given, None
        if protocol.good == "oracle":
            reference, spared = _spared(given, victim, len(reconstruction.candidates))
        reached = score(protocol, reference.matcher(reconstruction.candidates))
        by_chance = {"null_mean_image": Reached.of(mean_image_score(protocol, reference.truth))}
        fewer, surest = dict[str, int](), dict[str, Reached]()
        for control, candidates in _candidates(protocol, run, reconstruction, victim, controls, spared):
            by_chance[control] = Reached.of(score(protocol, reference.matcher(candidates)))
            if len(candidates) < len(reconstruction.candidates):
                fewer[control] = len(candidates)
                surest[control] = Reached.of(
                    score(protocol, reference.matcher(_surest(reconstruction, len(candidates))))
                )
        found[name] = Hits(protocol.name, Reached.of(reached), by_chance, reached.reconstruction, fewer, surest)
    truth, held_out = given.truth, given.held_out
    with torch.no_grad():
        outputs = victim.model(torch.from_numpy(victim.split.inputs))
    labels = torch.from_numpy(victim.split.labels)
    return Scored(
        images=truth.images,
        labels=labels,
        margins=margins(outputs, labels),
        nearest=held_out[nearest_neighbours(truth.images, held_out)[1]] if len(held_out) else None,
        attacks=found,
    )


def _alike(given: Reference, victim: Victim) -> bool:
    """Return whether held-out images pass by SSIM for too many training images to use it, as with digits.

    Where there are fewer of them than training images, it is too large a share of them that passes. The images alone
    say so, and not what attacks made of them: else an audit could choose the rule by its outcome.
    """
    by_chance = score(IMAGES, given.matcher(torch.from_numpy(victim.split.test_inputs)))
    return by_chance.n_good > MOST_BY_CHANCE * min(len(given.truth.images), len(victim.split.test_inputs))


def _spared(given: Reference, victim: Victim, most: int) -> tuple[Reference, Tensor]:
    """Return the held-out images in two parts: those that a reconstruction has to beat, and candidates of a control.

    No held-out image can be nearer than the nearest of all of them, so without the second part chance would seem to
    get nothing where images are alike. It has as many as the attack has candidates, half of all at most. A fixed seed
    draws them, for their order may go by class.

    Args:
        given: all of them.
        victim: the model, whose inputs they are.
        most: number of the attack's candidates.

    Returns:
        The first part as a reference, and the second (k, C, H, W) as inputs.
    """
    inputs = torch.from_numpy(victim.split.test_inputs)
    order, k = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0)), min(most, len(inputs) // 2)
    bar, images = given.held_out[order[k:]], given.truth.images
    truth = replace(given.truth, nearest_known_mse=nearest_neighbour_mse(Evidence(images, images, bar)))
    return replace(given, truth=truth, held_out=bar), inputs[order[:k]]


def _candidates(
    protocol: Protocol,
    run: Run,
    found: Reconstruction,
    victim: Victim,
    controls: NullControls,
    spared: Tensor | None,
) -> Iterator[tuple[str, Tensor]]:
    """Yield the null controls of a run that this model has, and their candidates.

    `spared` are the candidates of the control of held-out images where others of them are the bar; else None.
    """
    for name in (RANDOM, HELD_OUT):
        try:
            candidates = spared if name == HELD_OUT else None
            if candidates is None:
                candidates = controls.candidates(name, run, protocol, found, victim)
        except NoControlError:
            continue
        if len(candidates):
            yield name, candidates


def _surest(found: Reconstruction, most: int) -> Tensor:
    """Return so many candidates: those that the attack is surest of, or that a fixed seed draws if it cannot tell."""
    order = torch.randperm(len(found.candidates), generator=torch.Generator().manual_seed(0))
    if found.confidence is not None:
        order = found.confidence.double().nan_to_num(-torch.inf).argsort(descending=True, stable=True)
    return found.candidates[order[:most]]
