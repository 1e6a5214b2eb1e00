"""The deleted record, from the releases before and after its deletion (Bertran et al. 2024).

The equation, the gradient of the deleted record from two releases, is `attacks.deletion.gradient.deleted_gradient`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import PositiveInt, model_validator

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from victims.deletion.objective import Objective, Parameters
    from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec


class UnlearningParams(AttackParams):
    """Parameters of `unlearning`.

    Attributes:
        curvature: how the deleted gradient follows from the two releases: "exact" undoes the deletion as it was made, a
            refit by the difference of two gradients; "midpoint" and "after" multiply the difference of the weights by
            the Hessian half way, or at the second release.
        records: "public" for the public records in the place of the retained ones, "retained" for the retained ones
            themselves: an oracle, which shows what the estimate costs.
        public: number of public records, the first of the pool; None for all of them.
        evaluations: the most evaluations of a search, for several records deleted at once and for Fourier features.
        guesses: for several records deleted at once, the number of public records of each class from which they are
            looked for.
    """

    curvature: Literal["exact", "midpoint", "after"] = "exact"
    records: Literal["public", "retained"] = "public"
    public: PositiveInt | None = None
    evaluations: PositiveInt = 300
    guesses: PositiveInt = 4

    @model_validator(mode="after")
    def _counts_what_it_takes(self) -> UnlearningParams:
        if self.records == "retained" and self.public is not None:
            raise ValueError("public counts public records, which the retained ones replace; set one of the two")
        return self


class Unlearning(Attack[UnlearningParams]):
    """Finds the records whose gradients are what a deletion took out of the model.

    Two releases show the gradient of what was deleted between them, up to the Hessian of the records that stayed, for
    which public records serve. One record's gradient is an outer product with what the first trained layer saw, and
    gives it in closed form; several records, or random Fourier features, are searched.
    """

    name = "unlearning"
    summary = "the deleted record, from the model before and after its deletion"
    paper = "Bertran et al. 2024"
    needs = frozenset(
        {
            Knowledge.ARCHITECTURE,
            Knowledge.WEIGHTS,
            Knowledge.EARLIER_WEIGHTS,
            Knowledge.TRAINING,
            Knowledge.N,
            Knowledge.SHADOW_POOL,
        }
    )
    Params = UnlearningParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"curvature": "after"},
        "midpoint": {"curvature": "midpoint"},
        "oracle": {"records": "retained"},
    }
    setting = "deletion"
    protocol = "balle2022"

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, and the training images for the oracle."""
        return self.needs | {Knowledge.TRAINING_IMAGES} if self.params.records == "retained" else self.needs

    def supports(self, victim: DeletionSpec) -> str | None:
        """Decline deletions of more records at once than the gradient's span can tell apart."""
        architecture, records = victim.architecture, victim.training.records
        if records > 1 and architecture.outputs == 1:
            return "several records of a regression deleted at once: no classes tell them apart"
        width = architecture.units if architecture.front == "hidden" else architecture.outputs
        if records > width:
            return f"{records} records deleted at once, and a gradient of {width} rows: it spans too little"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the records of each deletion; NaN for a deletion that changed no weight, or if the budget is spent.

        Raises:
            UserError: no deletion changed a weight, the releases do not fit together, or public records are too few.
        """
        import torch

        from attacks.deletion.gradient import deleted_gradient
        from attacks.deletion.releases import described, releases
        from attacks.deletion.search import mismatch

        spec, training = described(view)
        before, after = releases(view)
        same = (after == before).all(1)
        if bool(same.all()):
            raise UserError("the releases before and after the deletion are the same: no weight shows what was deleted")
        stayed, told = self._stayed(view, spec, training, len(after))
        gradients: list[Tensor] = []
        for place, theta in enumerate(after):
            if gradients and ctx.expired(place):
                break
            gradients.append(deleted_gradient(training, stayed[place], before, theta, self.params.curvature))
            ctx.progress(place + 1, len(after))
        deleted = torch.stack(gradients)
        images, labels, spent = self._records(view, ctx, before, deleted)
        done = len(images)
        left = mismatch(spec, before, images, labels, deleted[:done])
        images[same[:done]], left[same[:done]] = torch.nan, torch.inf
        if bool(same.any()):
            told += (f"{int(same.sum())} of {len(same)} deletions changed no weight",)
        if done < len(after):
            told += (f"{len(after) - done} of {len(after)} deletions left out for the budget",)
        rest = (len(after) - done) * training.records
        return Reconstruction(
            candidates=_followed(images.flatten(0, 1).float(), torch.nan, rest),
            labels=_followed(labels.flatten().round().long(), -1, rest),
            confidence=_followed(-left.repeat_interleave(training.records), -torch.inf, rest),
            loss=float(left[~same[:done]].mean()),
            grad_evals=spent,
            flags=told,
        )

    def _stayed(
        self, view: VictimView, spec: ShallowSpec, training: Deletion, deletions: int
    ) -> tuple[list[Objective], tuple[str, ...]]:
        """Return the objective on what stands for the retained records, for each deletion, and flags.

        Raises:
            UserError: there are fewer public records than asked for, or none.
        """
        import torch

        from victims.deletion.objective import Objective

        k = training.records
        if self.params.records == "retained":
            everything = Objective.of(spec, training.penalty, *view.training_images)
            first = len(everything.seen) - deletions * k
            index = torch.arange(len(everything.seen))
            gone = [(index >= first + place * k) & (index < first + (place + 1) * k) for place in range(deletions)]
            return [everything.part(~mask, training.penalty) for mask in gone], ()
        images, labels = view.shadow_pool
        count = len(images) if self.params.public is None else self.params.public
        if not 0 < count <= len(images):
            raise UserError(f"{count} public records are asked for, and there are {len(images)}; lower public")
        public = Objective.of(spec, training.penalty, images[:count], labels[:count], (view.n - k) / count)
        width = public.seen.shape[1]
        few = f"{count} public records for {width} features: the Hessian outside their span is the penalty's"
        return [public] * deletions, (few,) if count <= width and training.method != "ascent" else ()

    def _records(
        self, view: VictimView, ctx: AttackContext, theta: Tensor, deleted: Tensor
    ) -> tuple[Tensor, Tensor, int]:
        """Return records (B, k, C, H, W) for B deleted gradients (B, p), their y (B, k), and evaluations of a search.

        Of several records deleted at once they are those of the first deletions alone if the budget is spent.

        Args:
            view: the victim.
            ctx: context of the attack.
            theta: (p,) the parameters at which the gradients are taken.
            deleted: (B, p) the gradients.
        """
        import torch

        from attacks.deletion.releases import described
        from attacks.deletion.search import matched_records
        from victims.deletion.objective import features, named

        (spec, training), shape = described(view), view.architecture.input_shape
        pool, pool_labels = view.shadow_pool
        public, inputs = features(spec, pool), math.prod(shape)
        model = named(spec, inputs, theta)
        parts = [named(spec, inputs, gradient) for gradient in deleted]
        if training.records == 1:
            seen, labels = self._alone(spec, model, parts, float(public.norm(dim=1).max()))
        else:
            seen, labels = self._together(spec, training, model, parts, (public, pool_labels), ctx)
        batches = (-1, training.records, *shape)
        if spec.front == "fourier":
            starts = pool[torch.cdist(seen.flatten(0, 1), public).argmin(1)].double().view(batches)
        elif training.records == 1:
            return seen.view(batches), labels, 0
        else:
            starts = seen.view(batches)
        evaluations = self.params.evaluations
        images, spent = matched_records(spec, theta, deleted[: len(starts)], labels, starts, evaluations, ctx.expired)
        return images, labels, spent

    def _alone(
        self, spec: ShallowSpec, model: Parameters, parts: list[Parameters], longest: float
    ) -> tuple[Tensor, Tensor]:
        """Return what the first layer saw (B, 1, q) of records deleted one at a time, and their y (B, 1)."""
        import torch

        from attacks.deletion.record import answered, seen_by_first_layer

        seen = torch.stack([seen_by_first_layer(part, longest) for part in parts])
        return seen[:, None], answered(spec, model, seen, parts)

    def _together(
        self,
        spec: ShallowSpec,
        training: Deletion,
        model: Parameters,
        parts: list[Parameters],
        public: tuple[Tensor, Tensor],
        ctx: AttackContext,
    ) -> tuple[Tensor, Tensor]:
        """Return what the first layer saw (B, k, q) of records deleted together, and their classes (B, k)."""
        import torch

        from attacks.deletion.span import explaining, spanned

        order = torch.randperm(len(public[1]), generator=ctx.generator).to(public[1].device)
        guesses = torch.cat([order[public[1][order] == label][: self.params.guesses] for label in range(spec.outputs)])
        tried, labels = public[0][guesses], public[1][guesses]
        found: list[Tensor] = []
        classes: list[Tensor] = []
        for place, part in enumerate(parts):
            if found and ctx.expired(place):
                break
            seen = spanned(spec, model, part, training.records, labels, tried)
            if spec.front != "fourier":
                seen = seen.clamp(0, 1)
            best = explaining(spec, model, part, seen, labels, training.records)
            found.append(seen[best])
            classes.append(labels[best])
            ctx.progress(place + 1, len(parts))
        return torch.stack(found), torch.stack(classes)


def _followed(tensor: Tensor, value: float, count: int) -> Tensor:
    """Return a tensor (m, ...) with `count` entries of one value behind its own, (m + count, ...)."""
    import torch

    return torch.cat([tensor, tensor.new_full((count, *tensor.shape[1:]), value)])
