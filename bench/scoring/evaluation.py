"""One set of candidates under every protocol and metric that a row of runs.csv reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bench.scoring import (
    PROTOCOLS,
    ConfidenceCurve,
    Evidence,
    Matcher,
    Protocol,
    Scores,
    Truth,
    confidence_curve,
    judge,
    measure,
    score,
)
from bench.scoring.matching import in_order
from bench.scoring.membership import membership_auc
from bench.scoring.metrics import nearest_neighbour_mse
from victims.base import Victim
from victims.dataset_files import tabular
from victims.deletion.victim import DeletionVictim
from victims.informed.victim import AnyVictim, InformedVictim

if TYPE_CHECKING:
    from bench.scoring.judges import Judge
    from bench.scoring.lpips.perceptual import Perceptual

COUNT_PROTOCOLS = {
    "n_good_haim_min": "haim2022-min",
    "n_good_haim_mean": "haim2022-mean",
    "n_good_unique": "buzaglo2023-unique",
    "n_good_assigned": "assigned",
}
"""Column of runs.csv: the protocol whose good images it counts; `n_good` counts under the row's own protocol."""

MEASURED = ("mse", "psnr", "pearson", "identified", "lpips", "kl")
"""The metrics of the row's reconstructions, beside the SSIM that the protocol judges."""

FALSE_POSITIVES = 0.01

NO_IMAGES = "rows of a table have no LPIPS"
"""The `lpips_status` of victims on a table, whatever network is there."""

MSE_QUANTILES = {"mse_p1": 0.01, "mse_p10": 0.1, "mse_p50": 0.5}
"""Column of runs.csv: which quantile of the MSE over targets it holds (Balle et al. 2022, Fig. 4)."""


@dataclass(frozen=True)
class LearnedMetrics:
    """The networks that measure LPIPS and KL, each with its name or the reason why it is missing."""

    perceptual: Perceptual | None = None
    perceptual_status: str = "not measured"
    judge: Judge | None = None
    judge_status: str = "not measured"


@dataclass(frozen=True)
class Reference:
    """A victim's data for scoring.

    Attributes:
        truth: the training images; of a victim of the informed adversary the T targets, and their mean is that of the
            images that the adversary has.
        held_out: (p, C, H, W) in [0, 1], test images, none of them among the training images; p may be 0. Outside of
            the dataset setting all images that the adversary has, such as the fixed set and the shadow pool: a
            reconstruction has to beat the nearest of them.
        shift: (C, H, W) or a number, what candidates lack to be images less `truth.mean`.
        together: number of records that were deleted at once, whose order nothing tells: candidates are brought into
            the order of their targets within each deletion, at the smallest total error. Null controls are too.
        tabular: whether the records are rows of a table.
    """

    truth: Truth
    held_out: Tensor
    shift: Tensor | float = 0.0
    together: int = 1
    tabular: bool = False

    @classmethod
    def of(cls, victim: AnyVictim) -> Reference:
        """Return a victim's training and held-out images."""
        if not isinstance(victim, Victim):
            had, targets = (torch.from_numpy(part.images) for part in (victim.split.known, victim.split.targets))
            mean, nearest = had.mean(0), nearest_neighbour_mse(Evidence(targets, targets, had))
            decoys = victim.split.decoys if isinstance(victim, InformedVictim) else None
            truth = Truth(targets, mean, nearest, decoys=None if decoys is None else torch.from_numpy(decoys))
            return cls(truth, had, -mean, together(victim), tabular(victim.spec.dataset))
        split = victim.split
        images, held_out = (torch.from_numpy(victim.images(inputs)) for inputs in (split.inputs, split.test_inputs))
        mean, scale = torch.from_numpy(split.mean), torch.from_numpy(victim.scale)
        truth = Truth(images, mean, nearest_neighbour_mse(Evidence(images, images, held_out)), scale)
        return cls(truth, held_out, tabular=victim.spec.tabular)

    def matcher(self, candidates: Tensor) -> Matcher:
        """Return candidates (m, C, H, W) of an attack beside the training images."""
        given = candidates.detach().float().cpu()
        return Matcher(in_order(given, self.truth.images, self.together) + self.shift, self.truth)

    def swapped(self) -> Truth:
        """Return the held-out images in the place of the training images, to count false positives."""
        return replace(self.truth, images=self.held_out, nearest_known_mse=torch.full((len(self.held_out),), math.inf))


