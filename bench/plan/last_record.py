"""A released linear model as a victim of the informed adversary, who lacks one record (Balle et al. 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attacks.base import Knowledge
from victims.informed.spec import GLMArchitecture, GLMSpec, Intercept, Newton

if TYPE_CHECKING:
    from victims.spec import VictimSpec

TOLD = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.TRAINING, Knowledge.KNOWN_POINTS})
"""What an audit can tell the informed adversary of a model that it cannot train again."""


class NoLinearModelError(LookupError):
    """A model cannot be attacked for its last record; the message says why."""


def linear_model(victim: VictimSpec, intercept: Intercept = "unpenalised", penalty: float = 0.0) -> GLMSpec:
    """Return a victim as the model that was fitted to one unknown record and all others.

    Args:
        victim: the victim.
        intercept: whether it has one, and whether the penalty is on it.
        penalty: mu; the sum of the losses + (mu / 2) ||theta||^2 is smallest at its weights.

    Raises:
        NoLinearModelError: it is no linear classifier, or not all of its records are given.
    """
    network = victim.architecture
    if network.kind != "mlp" or network.hidden or victim.loss != "cross-entropy":
        raise NoLinearModelError("of a network it needs the training itself, to repeat it, which an audit cannot")
    if victim.n < max(victim.n_trained, 2):
        raise NoLinearModelError(f"it needs all {victim.n_trained} training records, and {victim.n} are given")
    family = "logistic" if network.outputs == 1 else "multinomial"
    return GLMSpec(
        name=victim.name,
        dataset=victim.dataset,
        n=victim.n - 1,
        targets=1,
        architecture=GLMArchitecture(family=family, intercept=intercept, outputs=network.outputs),
        training=Newton(strength=penalty, convention="half-lambda"),
    )
