"""The defences and their strengths, as frozen descriptions that a victim's name ends with. Imports no torch."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field, PositiveFloat, ValidationError

from victims.errors import UserError
from victims.frozen_model import FrozenModel

JOINT = "+"
"""Stands before every defence in a victim's name, and in no other name."""
LONGEST = 60
"""Characters of a text that a message repeats."""


class Defence(FrozenModel):
    """The base of every defence.

    Attributes:
        on_release: it is applied to a trained network, not to its training.
        example: how it is written.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    on_release: ClassVar[bool] = False
    example: ClassVar[str]
    kind: str

    @property
    def text(self) -> str:
        """Return what `--defence` takes for it, such as `noise=0.001`."""
        strength = getattr(self, "strength", None)
        written = f"{strength:.15g}" if isinstance(strength, float) else strength
        return self.kind if strength is None else f"{self.kind}={written}"


class Noise(Defence):
    """Gaussian noise on every released parameter tensor, whose expected norm is `strength` times the tensor's own."""

    on_release = True
    example = "noise=1e-3"
    kind: Literal["noise"] = "noise"
    strength: Annotated[float, Field(gt=0, le=10)]


class Rounding(Defence):
    """Released parameters are rounded: to half precision, or to 8-bit integers with one scale a row of a matrix."""

    on_release = True
    example = "round=float16"
    kind: Literal["round"] = "round"
    strength: Literal["float16", "bfloat16", "int8"]


class ClippedOutputs(Defence):
    """Answers are scaled down where their largest logit in absolute value exceeds `strength`; the class stays."""

    on_release = True
    example = "clip-outputs=1"
    kind: Literal["clip-outputs"] = "clip-outputs"
    strength: PositiveFloat = 1.0


class RoundedOutputs(Defence):
    """Answers to queries are rounded to `strength` decimals."""

    on_release = True
    example = "round-outputs=2"
    kind: Literal["round-outputs"] = "round-outputs"
    strength: Annotated[int, Field(ge=0, le=15)]


class NoisyOutputs(Defence):
    """Every answer to a query has Gaussian noise of standard deviation `strength`, drawn anew each time."""

    on_release = True
    example = "noise-outputs=0.01"
    kind: Literal["noise-outputs"] = "noise-outputs"
    strength: PositiveFloat


class Answers(Defence):
    """Queries are answered with probabilities, by sigmoid or softmax, or with labels: 1 for the class, 0 for others."""

    on_release = True
    example = "answers=probabilities"
    kind: Literal["answers"] = "answers"
    strength: Literal["probabilities", "labels"]


class EarlyStop(Defence):
    """Training ends once its mean loss is below `strength`."""

    example = "early-stop=0.1"
    kind: Literal["early-stop"] = "early-stop"
    strength: PositiveFloat


class Decay(Defence):
    """Training has the weight decay `strength`, as torch's optimisers have it."""

    example = "decay=5e-4"
    kind: Literal["decay"] = "decay"
    strength: Annotated[float, Field(gt=0, le=1)]


class DifferentialPrivacy(Defence):
    """Training, or the release of an optimum, is (epsilon, 1e-5)-differentially private; `strength` is epsilon."""

    example = "dp=10"
    kind: Literal["dp"] = "dp"
    strength: PositiveFloat


class ForgetStart(Defence):
    """Training with weight decay goes on for `strength` times as many epochs, and so forgets what it started from."""

    example = "forget-start=10"
    kind: Literal["forget-start"] = "forget-start"
    strength: Annotated[int, Field(ge=2, le=1000)]


class RandomSeed(Defence):
    """The seed that drew the start is none that people choose, and the attacker is not told the start."""

    example = "random-seed"
    kind: Literal["random-seed"] = "random-seed"


AnyDefence = (
    Noise
    | Rounding
    | ClippedOutputs
    | RoundedOutputs
    | NoisyOutputs
    | Answers
    | EarlyStop
    | Decay
    | DifferentialPrivacy
    | ForgetStart
    | RandomSeed
)
Defences = tuple[Annotated[AnyDefence, Field(discriminator="kind")], ...]
"""Defences of one victim, in the order in which they are applied."""
KINDS: dict[str, type[AnyDefence]] = {kind.model_fields["kind"].default: kind for kind in get_args(AnyDefence)}
"""The defences by name."""


def parse(text: str) -> AnyDefence:
    """Return the defence that a text such as `noise=1e-3` names.

    Raises:
        UserError: there is no such defence, or none of that strength.
    """
    name, equals, strength = text.partition("=")
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=1)
        known = f"did you mean {KINDS[near[0]].example}?" if near else f"there are: {', '.join(KINDS)}"
        raise UserError(f"no defence is called {name[:LONGEST]!r}; {known}")
    kind = KINDS[name]
    if "strength" not in kind.model_fields and equals:
        raise UserError(f"the defence {text[:LONGEST]!r} has no strength; write {kind.example}")
    try:
        return kind.model_validate({"strength": strength} if equals else {})
    except ValidationError as error:
        reason = "its strength is missing" if not equals else error.errors()[0]["msg"]
        raise UserError(f"the defence {text[:LONGEST]!r}: {reason}; write for instance {kind.example}") from None


def released(defences: Sequence[Defence]) -> dict[str, Any]:
    """Return the part of a victim's identity that no description of its training holds; empty without defences."""
    kept = [defence.model_dump() for defence in defences if defence.on_release]
    return {"defences": kept} if kept else {}