def together(victim: InformedVictim | DeletionVictim) -> int:
    """Return how many records each deletion deleted at once, whose order a release cannot show; 1 without deletions."""
    return victim.spec.training.records if isinstance(victim, DeletionVictim) else 1


def count_scores(protocol: Protocol, matcher: Matcher) -> dict[str, Scores]:
    """Return the scores under the row's protocol and, of images, those of `COUNT_PROTOCOLS`, by column."""
    return {column: score(named, matcher) for column, named in _protocols(protocol).items()}


def mean_image_scores(protocol: Protocol, truth: Truth) -> dict[str, Scores]:
    """Return what `count_scores` would be if the mean image stood in the place of every reconstruction."""
    return {column: mean_image_score(named, truth) for column, named in _protocols(protocol).items()}


def mean_image_score(protocol: Protocol, truth: Truth) -> Scores:
    """Return the scores of the mean image in the place of every reconstruction."""
    n = len(truth.images)
    mean = (truth.images.mean(0) - truth.mean) / truth.scale  # zero, where the victim subtracts the training mean
    served, candidate = mean.expand_as(truth.images), torch.zeros(n, dtype=torch.long)
    return judge(protocol, served, candidate, torch.ones(n, dtype=torch.long), truth)


def counts(by_column: Mapping[str, Scores]) -> dict[str, int]:
    """Return the good images by column."""
    return {column: scores.n_good for column, scores in by_column.items()}


def one_to_one_scores(by_column: Mapping[str, Scores]) -> Scores:
    """Return the scores by which rows are ranked: a candidate serves one image only."""
    return by_column["n_good_unique" if "n_good_unique" in by_column else "n_good"]


@dataclass(frozen=True)
class Evaluation:
    """The scores of one set of candidates.

    Attributes:
        by_column: the scores for `n_good` and every column of `COUNT_PROTOCOLS`; for `n_good` alone where candidate i
            is for image i, since the other protocols match candidates to images, and of rows of a table.
        values: (n,) by metric, for the row's reconstructions.
        failed: the metrics that could not be measured, and why.
        nearest_known_mse: (n,) MSE of each training image to the nearest held-out one.
        held_out: (p,) SSIM that the same scoring call gives each held-out image; 0 for one that no candidate serves,
            and none of rows of a table.
        confidence: the attack's ranking of its candidates, None if it gave none.
        learned_metrics: what measured LPIPS and KL.
        membership_auc: of the informed membership test, where candidate i is for image i and for no other.
    """

    by_column: dict[str, Scores]
    values: dict[str, Tensor]
    failed: dict[str, str]
    nearest_known_mse: Tensor
    held_out: Tensor
    confidence: ConfidenceCurve | None
    learned_metrics: LearnedMetrics
    membership_auc: float | None = None

    @property
    def row(self) -> Scores:
        """The scores under the row's own protocol."""
        return self.by_column["n_good"]

    def columns(self) -> dict[str, Any]:
        """Return the columns of runs.csv that come from the scores."""
        row = self.row
        numbers = {
            "ssim_mean": row.ssim_mean,
            "ssim_top10": row.ssim_top10,
            "ssim_best": row.ssim_best,
            "identified": math.nan,
        }
        for name, value in self.values.items():
            numbers[name if name == "identified" else f"{name}_mean"] = float(value.double().mean())
        if "mse" in self.values:
            best = self.values["mse"][row.found]
            numbers["mse_best"] = float(best.min()) if len(best) else math.nan
        if bool(self.nearest_known_mse.isfinite().all()) and "mse" in self.values:
            numbers["oracle_mse"] = float(self.nearest_known_mse.double().mean())
            numbers["beats_oracle"] = float((self.values["mse"] < self.nearest_known_mse).double().mean())
        if self.membership_auc is not None:
            numbers["membership_auc"] = self.membership_auc
        if self.row.protocol.matching == "aligned" and "mse" in self.values:
            shares = torch.tensor(list(MSE_QUANTILES.values()), dtype=torch.float64)
            numbers |= dict(zip(MSE_QUANTILES, self.values["mse"].double().quantile(shares).tolist(), strict=True))
        if self.confidence is not None:
            numbers |= self._ranking(self.confidence)
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        statuses = {
            "lpips_status": self.failed.get("lpips", self.learned_metrics.perceptual_status),
            "kl_status": self.failed.get("kl", self.learned_metrics.judge_status),
        }
        return {**counts(self.by_column), **finite, **self._false_positives(), **statuses}

    def _ranking(self, curve: ConfidenceCurve) -> dict[str, float]:
        n = len(self.nearest_known_mse)
        return {
            "confidence_ap": curve.average_precision,
            "base_rate": curve.base_rate,
            "precision_at_10": curve.precision_at(10),
            "precision_at_50": curve.precision_at(50),
            "precision_at_n": curve.precision_at(n),
            "n_found_at_n": curve.images_at(n),
        }

    def _false_positives(self) -> dict[str, Any]:
        if len(self.held_out) == 0:
            return {}
        rate = float((self.held_out > self.row.protocol.threshold).double().mean())
        allowed = int(FALSE_POSITIVES * len(self.held_out))
        if not allowed:
            return {"false_positive_rate": rate}
        at_1pct = float(self.held_out.sort(descending=True).values[allowed])
        return {
            "false_positive_rate": rate,
            "ssim_at_1pct": at_1pct,
            "n_good_at_1pct": int((self.row.found & (self.row.ssim > at_1pct)).sum()),
        }


