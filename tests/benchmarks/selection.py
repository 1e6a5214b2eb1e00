"""How well rankings of candidates tell hits from misses, with what a twin that is trained on public images teaches.

    python tests/benchmarks/selection.py DIR [VICTIM [ATTACK [VARIANT ...]]]

attacks the victim (`cifar-mlp-500` by `kkt`, as it is by default and by `graduated`) and two twins of the same recipe
on test images, and prints of each ranking the average precision, the precision of the 10, 50, 300 and n surest, and how
many different images 50 and n of them are. Those that learn do so on the twins, of which all variants' candidates are
taken together, and are judged on the victim. The weights of "calibrated on these twins" are `LOGITS`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from trained import CPU, trained

from attacks.base import AttackContext
from attacks.kkt_family.params import MarginParams, SearchParams
from attacks.kkt_family.ranking import calibration
from attacks.kkt_family.ranking import evidence as ranking
from attacks.kkt_family.ranking.calibration import calibrated, products
from attacks.kkt_family.ranking.evidence import consensus, copies_last, evenness, evidence
from bench.plan import registry
from bench.run.disclosure import view_of
from bench.scoring import PROTOCOLS, confidence_curve
from bench.scoring.evaluation import Reference
from victims.base import Victim
from victims.training import loop
from victims.unfinished import Unfinished

PROTOCOL = PROTOCOLS["buzaglo2023"]
TWIN_SEEDS = (1001, 1002)
DRAW_SEEDS = (101, 102)
CUTS = (0.2, 0.35, 0.5, 0.65)
"""Mean cosine distances at which clusters are no longer merged."""


@dataclass
class Attacked:
    """The candidates of an attack, m of them, and what is known of each.

    Attributes:
        reference: the truth.
        candidates: (m, C, H, W).
        labels: (m,), None if there are none.
        restarts: their number.
        factors: confidence, consistency, evenness and that of the consensus, (m,) each.
        columns: (m, 6) those of `attacks.kkt_family.ranking.calibration`, None without margins.
    """

    reference: Reference
    candidates: Tensor
    labels: Tensor | None
    restarts: int
    factors: tuple[Tensor, Tensor, Tensor, Tensor]
    columns: Tensor | None = None

    @property
    def logarithms(self) -> np.ndarray:
        """(m, 4), of the factors; that of the confidence, whose unit is the search's, less its mean."""
        logarithms = torch.stack(self.factors, 1).clamp_min(1e-12).log()
        logarithms[:, 0] -= logarithms[:, 0].mean()
        return logarithms.numpy()

    @property
    def hits(self) -> np.ndarray:
        """(m,) bool, in the candidates' own order."""
        places = -torch.arange(len(self.candidates)).double()
        return confidence_curve(PROTOCOL, self.reference.matcher(self.candidates), places).hit.numpy()

    def line(self, name: str, confidence: Tensor, candidates: Tensor | None = None) -> str:
        """Return what a ranking gets, of other candidates than its own if they are given."""
        shown = self.candidates if candidates is None else candidates
        curve, n = (
            confidence_curve(PROTOCOL, self.reference.matcher(shown), confidence),
            len(self.reference.truth.images),
        )
        at = " ".join(f"{curve.precision_at(k):.2f}" for k in (10, 50, 300, n))
        found = f"{curve.images_at(50)} {curve.images_at(n)} of {int(curve.images[-1])} images"
        return f"{name} | {curve.average_precision:.3f} of {curve.base_rate:.3f} | {at} | {found}\n"


def twin_of(victim: Victim, seed: int, draw: int) -> Victim:
    """Return a victim of the same recipe and another seed, trained on n of the public images."""
    split, spec = victim.split, victim.spec
    images, labels = split.test_inputs + split.mean, torch.from_numpy(split.test_labels)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(draw))
    per_class = spec.n // spec.n_classes
    chosen = torch.cat([order[labels[order] == one][:per_class] for one in range(spec.n_classes)]).sort().values.numpy()
    mean = images[chosen].mean(0)
    inputs = images[chosen] - mean
    own = replace(split, inputs=inputs, labels=labels.numpy()[chosen], indices=chosen, mean=mean)
    given = torch.from_numpy(inputs), torch.from_numpy(own.labels), CPU
    reseeded = spec.model_copy(update={"seed": seed})
    model = loop.train(reseeded, *given, Unfinished(), lambda progress: None)
    return Victim(victim.card, model.float(), own)


