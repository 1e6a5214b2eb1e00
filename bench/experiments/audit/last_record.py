"""The threat model of all records but one, for a linear model: each record in turn is the one that is not known.

The released weights are those of one training. Whoever lacks record i has them and all other records.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor

from attacks.context import UNLIMITED
from bench.experiments.audit.scores import ROWS, Hits, Reached
from bench.plan.last_record import linear_model
from bench.plan.prospects import Prospect
from bench.plan.run import Run
from bench.run.failures import Failure, failure_of
from bench.run.session import Session
from bench.run.setup import Setup
from bench.scoring import PROTOCOLS, score
from bench.scoring.evaluation import Reference
from bench.scoring.metrics import mse
from bench.scoring.scores import rescaled
from bench.store.records import Status
from bench.terminal.progress import Reporter, Silent
from victims.base import Victim
from victims.cache import origin
from victims.errors import UserError
from victims.informed.data import InformedSplit, Records
from victims.informed.spec import GLMSpec, Intercept
from victims.informed.victim import InformedCard, InformedVictim


@dataclass(frozen=True)
class LastRecords:
    """What an attack made of every record, taken for the one that is not known.

    Attributes:
        hits: what it reached, candidate i being for record i; None if it failed.
        seconds: wall time.
        untried: number of records that were not tried, because the time was spent.
        failure: how it failed.
    """

    hits: Hits | None
    seconds: float
    untried: int = 0
    failure: Failure | None = None


def attacked(prospect: Prospect, victim: Victim, setup: Setup, reporter: Reporter, seconds: float) -> LastRecords:
    """Return what an attack makes of every record of a linear model, without a process of its own for each of them.

    Args:
        prospect: an attack that needs no more than `bench.plan.last_record.TOLD`.
        victim: the model, with all of its training records.
        setup: where attacks are run.
        reporter: told how far it is.
        seconds: after these no further record is tried.
    """
    model = _Linear.of(victim)
    n, start = len(victim.split.labels), time.monotonic()
    candidates, tried = torch.full((n, *victim.input_shape), torch.nan), 0
    session = Session(setup, Silent())
    for place in range(n):
        if time.monotonic() - start > seconds:
            break
        tried += 1
        reporter.progress(f"{prospect.name} on {victim.spec.name}", tried, n, {})
        try:
            without = model.without(place)
        except UserError:  # the same record is among the known ones
            continue
        run = Run(prospect.attack, prospect.params, prospect.variant, "default", without.spec, 0, UNLIMITED)
        try:
            candidates[place] = session.attack(run, without).reconstruction.candidates[0]
        except (Exception, SystemExit) as error:  # one attack's failure is not the end of the audit
            failure = failure_of(error)
            if failure.status is not Status.DIVERGED:  # which says that the weights do not show this record
                return LastRecords(None, time.monotonic() - start, failure=failure)
    return LastRecords(_hits(candidates, victim), time.monotonic() - start, n - tried)


@dataclass(frozen=True)
class _Linear:
    """A linear classifier, and the description of the objective that it minimises."""

    victim: Victim
    spec: GLMSpec
    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, victim: Victim) -> _Linear:
        """Return a victim's classifier; its penalty, which the attacker knows, is read off weights and records."""
        state = victim.model.state_dict()
        coef = state["layers.0.weight"].double().numpy()
        has_intercept = "layers.0.bias" in state
        intercept = state["layers.0.bias"].double().numpy() if has_intercept else np.zeros(len(coef))
        records, labels = victim.split.inputs.reshape(len(victim.split.labels), -1), victim.split.labels
        outputs = records.astype(np.float64) @ coef.T + intercept
        binary = len(coef) == 1
        residuals = expit(outputs) - labels[:, None] if binary else softmax(outputs, axis=1) - np.eye(len(coef))[labels]
        gradient, shift = residuals.T @ records, residuals.sum(0)
        penalty = max(0.0, float(-(gradient * coef).sum() / np.square(coef).sum()))
        kind: Intercept = "none"
        if has_intercept:
            penalised = np.linalg.norm(shift + penalty * intercept) < np.linalg.norm(shift)
            kind = "penalised" if penalised else "unpenalised"
        return cls(victim, linear_model(victim.spec, kind, penalty), coef, intercept)

    def without(self, place: int) -> InformedVictim:
        """Return the model as one whose record at a place is the only one that is not known.

        Raises:
            UserError: the known records hold the same record once more.
        """
        split, card = self.victim.split, self.victim.card
        known = Records(np.delete(split.inputs, place, 0), np.delete(split.labels, place))
        target = Records(split.inputs[place : place + 1], split.labels[place : place + 1])
        none = Records(split.inputs[:0], split.labels[:0])
        weights = {"coef": torch.from_numpy(self.coef)[None], "intercept": torch.from_numpy(self.intercept)[None]}
        return InformedVictim(
            InformedCard(
                name=self.spec.name,
                spec=self.spec,
                train_loss=None,
                train_accuracy=None,
                test_loss=None,
                test_accuracy=None,
                **origin(card.weights_sha256, card.dataset_sha256, torch.device("cpu"), train_s=0.0),
            ),
            None,
            weights,
            InformedSplit(known, target, none, none),
        )


def _hits(candidates: Tensor, victim: Victim) -> Hits:
    """Return what candidates reach, each on its own record, and what chance reaches by the same rule.

    An image is reconstructed if it is nearer than the nearest record that the attacker has, a row by its columns.
    Chance is the mean of the other records, the nearest of them, and the candidate for another record.
    """
    protocol = replace(ROWS, matching="aligned") if victim.spec.tabular else PROTOCOLS["balle2022"]
    given = Reference.of(victim)
    inputs, images = torch.from_numpy(victim.split.inputs), given.truth.images
    means = (inputs.sum(0) - inputs) / (len(inputs) - 1)
    nearest = inputs[_nearest_others(images.flatten(1))]
    least = mse(rescaled(protocol, nearest, given.truth), images)
    reference = replace(given, truth=replace(given.truth, nearest_known_mse=least))
    controls = {
        "null_mean_image": means,
        "nearest known record": nearest,
        "null_shuffled": candidates.roll(1, 0),
    }
    reached = score(protocol, reference.matcher(candidates))
    return Hits(
        protocol=protocol.name,
        own=Reached.of(reached),
        nulls={name: Reached.of(score(protocol, reference.matcher(made))) for name, made in controls.items()},
        reconstruction=reached.reconstruction,
    )


def _nearest_others(rows: Tensor) -> Tensor:
    """Return of each row (n, d) the index (n,) of the nearest other one."""
    nearest = []
    for part in torch.arange(len(rows)).split(1024):  # all pairs at once would not fit into memory
        distance = torch.cdist(rows[part], rows, compute_mode="donot_use_mm_for_euclid_dist")
        distance[torch.arange(len(part)), part] = torch.inf
        nearest.append(distance.argmin(1))
    return torch.cat(nearest)
