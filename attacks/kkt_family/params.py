"""The parameters that all attacks of the family share; imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from attacks.optimisation.initialisation import InitialisedParams
from attacks.search_space import Range
from victims.frozen_model import omitted_if_default
from victims.recipes.geometric import geometric

FAST_RANGES = {
    "lr": Range(1e-5, 1, log=True),
    "lambda_lr": Range(1e-5, 1, log=True),
    "init_scale": Range(1e-6, 1, log=True),
    "alpha": Range(10, 500),
    "coordinate_power": Range(0, 1),
    "residual_power": Range(0, 1),
    "neuron_power": Range(0, 1.5),
}
"""Ranges for the fast solver: the published ones (Haim et al. 2022), and ranges of the powers, which it alone has."""
BUZAGLO_RANGES = {
    "lr": Range(1e-5, 1, log=True),
    "lambda_lr": Range(1e-5, 1, log=True),
    "init_scale": Range(1e-6, 0.1, log=True),
    "alpha": Range(10, 500),
}
"""The ranges of the authors' sweeps with free coefficients or several classes (Buzaglo et al. 2023)."""


class SearchParams(InitialisedParams):
    """Parameters of an attack that searches for a stationary point.

    One that the chosen method does not use keeps its default; any other value is an error.

    Attributes:
        method: "row-space" is the fast solver (attacks/kkt_family/search.py), "published" the authors' loop.
        candidates: number of candidates of a restart. None for the attack's `candidates_per_direction` times the
            dimension of the data subspace that the first fully connected layer shows, or 1000 if it shows none.
        restarts: number of independent searches, whose candidates are pooled.
        restarts_per_batch: fast solver only: number of restarts in a batch, which changes nothing but the rounding.
            None for as many as fill the device, or one under a budget.
        steps: optimiser steps of a restart.
        lr: learning rate of the candidates (Adam's for the fast solver, SGD's for the published one).
        lambda_lr: learning rate of the coefficients. Of a multiplier on a margin the fast solver moves the logarithm,
            the published one the multiplier itself.
        init: the start of the candidates; see `attacks.optimisation.initialisation`. The fast solver draws normal noise
            in the data subspace.
        init_scale: standard deviation sigma_x of the normal start, or half the width of the uniform one.
        mixture: (l1, l2) of the start "mixture".
        alpha: sharpness of the sigmoid gates, at the last step.
        first_alpha: fast solver only: their sharpness at the first step, from which it grows geometrically; None for
            alpha throughout.
        gate_power: fast solver only: the gates of neuron j of layer 1 have the sharpness alpha ||w_j||^-g, g this
            power and ||w_j|| relative to the root mean square; with 1 a gate depends on the direction of w_j alone.
        offset_price: fast solver only: cost of o^2 for each gate sigmoid(alpha z + o) of layer 1; 0 keeps o = 0.
        layer_weights: fast solver only: weight of each fully connected layer's residual, the last one repeated for
            deeper layers. None for the first layer alone: the others may keep their initial values, which no candidate
            explains.
        coordinate_power: p: the fast solver moves u in x_i = sum_k (S_k / rms S)^p u_ik v_k, where S_k and v_k are the
            singular values and right singular vectors of W1 (before convolutions: amplitudes of natural images, and
            cosines). The confidence compares candidates by the same u.
        residual_power: fast solver only: q: the residual along v_k is weighted by S_k^-q. Here and below W1 and layer 1
            are, behind convolutions, those of the first fully connected layer.
        neuron_power: fast solver only: s: the residual of neuron j of layer 1 is weighted by ||w_j||^-s.
        sparsity: fast solver only: cost of the sum over candidates of a bound on ||D_i' x_i|| / ||W1||, a candidate's
            share of W1 (an atomic norm), over sqrt(r) for r directions v_k.
        smoothness: fast solver only: cost of an image before convolutions whose u, for p = 1, have a mean square of 1.
        signal_span: fast solver only: cost, over sqrt(r), of a candidate whose back-propagated errors are orthogonal to
            the columns of W1.
        activation_span: fast solver only: the same of activations and the rows of W2, where these show a span.
        products: fast solver only: precision to which the factors of matrix products may be rounded; "bfloat16" is
            several times as fast where the processor has units for it, and changes nothing elsewhere.
        dtype: precision of the search.
        ranking: what makes the confidence (`attacks.kkt_family.ranking`). "agreement" is size times agreement of the
            restarts; "evidence" asks also whether a candidate follows from the weights and whether its gradients are an
            image's; "distinct" is the same with copies of a surer candidate behind all others; "calibrated", for
            multipliers on margins alone, is the chance that a candidate shows a training image, as twins have taught
            it. The candidates are the same.
    """

    has_margins: ClassVar[bool] = False
    """Whether coefficients are multipliers on the margins of labelled candidates."""

    unused: ClassVar[dict[str, frozenset[str]]] = {
        "row-space": frozenset({"lambda_min"}),
        "published": frozenset(
            {
                "restarts_per_batch",
                "first_alpha",
                "gate_power",
                "offset_price",
                "layer_weights",
                "residual_power",
                "neuron_power",
                "sparsity",
                "smoothness",
                "signal_span",
                "activation_span",
                "products",
            }
        ),
    }
    """By method, the parameters that the method does not use."""

    method: Literal["row-space", "published"] = "row-space"
    candidates: PositiveInt | None = None
    restarts: PositiveInt = 8
    restarts_per_batch: PositiveInt | None = None
    steps: PositiveInt = 300
    lr: PositiveFloat = 0.2
    lambda_lr: PositiveFloat = 0.01
    init_scale: PositiveFloat = 0.01
    alpha: PositiveFloat = 100.0
    first_alpha: Annotated[PositiveFloat | None, omitted_if_default(None)] = None
    gate_power: Annotated[NonNegativeFloat, omitted_if_default(0.0)] = 0.0
    offset_price: Annotated[NonNegativeFloat, omitted_if_default(0.0)] = 0.0
    layer_weights: Annotated[tuple[NonNegativeFloat, ...], Field(min_length=1)] | None = None
    coordinate_power: NonNegativeFloat = 0.5
    residual_power: NonNegativeFloat = 0.3
    neuron_power: NonNegativeFloat = 1.0
    sparsity: NonNegativeFloat = 0.0
    smoothness: Annotated[NonNegativeFloat, omitted_if_default(0.0)] = 0.0
    signal_span: NonNegativeFloat = 0.0
    activation_span: NonNegativeFloat = 0.0
    products: Annotated[Literal["float32", "bfloat16"], omitted_if_default("float32")] = "float32"
    dtype: Literal["float32", "float64"] = "float32"
    ranking: Annotated[Literal["agreement", "evidence", "distinct", "calibrated"], omitted_if_default("agreement")] = (
        "agreement"
    )

    @field_validator("*")
    @classmethod
    def _used(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a value, other than the default, that the method does not use; `method` is validated before it."""
        name, method = str(info.field_name), info.data.get("method", "")
        if name in cls.unused.get(method, ()) and value != cls.model_fields[name].default:
            raise PydanticCustomError("unused", "method={method} does not use it", {"method": method})
        return value

    @field_validator("layer_weights")
    @classmethod
    def _counts_a_layer(cls, value: tuple[float, ...] | None) -> tuple[float, ...] | None:
        """Refuse weights under which no layer has a residual."""
        if value is not None and not any(value):
            raise PydanticCustomError("weights", "at least one layer must have a weight above 0")
        return value

    @field_validator("ranking")
    @classmethod
    def _judged_by_margins(cls, value: str) -> str:
        """Refuse a ranking by margins where candidates have none."""
        if value == "calibrated" and not cls.has_margins:
            raise PydanticCustomError("ranking", "calibrated asks for margins, which only kkt and kkt-multiclass have")
        return value

    @property
    def steps_of_a_restart(self) -> int:
        """The number of steps of all searches of a restart."""
        return self.steps

    def sharpness(self, step: int) -> float:
        """Return the gates' alpha at a step from 1 to `steps`.

        It grows geometrically from `first_alpha` to `alpha` (graduated optimisation, Blake and Zisserman 1987).
        """
        if self.first_alpha is None or self.steps == 1:
            return self.alpha
        return geometric((self.first_alpha, self.alpha), step - 1, self.steps - 1)

    def by_layer(self, depth: int) -> tuple[float, ...]:
        """Return the weights (depth,) of the residuals of `depth` fully connected layers."""
        given = self.layer_weights or (1.0, 0.0)
        return (given + given[-1:] * depth)[:depth]


class MarginParams(SearchParams):
    """Parameters of an attack whose coefficients are multipliers on margins.

    Attributes:
        lambda_min: published solver only: the floor that multipliers are kept above.
    """

    has_margins: ClassVar[bool] = True
    lambda_min: NonNegativeFloat = 0.0
