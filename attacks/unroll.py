"""Reconstruction by running the victim's own training on guesses of the record, and differentiating through it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PositiveInt

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.informed.spec import DenseSpec, Descent, InformedSpec, SmallCNNSpec

REACHED = 1e-2
"""A search has reached the released weights where no more than this is left of the squared distance by which the
record moved them."""


class UnrollParams(AttackParams):
    """Parameters of `unroll`.

    Attributes:
        labels: how many classes of the record are tried, those that look likeliest; one is kept.
        trial: evaluations that each of these gets.
        evaluations: the most that the class kept gets, of the distance and its gradient; each costs about as much as
            training four models.
        hardest: probes a class, beside its mean image: records of the fixed set, those with the largest loss.
        dtype: of the computation.
    """

    labels: PositiveInt = 3
    trial: PositiveInt = 8
    evaluations: PositiveInt = 80
    hardest: PositiveInt = 8
    dtype: Literal["float32", "float64"] = "float32"


class Unroll(Attack[UnrollParams]):
    """Minimises ||A(D_- and z) - theta||^2 over z: no shadow models, one search a target.

    The adversary of Balle et al. knows the training algorithm, all records but one and the initial weights, so the
    released weights are a function of z that can be evaluated and differentiated. The class of z is guessed first: the
    fixed set is trained on with one record more of each class, and classes are ranked by how well the change of the
    weights points in the direction of theta's.
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
    helpers = ("attacks.informed",)

    @classmethod
    def supports(cls, victim: Any) -> str | None:
        """Decline generalised linear models."""
        return None if isinstance(victim, InformedSpec) else "for networks trained by gradient descent"

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Search for each target's record in turn."""
        import torch

        from attacks.informed.classes import Probes, rank_classes
        from attacks.informed.features import parameter_features
        from attacks.informed.unrolling import Unrolled, search
        from victims.informed.descent import Problem
        from victims.informed.networks import initial
        from victims.informed.training import reproducible, train_many

        params, spec, training = self.params, view.architecture.spec, view.training
        assert isinstance(spec, DenseSpec | SmallCNNSpec)
        assert isinstance(training, Descent)
        dtype = getattr(torch, params.dtype)
        flags = _assumptions(view, training)
        training = training.model_copy(update={"privacy": None})
        known, released = view.known_points, view.weights
        start = view.initial_weights or initial(spec, view.architecture.input_shape, ctx.generator)
        problem = Problem(spec, training, known[0].to(dtype), known[1])
        begun = {name: value.to(ctx.device, dtype)[None] for name, value in start.items()}
        unrolled = Unrolled(problem, begun, problem.orders([ctx.generator]))

        probes = Probes.of(spec, {name: value[0] for name, value in released.items()}, *known, params.hardest)
        added = (probes.images, probes.labels)
        probed = train_many(spec, training, known, added, start, range(len(probes.labels)), ctx.device)
        rows, probed_rows = parameter_features(released, ()), parameter_features(probed, ())
        ranking, moved = rank_classes(rows, probed_rows, probes.labels, spec.outputs)

        images, labels, relative, evaluations = [], [], [], 0
        for target, likeliest in enumerate(ranking[:, : params.labels]):
            theta = {name: value[target : target + 1].to(dtype) for name, value in released.items()}
            with reproducible(ctx.device):
                trials = [
                    search(unrolled, probes.means[label].to(dtype), problem.one_hot(label), theta, params.trial)
                    for label in likeliest
                ]
                best = min(range(len(trials)), key=lambda trial: trials[trial].distance)
                ended = search(
                    unrolled, trials[best].image, problem.one_hot(likeliest[best]), theta, params.evaluations
                )
            evaluations += ended.evaluations + sum(trial.evaluations for trial in trials)
            images.append(ended.image)
            labels.append(int(likeliest[best]))
            relative.append(ended.distance / float(moved[target]))
            ctx.report(target + 1, len(ranking), relative_distance=relative[-1])
        reached = sum(one < REACHED for one in relative)
        return Reconstruction(
            candidates=torch.stack(images).float(),
            labels=torch.tensor(labels),
            confidence=-torch.tensor(relative).clamp_min(1e-30).log(),
            loss=sum(relative) / len(relative),
            grad_evals=evaluations,
            flags=(*flags, f"released weights reached for {reached} of {len(relative)} targets"),
        )


def _assumptions(view: VictimView, training: Descent) -> tuple[str, ...]:
    """Say what of the training the attack had to guess; each guess alone keeps it from the released weights."""
    guessed = []
    if view.initial_weights is None:
        guessed.append("initialisation unknown, one was drawn: no record leads from it to the released weights")
    if training.batch_size is not None and training.order_seed is None:
        guessed.append("order of mini-batches unknown, one was drawn")
    if training.privacy is not None:
        guessed.append("private training: its noise is unknown, and its clipping left out")
    return tuple(guessed)
