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
from bench.scoring import PROTOCOLS, score
from bench.scoring.evaluation import Reference, mean_image_score
from bench.scoring.matching import nearest_neighbours
from bench.store.folders import Store
from victims.base import Victim
from victims.equations.losses import margins

PROTOCOL = PROTOCOLS["buzaglo2023-unique"]
"""A candidate serves one image alone, so that no candidate counts twice."""

CONTROLS = ("null_random", "null_held_out")
"""Null controls that have candidates of their own and attack nothing."""


@dataclass(frozen=True)
class Hits:
    """What one attack reached.

    Attributes:
        ssim: (n,) of each training image, one candidate for one image.
        good: (n,) bool: above the protocol's threshold.
        nulls: (n,) the SSIM that each of its null controls reaches, by name.
        reconstruction: (n, C, H, W) in [0, 1].
    """

    ssim: Tensor
    good: Tensor
    nulls: dict[str, Tensor]
    reconstruction: Tensor

    @property
    def null(self) -> Tensor:
        """The best SSIM (n,) of its null controls."""
        return torch.stack(list(self.nulls.values())).amax(0)


@dataclass(frozen=True)
class Scored:
    """The training records of a model beside what attacks made of them.

    Attributes:
        images: (n, C, H, W) in [0, 1].
        labels: (n,).
        margins: (n,).
        nearest: (n, C, H, W), of each the nearest held-out image; None where none were given.
        attacks: what each attack reached, by name.
    """

    images: Tensor
    labels: Tensor
    margins: Tensor
    nearest: Tensor | None
    attacks: dict[str, Hits]

    def null(self, attacks: Iterable[str]) -> Tensor:
        """Return the best SSIM (n,) that any null control of these attacks reaches; 0 without attacks."""
        reached = [self.attacks[name].null for name in attacks]
        return torch.stack(reached).amax(0) if reached else torch.zeros(len(self.labels))


def scored(runs: Mapping[str, tuple[Run, str]], victim: Victim, store: Store, controls: NullControls) -> Scored:
    """Return the scores of all records, which are none where no images were given.

    Args:
        runs: each attack that ended well, by name: its run, and the id of what is stored of it.
        victim: the model with its training images.
        store: where the runs are.
        controls: draws the null controls.
    """
    if not victim.spec.n:
        nothing = torch.zeros(0)
        return Scored(torch.zeros(0, *victim.input_shape), nothing.long(), nothing, None, {})
    reference = Reference.of(victim)
    truth = reference.truth
    mean_image = {"null_mean_image": mean_image_score(PROTOCOL, truth).ssim}
    found: dict[str, Hits] = {}
    for name, (run, run_id) in runs.items():
        reconstruction = read_reconstruction(store.folder(run_id))
        reached = score(PROTOCOL, reference.matcher(reconstruction.candidates))
        found[name] = Hits(
            ssim=torch.where(reached.found, reached.ssim, 0),
            good=reached.good,
            nulls=mean_image | _of_controls(run, reconstruction, victim, reference, controls),
            reconstruction=reached.reconstruction,
        )
    held_out = reference.held_out
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


def _of_controls(
    run: Run, found: Reconstruction, victim: Victim, reference: Reference, controls: NullControls
) -> dict[str, Tensor]:
    """Return the SSIM (n,) that the null controls of a run reach, as far as this model has them."""
    reached = {}
    for name in CONTROLS:
        try:
            by_chance = score(PROTOCOL, reference.matcher(controls.candidates(name, run, found, victim)))
        except NoControlError:
            continue
        reached[name] = torch.where(by_chance.found, by_chance.ssim, 0)
    return reached
