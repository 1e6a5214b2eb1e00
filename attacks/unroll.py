"""Reconstruction by running the victim's own training on guesses of the record, and differentiating through it.

The equation, ||A(D_- and z) - theta||^2 and its gradient in z, is `attacks.informed.unrolling.Unrolled.distance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.informed.spec import DenseSpec, Descent, InformedSpec, SmallCNNSpec

if TYPE_CHECKING:
    from torch import Tensor

    from victims.informed.networks import Parameters

REACHED = 1e-2
"""A search has reached the released weights if its squared distance is at most this share of the squared distance by
which the record moved them."""


class UnrollParams(AttackParams):
    """Parameters of `unroll`.

    Attributes:
        labels: number of classes of the record that are tried, the likeliest first; the best one is kept.
        trial: number of evaluations for each of these classes.
        evaluations: largest number of evaluations of the distance and its gradient for the class that is kept. One
            evaluation costs about as much as training four models.
        retries: number of other classes that get `evaluations` too, if the class that is kept does not lead to the
            released weights.
        targets_per_batch: number of targets that are searched at once; it bounds the memory.
        hardest: number of records of the fixed set, those with the largest loss, that are probes of each class beside
            its mean image.
        dtype: precision of the computation.
    """

    labels: PositiveInt = 3
    trial: PositiveInt = 8
    evaluations: PositiveInt = 80
    retries: NonNegativeInt = 3
    targets_per_batch: PositiveInt = 16
    hardest: PositiveInt = 8
    dtype: Literal["float32", "float64"] = "float32"


Search = Callable[["Tensor", "Tensor", "Tensor", int], "Guess"]
"""Maps indices (j,) of a batch's targets, their classes (j,), start images (j, C, H, W) and the largest number of
evaluations for each to the records that the search found."""


class Unroll(Attack[UnrollParams]):
    """Minimises ||A(D_- and z) - theta||^2 over z: no shadow models, one search a target.

    The adversary of Balle et al. knows the training algorithm, all records but one and the initial weights, so the
    released weights are a function of z that can be evaluated and differentiated. The class of z is guessed first:
    models are trained on the fixed set and one more record of each class, and classes are ranked by the cosine between
    the changes of the weights and that of theta.
    """

    name = "unroll"
    summary = "the record at which the victim's own training ends at the released weights, by differentiating it"
    paper = "beyond Balle, Cherubin, Hayes 2022; unrolling after Tian et al. 2025 (SimuDy)"
    needs = frozenset(
        {
            Knowledge.ARCHITECTURE,
            Knowledge.WEIGHTS,
            Knowledge.KNOWN_POINTS,
            Knowledge.TRAINING,
            Knowledge.INITIAL_WEIGHTS,
        }
    )
    Params = UnrollParams
    setting = "informed"
    protocol = "balle2022"

    def supports(self, victim: Any) -> str | None:
        """Decline generalised linear models."""
        return None if isinstance(victim, InformedSpec) else "for networks trained by gradient descent"

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return a record for each target, searched batch after batch."""
        import torch

        from attacks.informed.classes import Probes, rank_classes
        from attacks.informed.standardisation import parameter_features
        from attacks.informed.unrolling import Unrolled, search
        from victims.informed.descent import Problem
        from victims.informed.networks import initial
        from victims.informed.training import train_many

        params, spec, training = self.params, view.architecture.spec, view.training
        assert isinstance(spec, DenseSpec | SmallCNNSpec)
        assert isinstance(training, Descent)
        dtype = getattr(torch, params.dtype)
        flags = _assumptions(view, training)
        training = training.model_copy(update={"privacy": None})
        known, released = view.known_points, view.weights
        start = view.initial_weights or initial(spec, view.architecture.input_shape, ctx.generator)
        problem = Problem(spec, training, known[0].to(dtype), known[1])
        begun = {name: value.to(ctx.device, dtype) for name, value in start.items()}
        unrolled = Unrolled(problem, begun, problem.orders([ctx.generator]))

        probes = Probes.of(spec, {name: value[0] for name, value in released.items()}, *known, params.hardest)
        added = (probes.images, probes.labels)
        probed = train_many(spec, training, known, added, start, range(len(probes.labels)), ctx.device)
        thetas, probed_thetas = parameter_features(released, ()), parameter_features(probed, ())
        ranking, moved = rank_classes(thetas, probed_thetas, probes.labels, spec.outputs)

        found: list[Guess] = []
        spent = 0
        for first in range(0, len(ranking), params.targets_per_batch):
            part = slice(first, first + params.targets_per_batch)
            theta = {name: value[part].to(dtype) for name, value in released.items()}

            def guess(
                indices: Tensor, labels: Tensor, images: Tensor, evaluations: int, theta: Parameters = theta
            ) -> Guess:
                nonlocal spent
                own, before = {name: value[indices] for name, value in theta.items()}, spent

                def expired(count: int) -> bool:
                    return ctx.expired(before + count)

                ended = search(unrolled, images.to(dtype), problem.one_hot(labels), own, evaluations, expired)
                spent += ended.evaluations
                return Guess(labels, ended.images, ended.distances.to(moved))

            ended = self._settled(guess, ranking[part], probes.means, REACHED * moved[part], ctx)
            found.append(ended)
            ctx.report(min(part.stop, len(ranking)), len(ranking), distance=float(ended.distances.mean()))
        distances = torch.cat([part.distances for part in found])
        relative = distances / moved
        return Reconstruction(
            candidates=torch.cat([part.images for part in found]).float(),
            labels=torch.cat([part.labels for part in found]),
            confidence=-relative.clamp_min(1e-30).log(),
            loss=float(relative.mean()),
            grad_evals=spent,
            flags=(
                *flags,
                f"released weights reached for {int((relative < REACHED).sum())} of {len(relative)} targets",
            ),
        )

    def _settled(self, guess: Search, classes: Tensor, means: Tensor, reached: Tensor, ctx: AttackContext) -> Guess:
        """Return records of the class that leads nearest, or of the next if it does not reach the released weights.

        Args:
            guess: searches records of given classes.
            classes: (k, classes) of each record, the likeliest first.
            means: (classes, C, H, W) the start of the search of each class.
            reached: (k,) distances at which the released weights are reached.
            ctx: context of the attack; the best so far is returned when its budget is spent.
        """
        import torch

        params, everyone = self.params, torch.arange(len(classes), device=classes.device)
        ended = guess(everyone, classes[:, 0], means[classes[:, 0]], params.trial)
        for labels in classes.T[1 : params.labels]:
            if ctx.stopped:
                return ended
            ended = ended.or_better(everyone, guess(everyone, labels, means[labels], params.trial))
        if ctx.stopped:
            return ended
        ended = guess(everyone, ended.labels, ended.images, params.evaluations)
        others = classes[classes != ended.labels[:, None]].view(len(classes), -1)
        for labels in others.T[: params.retries]:
            missed = (ended.distances > reached).nonzero()[:, 0]
            if not len(missed) or ctx.stopped:
                break
            again = guess(missed, labels[missed], means[labels[missed]], params.evaluations)
            ended = ended.or_better(missed, again)
        return ended


