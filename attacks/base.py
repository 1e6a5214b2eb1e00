"""The contract of an attack: its parameters, what it is given, what it returns. Imports no torch.

An attack file imports the whole contract from here, with what `attacks.knowledge` and `attacks.context` define.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from attacks.context import AttackContext
from attacks.knowledge import ORACLE, Architecture, Knowledge, Threat, UndeclaredKnowledgeError, VictimView, threat_of
from attacks.search_space import Range

if TYPE_CHECKING:
    from torch import Tensor

    from victims.exposure.card import Exposure
    from victims.spec import VictimSpec

__all__ = [
    "ORACLE",
    "Architecture",
    "Attack",
    "AttackContext",
    "AttackParams",
    "ControlParams",
    "DivergedError",
    "Knowledge",
    "Reconstruction",
    "Resources",
    "Threat",
    "UndeclaredKnowledgeError",
    "VictimView",
    "declined_unless_binary",
    "declined_unless_layered",
    "no_reconstruction",
    "threat_of",
]


class DivergedError(ArithmeticError):
    """The attack ended in numbers that are not finite; the status of its row is `diverged`."""


@dataclass(frozen=True)
class Reconstruction:
    """What an attack returns.

    Attributes:
        candidates: (m, C, H, W) in the victim's input space, float32 or another floating type. In the informed setting
            candidate i is for target i, and NaN if the attack has none for it.
        labels: (m,) class indices that the attack assigns, or None.
        coefficients: (m,) weights of the candidates, such as Lagrange multipliers, or None.
        confidence: (m,) the attack's confidence in each candidate, higher is surer, computed from its declared
            knowledge alone; None if it cannot tell its hits from its misses. NaN counts as the least.
        resolved: values that the attack chose for parameters left to it; null controls get the same.
        loss: the attack's own final objective, the lower the better. `tune` picks by it, so it must be comparable
            between runs of the attack on one victim whatever the parameters.
        grad_evals: number of evaluations of the objective's gradient.
        flags: remarks for the reader of the row, such as a solve that did not converge; one short line each, without
            ";".
    """

    candidates: Tensor
    labels: Tensor | None = None
    coefficients: Tensor | None = None
    confidence: Tensor | None = None
    resolved: dict[str, Any] = field(default_factory=dict)
    loss: float = float("nan")
    grad_evals: int = 0
    flags: tuple[str, ...] = ()


def no_reconstruction(shape: tuple[int, int, int], *flags: str) -> Reconstruction:
    """Return one candidate of zeros (1, C, H, W), with the reasons as flags."""
    import torch

    return Reconstruction(candidates=torch.zeros(1, *shape), confidence=torch.zeros(1), loss=1.0, flags=flags)


class Resources(NamedTuple):
    """What a run of an attack takes of a machine in a cluster, unless the options of `run` override it.

    Attributes:
        cpus: processors, as the cluster counts them; the run has one thread for each.
        gpus: GPUs, possibly a fraction of one, for a run on a GPU.
        memory: bytes of memory that must be free; 0 for no requirement.
    """

    cpus: float = 1.0
    gpus: float = 1.0
    memory: int = 0


_ENTRY = re.compile(r"^        (?=\w+: )", re.MULTILINE)
"""Matches the beginning of the description of an attribute in a docstring."""


class AttackParams(BaseModel):
    """Base of every attack's parameters: frozen; rejects unknown fields and numbers that are not finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **keywords: Any) -> None:
        """Append to the docstring the parent's parameters that it does not describe, so that `show` tells all."""
        super().__pydantic_init_subclass__(**keywords)
        own = (cls.__doc__ or "").rstrip()
        _, _, inherited = (cls.__mro__[1].__doc__ or "").partition("Attributes:\n")
        more = [entry for entry in _ENTRY.split(inherited)[1:] if f"        {entry.partition(':')[0]}: " not in own]
        head = "" if "Attributes:\n" in own or not more else "\n\n    Attributes:"
        cls.__doc__ = f"{own}{head}\n{''.join(f'        {entry}' for entry in more)}"


