"""The score of every training record: what each attack reached on it, and the most that a null control reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.base import Reconstruction
from bench.plan.run import Run
from bench.run.artifacts import read_reconstruction
from bench.run.null_controls import NoControlError, NullControls
from bench.scoring import PROTOCOLS, Protocol, Scores, score
from bench.scoring.evaluation import Reference, mean_image_score
from bench.scoring.matching import nearest_neighbours
from bench.store.folders import Store
from victims.base import Victim
from victims.equations.losses import margins

IMAGES, ROWS = PROTOCOLS["buzaglo2023-unique"], PROTOCOLS["vero2023"]
"""A candidate serves one record alone, so that no candidate counts twice."""

CONTROLS = ("null_random", "null_held_out")
"""Null controls that have candidates of their own and attack nothing."""


@dataclass(frozen=True)
class Hits:
    """What one attack reached.

    Attributes:
        similarity: (n,) of each training record, one candidate for one record: the SSIM of an image, the share of a
            row's columns that are right.
        good: (n,) bool: above the protocol's threshold.
        nulls: (n,) the similarity that each of its null controls reaches, by name.
        reconstruction: (n, C, H, W) in [0, 1].
    """

    similarity: Tensor
    good: Tensor
    nulls: dict[str, Tensor]
    reconstruction: Tensor

    @property
    def null(self) -> Tensor:
        """The best similarity (n,) that its null controls reach."""
        return torch.stack(list(self.nulls.values())).amax(0)


@dataclass(frozen=True)
class Scored:
    """The training records of a model beside what attacks made of them.

    Attributes:
        protocol: says when a record counts as reconstructed.
        images: (n, C, H, W) in [0, 1].
        labels: (n,).
        margins: (n,).
        nearest: (n, C, H, W), of each the nearest held-out record; None where none were given.
        attacks: what each attack reached, by name.
    """

    protocol: Protocol
    images: Tensor
    labels: Tensor
    margins: Tensor
    nearest: Tensor | None
    attacks: dict[str, Hits]

    def null(self, attacks: Iterable[str]) -> Tensor:
        """Return the best similarity (n,) that any null control of these attacks reaches; 0 without attacks."""
        reached = [self.attacks[name].null for name in attacks]
        return torch.stack(reached).amax(0) if reached else torch.zeros(len(self.labels))


def scored(runs: Mapping[str, tuple[Run, str]], victim: Victim, store: Store, controls: NullControls) -> Scored:
    """Return the scores of all records, which are none where none were given.

    Args:
        runs: each attack that ended well, by name: its run, and the id of what is stored of it.
        victim: the model with its training records.
        store: where the runs are.
        controls: draws the null controls.
    """
    protocol = ROWS if victim.spec.tabular else IMAGES
    if not victim.spec.n:
        nothing = torch.zeros(0)
        return Scored(protocol, torch.zeros(0, *victim.input_shape), nothing.long(), nothing, None, {})
    reference = Reference.of(victim)
    truth = reference.truth
    mean_image = {"null_mean_image": mean_image_score(protocol, truth).similarity}
    found: dict[str, Hits] = {}
    for name, (run, run_id) in runs.items():
        reconstruction = read_reconstruction(store.folder(run_id))
        reached = score(protocol, reference.matcher(reconstruction.candidates))
        by_chance = _of_controls(protocol, run, reconstruction, victim, reference, controls)
        found[name] = Hits(_of_served(reached), reached.good, mean_image | by_chance, reached.reconstruction)
    held_out = reference.held_out
    with torch.no_grad():
        outputs = victim.model(torch.from_numpy(victim.split.inputs))
    labels = torch.from_numpy(victim.split.labels)
    return Scored(
        protocol=protocol,
        images=truth.images,
        labels=labels,
        margins=margins(outputs, labels),
        nearest=held_out[nearest_neighbours(truth.images, held_out)[1]] if len(held_out) else None,
        attacks=found,
    )


def _of_controls(
    protocol: Protocol,
    run: Run,
    found: Reconstruction,
    victim: Victim,
    reference: Reference,
    controls: NullControls,
) -> dict[str, Tensor]:
    """Return the similarity (n,) that the null controls of a run reach, as far as this model has them."""
    reached = {}
    for name in CONTROLS:
        try:
            by_chance = score(protocol, reference.matcher(controls.candidates(name, run, found, victim)))
        except NoControlError:
            continue
        reached[name] = _of_served(by_chance)
    return reached


def _of_served(scores: Scores) -> Tensor:
    """Return the similarity (n,) of each record, 0 where no candidate serves it."""
    return torch.where(scores.found, scores.similarity, 0)