def attacked(victim: Victim, name: str, variant: str) -> Attacked:
    """Return what the attack of that name and variant finds."""
    kind, seen = registry.attacks().items[name], []
    assert issubclass(kind.Params, SearchParams)
    margins = issubclass(kind.Params, MarginParams)
    chosen = {"ranking": "calibrated" if margins else "evidence"}
    params = kind.Params(**kind.variants[variant] if variant else {}, **chosen)

    def watched(columns: Tensor) -> Tensor:
        size, agreed, *others, _ = columns.exp().T
        seen.append((size * agreed, *others, columns))
        return calibrated(columns)

    def watched_evidence(
        confidence: Tensor, consistencies: Tensor, images: Tensor, labels: Tensor | None = None, restarts: int = 1
    ) -> Tensor:
        agreed = consensus(images.flatten(1), labels, restarts).view_as(images)
        seen.append((confidence, consistencies, evenness(images), evenness(agreed), None))
        return evidence(confidence, consistencies, images, labels, restarts)

    attack = kind(params)
    calibration.calibrated, ranking.evidence = watched, watched_evidence
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    *factors, columns = seen[-1]
    return Attacked(Reference.of(victim), found.candidates, found.labels, params.restarts, tuple(factors), columns)


def compare(victim: Attacked, twins: list[Attacked]) -> None:
    """Print what every ranking gets."""
    write, rows = sys.stdout.write, victim.candidates.flatten(1)
    confidence, consistencies = victim.factors[:2]
    sure = evidence(confidence, consistencies, victim.candidates, victim.labels, victim.restarts)
    lessons = np.concatenate([twin.logarithms for twin in twins]), np.concatenate([twin.hits for twin in twins])
    write("ranking | average precision of base rate | precision at 10, 50, 300, n | images at 50, n, of all\n")
    write(victim.line("agreement", victim.factors[0]))
    write(victim.line("consistency", victim.factors[1]))
    write(victim.line("evenness", -victim.factors[2]))
    write(victim.line("evenness of the consensus", -victim.factors[3]))
    write(victim.line("evidence", sure))
    write(victim.line("distinct", copies_last(sure, rows, victim.labels)))
    learned = LogisticRegression(C=100, max_iter=1000).fit(*lessons)
    weights = ", ".join(f"{weight:.2f}" for weight in learned.coef_[0])
    write(
        victim.line(f"logistic regression of the twins ({weights})", told(learned.decision_function(victim.logarithms)))
    )
    trees = HistGradientBoostingClassifier(max_iter=80, max_leaf_nodes=8, random_state=0)
    probability = trees.fit(*lessons).predict_proba(victim.logarithms)[:, 1]
    write(victim.line("boosted trees of the twins", told(probability)))
    if victim.columns is not None:
        write(victim.line("calibrated", calibrated(victim.columns)))
        learned = LogisticRegression(C=100, max_iter=5000, fit_intercept=False)
        alike = np.concatenate([np.full(len(twin.hits), 1 / len(twin.hits)) for twin in twins])  # all attacks count
        taught = torch.cat([products(twin.columns.double()) for twin in twins if twin.columns is not None]).numpy()
        learned.fit(taught, lessons[1], alike * len(taught) / len(twins))
        logits = torch.from_numpy(learned.coef_[0])
        weights = ", ".join(f"{weight:.2f}" for weight in logits)
        write(victim.line(f"calibrated on these twins ({weights})", products(victim.columns.double()) @ logits))
    joined = linkage(pdist(rows.numpy(), "cosine"), "average")
    for cut in CUTS:
        cluster = torch.from_numpy(fcluster(joined, cut, "distance")).long() - 1
        member = F.one_hot(cluster).double().T
        member = member / member.sum(1, keepdim=True)
        means = (member @ rows.double()).float().view(-1, *victim.candidates.shape[1:])
        write(victim.line(f"means of {len(means)} clusters within {cut}", (member @ sure.double().log()), means))


def told(values: np.ndarray) -> Tensor:
    """Return a ranking's values as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values)).double()


def main() -> None:
    """Attack the victim and its twin, and compare."""
    data_dir, name, attack = Path(sys.argv[1]), *(*sys.argv[2:4], *("cifar-mlp-500", "kkt")[len(sys.argv[2:4]) :])
    variants = sys.argv[4:] or ["", "graduated"]
    victim = trained(name, data_dir)
    twins = [twin_of(victim, *seeds) for seeds in zip(TWIN_SEEDS, DRAW_SEEDS, strict=True)]
    lessons = [attacked(twin, attack, one) for twin in twins for one in variants]
    for variant in variants:
        sys.stdout.write(f"\n{attack} {variant or 'as it is by default'} on {name}\n")
        compare(attacked(victim, attack, variant), lessons)


if __name__ == "__main__":
    main()