def evaluate(
    protocol: Protocol,
    candidates: Tensor,
    confidence: Tensor | None,
    reference: Reference,
    learned: LearnedMetrics,
) -> Evaluation:
    """Return the scores of candidates (m, C, H, W) in the victim's input space against its training images.

    Args:
        protocol: the row's.
        candidates: the attack's.
        confidence: (m,) the attack's own, or None.
        reference: the victim's data.
        learned: what measures LPIPS and KL.
    """
    matcher = reference.matcher(candidates)
    by_column = count_scores(protocol, matcher)
    if reference.tabular:
        learned = replace(learned, perceptual=None, perceptual_status=NO_IMAGES)
    evidence = Evidence(
        images=by_column["n_good"].reconstruction,
        references=reference.truth.images,
        pool=reference.held_out,
        perceptual=learned.perceptual,
        judge=learned.judge,
    )
    absent = {"lpips": learned.perceptual is None, "kl": learned.judge is None}
    values, failed = measure(evidence, tuple(name for name in MEASURED if not absent.get(name, False)))
    if protocol.matching == "aligned":
        auc = membership_auc(evidence.images, evidence.references, reference.together)
        return Evaluation(
            by_column, values, failed, reference.truth.nearest_known_mse, torch.empty(0), None, learned, auc
        )
    curve = None
    if confidence is not None:
        curve = confidence_curve(protocol, matcher, confidence)
    held_out = torch.empty(0)
    if len(reference.held_out) and protocol.good == "ssim":
        swapped = score(protocol, Matcher(matcher.candidates, reference.swapped()))
        held_out = torch.where(swapped.found, swapped.ssim, 0)
    return Evaluation(by_column, values, failed, reference.truth.nearest_known_mse, held_out, curve, learned)


def _protocols(row: Protocol) -> dict[str, Protocol]:
    if row.matching == "aligned" or row.good == "columns":
        return {"n_good": row}
    by_column = {"n_good": row} | {column: PROTOCOLS[name] for column, name in COUNT_PROTOCOLS.items()}
    return by_column | ({"n_good_unique": row} if row.good == "oracle" else {})  # it is one to one itself
