"""The missing record of a generalised linear model, in closed form (Balle, Cherubin, Hayes 2022, Section 3).

The equation, Theorem 1, is `attacks.informed.closed_form.missing_record`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, VictimView
from victims.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from attacks.informed.closed_form import MissingRecord
    from victims.informed.glm import GLM
    from victims.informed.spec import GLMArchitecture, GLMSpec, InformedSpec, Newton

REPORTS = 20
LARGEST = 2**31
"""Labels are clipped to this: with noise or a fit that did not converge y may be any number."""


class GLMParams(AttackParams):
    """Parameters of `glm`.

    Attributes:
        known_labels: whether the attack is told the label of every missing record. Only models without an intercept
            need it: a linear one cannot be attacked otherwise, and for a logistic one the likelier class is taken.
        noise: treatment of parameters that were released with noise: "weighed" for the posterior mean given the known
            records, "ignored" for the paper's closed form.
    """

    known_labels: bool = False
    noise: Literal["weighed", "ignored"] = "weighed"


class GeneralisedLinear(Attack[GLMParams]):
    """Computes the gradient of the missing record: at the optimum it is minus the sum of the known records' gradients.

    It is exact for a model that was fitted to optimality, and takes no shadow models and no iterations.
    """

    name = "glm"
    summary = "closed form: the missing record of a generalised linear model"
    paper = "Balle, Cherubin, Hayes 2022, Theorems 1 and 8 (corrected)"
    setting = "informed"
    protocol = "balle2022"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.TRAINING, Knowledge.KNOWN_POINTS})
    Params = GLMParams
    variants: ClassVar[dict[str, dict[str, Any]]] = {
        "labels-known": {"known_labels": True},
        "paper": {"noise": "ignored"},
    }

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The items of `needs`, and the labels if `known_labels`."""
        return self.needs | {Knowledge.LABELS} if self.params.known_labels else self.needs

    def supports(self, victim: InformedSpec | GLMSpec) -> str | None:
        """Decline networks, and models without intercept whose equation has no closed form."""
        if victim.kind != "glm":
            return "a network is no generalised linear model"
        if victim.architecture.intercept == "none" and victim.architecture.family not in ("linear", "logistic"):
            return f"a {victim.architecture.family} model without intercept has no closed form"
        return None

    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return the record of each released model; NaN if its parameters do not depend on it, or the budget is spent.

        Raises:
            UserError: the model needs the labels, and the attack does not know them.
        """
        import numpy as np
        import torch

        from attacks.informed.closed_form import UnidentifiableError, missing_record
        from victims.informed.glm import targets_of

        architecture = described(view)[0]
        if architecture.intercept == "none" and architecture.family == "linear" and not self.params.known_labels:
            raise UserError("a linear model without intercept gives its record away with its label only: known_labels")
        images, labels = (part.cpu().numpy() for part in view.known_points)
        records = images.reshape(len(images), -1).astype(np.float64)
        models = released_models(view)
        answers = targets_of(architecture.family, labels, architecture.outputs)
        told = view.labels.cpu().numpy() if self.params.known_labels else [None] * len(models)
        weigh = self._estimator(view, records, answers)
        found: list[MissingRecord | None] = []
        for place, (model, label) in enumerate(zip(models, told, strict=True)):
            if found and ctx.expired(place):
                break
            try:
                exact = missing_record(model, records, answers, None if label is None else float(label))
                found.append(replace(exact, record=weigh(model)) if weigh else exact)
            except UnidentifiableError:
                found.append(None)
            if (place + 1) % max(1, len(models) // REPORTS) == 0:
                ctx.progress(place + 1, len(models))
        left_out = len(models) - len(found)
        flags = _flags([one for one in found if one is not None], len(found), left_out)
        found += [None] * left_out
        nothing = np.full(records.shape[1], np.nan)
        candidates = np.stack([nothing if one is None else one.record for one in found]).astype(np.float32)
        conditions = np.array([np.inf if one is None else one.condition for one in found])
        return Reconstruction(
            candidates=torch.from_numpy(candidates).reshape(-1, *view.architecture.input_shape),
            labels=torch.tensor([-1 if one is None else round(min(max(one.target, 0), LARGEST)) for one in found]),
            confidence=torch.from_numpy(-np.log10(conditions)),
            flags=flags,
        )

    def _estimator(
        self, view: VictimView, records: np.ndarray, answers: np.ndarray
    ) -> Callable[[GLM], np.ndarray] | None:
        """Return the function from a model to the posterior mean (d,) of its record; None if no noise counts."""
        from attacks.informed.noisy import expected_record
        from victims.informed.privacy import output_deviation

        architecture, training = described(view)
        deviation = output_deviation(architecture, training, len(records) + 1, records.shape[1])
        alone = architecture.outputs == 1 and architecture.intercept != "none"
        if deviation == 0 or self.params.noise == "ignored" or not alone:
            return None
        return lambda model: expected_record(model, records, answers, deviation)


def released_models(view: VictimView) -> list[GLM]:
    """Return the T released models with the penalty of their training problem."""
    from victims.informed.glm import GLM

    (architecture, training), weights = described(view), view.weights
    penalty = training.penalty(len(view.known_points[1]) + 1)
    pairs = zip(weights["coef"].cpu().numpy(), weights["intercept"].cpu().numpy(), strict=True)
    return [GLM(architecture, penalty, coef, intercept) for coef, intercept in pairs]


def described(view: VictimView) -> tuple[GLMArchitecture, Newton]:
    """Return the architecture and the training of a generalised linear model.

    Raises:
        TypeError: the victim is no generalised linear model.
    """
    from victims.informed.spec import GLMArchitecture, Newton

    architecture, training = view.architecture.spec, view.training
    if not (isinstance(architecture, GLMArchitecture) and isinstance(training, Newton)):
        raise TypeError(f"a {architecture.kind} is no generalised linear model")
    return architecture, training


def _flags(found: list[MissingRecord], targets: int, left_out: int) -> tuple[str, ...]:
    """Return flags: the condition, how many have no solution or were left out, and the inconsistency of y."""
    import numpy as np

    flags = []
    if found:
        conditions = [one.condition for one in found]
        flags.append(f"condition: median {np.median(conditions):.1e}, largest {max(conditions):.1e}")
    if len(found) < targets:
        flags.append(f"{targets - len(found)} of {targets} records are fitted perfectly: unidentifiable")
    if left_out:
        flags.append(f"{left_out} of {targets + left_out} records left out for the budget")
    off = [one.inconsistency for one in found if not np.isnan(one.inconsistency)]
    if off:
        flags.append(f"y is off by at most {max(off):.1e}")
    return tuple(flags)