@dataclass(frozen=True)
class Guess:
    """Records and the ends of training on them.

    Attributes:
        labels: (k,) classes.
        images: (k, C, H, W) records.
        distances: (k,) squared distances of the trained weights from the released ones.
    """

    labels: Tensor
    images: Tensor
    distances: Tensor

    def or_better(self, indices: Tensor, other: Guess) -> Guess:
        """Return these records, with those at indices (j,) replaced by the other's j records where they are nearer."""
        nearer = other.distances < self.distances[indices]
        chosen = indices[nearer]
        return Guess(
            self.labels.index_copy(0, chosen, other.labels[nearer]),
            self.images.index_copy(0, chosen, other.images[nearer]),
            self.distances.index_copy(0, chosen, other.distances[nearer]),
        )


def _assumptions(view: VictimView, training: Descent) -> tuple[str, ...]:
    """Return a flag for every part of the training that is guessed; a wrong guess misses the released weights."""
    guessed = []
    if view.initial_weights is None:
        guessed.append("initialisation unknown, one was drawn: no record leads from it to the released weights")
    if training.batch_size is not None and training.order_seed is None:
        guessed.append("order of mini-batches unknown, one was drawn")
    if training.privacy is not None:
        guessed.append("private training: its noise is unknown, and its clipping left out")
    return tuple(guessed)