class ControlParams(AttackParams):
    """Parameters of a null control.

    Attributes:
        candidates: number of candidates.
        contrast: standard deviation of a candidate's pixels; natural images have about 0.25.
    """

    candidates: PositiveInt = 1000
    contrast: PositiveFloat = 0.25


ParamsT = TypeVar("ParamsT", bound=AttackParams)


class Attack(ABC, Generic[ParamsT]):
    """An attack: subclass it in a file of `attacks/`, and the command line knows it.

    It never prints, never writes files, and never sees the training data.

    Attributes:
        name: as on the command line; the file's name with dashes.
        summary: one line for `list`.
        paper: the publication.
        needs: the knowledge that the attack declares, and gets, with its default parameters; see `knowledge`.
        Params: its parameters, with defaults that work.
        variants: named parameter sets, for `--variant`.
        search_spaces: by variant, "" for the defaults: the parameters that `tune` searches, and their ranges.
        control: whether it is a control, which reads no single image out of the victim and has no rank. A control whose
            Params are `ControlParams` is the null control of random candidates: the harness draws from it the number of
            candidates that an attack returned, with the contrast of that attack's candidates.
        setting: the victims that it is for: "dataset", where all records are to be reconstructed; "informed", where one
            record is to be reconstructed and all others are known (Balle et al. 2022); "deletion", where the records
            are to be reconstructed that one release was trained on and the next was not (Bertran et al. 2024).
        protocol: the scoring protocol of its rows, a name of `bench.scoring.PROTOCOLS`; outside of the setting
            "dataset" one whose candidates are for a target each, "balle2022" or "hayes2023".
        audits: the variants that an audit runs, "" for the defaults; each may find what the others do not.
        resources: what a run takes of a machine in a cluster.
        version: raised when the attack finds other candidates than before: stored runs of a lower version are then run
            again, and their rows leave the boards. A subclass has its parent's unless it states its own.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str] = ""
    needs: ClassVar[frozenset[Knowledge]]
    Params: ClassVar[type[AttackParams]]
    variants: ClassVar[dict[str, dict[str, Any]]] = {}
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {}
    control: ClassVar[bool] = False
    setting: ClassVar[Literal["dataset", "informed", "deletion"]] = "dataset"
    protocol: ClassVar[str] = "buzaglo2023"
    audits: ClassVar[tuple[str, ...]] = ("",)
    resources: ClassVar[Resources] = Resources()
    version: ClassVar[int] = 1

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """The knowledge that the attack gets with its own parameters: `needs`, unless they ask for more or less."""
        return self.needs

    @property
    def threat(self) -> Threat | None:
        """The adversary who can mount the attack with these parameters; None for a control or an oracle."""
        return None if self.control else threat_of(self.knowledge)

    def supports(self, victim: Any) -> str | None:
        """Return None if the attack can run on this victim of its setting, otherwise the reason why not."""
        return None

    def doubt(self, exposure: Exposure) -> str | None:
        """Return why the exposure card of a supported victim speaks against the attack, None if it does not.

        `run` runs the attack nevertheless; an audit leaves it out and shows the reason.
        """
        return None

    @abstractmethod
    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Return what the attack reconstructs from the victim that `view` shows.

        Raises:
            DivergedError: the attack ended in numbers that are not finite.
            UndeclaredKnowledgeError: the attack read knowledge that it did not declare.
        """


def declined_unless_layered(victim: VictimSpec) -> str | None:
    """Return why an attack on a ReLU network's layers declines a victim, or None if its layers are known."""
    architecture = victim.architecture
    if architecture.kind not in ("mlp", "conv"):
        why = f": {architecture.uncovered}" if architecture.uncovered else ""
        return f"{architecture.label} is no plain sequence of linear layers and ReLUs{why}"
    return None


def declined_unless_binary(victim: VictimSpec) -> str | None:
    """Return why an attack on fully connected binary classifiers declines a victim, or None if it is one."""
    if (reason := declined_unless_layered(victim)) is not None:
        return reason
    if victim.architecture.kind != "mlp":
        return f"{victim.architecture.label} has convolutions: for fully connected networks"
    if victim.architecture.outputs > 1 or victim.loss != "cross-entropy":
        return f"{victim.architecture.outputs} outputs, {victim.loss}: for binary classifiers"
    return None
