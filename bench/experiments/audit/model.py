"""What an audit found, as audit.json holds it. The JSON Schema of it is shipped as audit.schema.json."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from attacks.base import Threat
from bench.plan.prospects import Outlook
from bench.store.records import Status
from victims.exposure.card import Exposure

Count = Annotated[int, Field(ge=0)]
Unit = Literal["images", "rows"]


class AuditOutcome(StrEnum):
    """What an audit can say of a threat model."""

    FOUND = "found"
    NOTHING = "nothing beyond chance"
    UNVERIFIED = "not verified"
    RULED_OUT = "no attack can work"
    FAILED = "failed"
    NOT_TESTED = "not tested"


class Part(BaseModel):
    """A part of an audit: frozen, and without fields that are not described."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AuditAttempt(Part):
    """One attack with one parameter set: run, or left out for a reason."""

    attack: str = Field(description="Name of the attack, and of its parameter set behind a colon.")
    threat: Threat = Field(description="Who can mount it.")
    outlook: Outlook = Field(description="What was said of it before it ran; only `can be tried` is run.")
    reason: str = Field(description="Why it was left out, or how it failed; empty otherwise.")
    status: Status | None = Field(description="How its run ended; null if it was not run.")
    run_id: str = Field(description="Its folder below runs/; empty if it has none.")
    protocol: str = Field(
        default="", description="The scoring protocol that says which records count; empty where none was counted."
    )
    found: Count | None = Field(description="Training records that it reconstructed, one candidate for one record.")
    null: Count | None = Field(description="The most that a null control gets by the same count.")
    candidates: Count | None = Field(
        default=None, description="Its candidates where no training records were given to compare them with; else null."
    )
    null_control: str = Field(description="The null control that gets most by the same count.")
    chance: float | None = Field(
        description="One-sided p-value of McNemar's exact test that it gets no more records than its null controls.",
        ge=0,
        le=1,
    )
    beyond_chance: bool = Field(description="Whether that p-value is below 0.01 over the number of attacks run.")
    compared: Count | None = Field(
        default=None,
        description="How many of its candidates, the surest, that p-value counts against held-out records, where these "
        "are fewer; null if all.",
    )
    seconds: float | None = Field(description="Wall time of the attack.")
    remarks: list[str] = Field(
        default=[], description="What the attack said of its own run, such as why it found no start."
    )
    budget_spent: bool = Field(description="Whether the time given ended it before it was done.")


class ThreatFinding(Part):
    """What is known of one attacker."""

    threat: Threat = Field(description="What the attacker has.")
    outcome: AuditOutcome = Field(description="What came of it.")
    found: Count | None = Field(description="Records that the best attack reconstructed; null if none was counted.")
    null: Count | None = Field(description="What the strictest null control of that attack gets.")
    attack: str = Field(
        description="The attack with the largest lead over its null control; empty if none was counted."
    )
    blind: bool = Field(description="True if even reconstructing all records would not be significant.")
    tried: list[str] = Field(description="Attacks that were run until they ended or their time was spent.")
    ruled_out: dict[str, str] = Field(description="Attacks that cannot work, and why.")
    seconds: float = Field(description="Wall time of all attacks that were run.")
    sentence: str = Field(description="The same in words, which says no more than was tried.")


class Group(Part):
    """How many records of a group fell."""

    name: str = Field(description="A class, or a quarter of the records by margin.")
    records: Count = Field(description="Its records.")
    hit: Count = Field(description="Those that fell to any attack that is beyond chance.")


class Overlap(Part):
    """Records that fell to exactly these attacks."""

    attacks: list[str] = Field(description="The attacks.")
    records: Count = Field(description="How many fell to all of these and to no other.")


class Environment(Part):
    """What the audit was made with."""

    bench: str = Field(description="Version of this program.")
    commit: str = Field(description="Commit of its checkout; empty outside one.")
    torch: str = Field(description="Version of torch.")
    python: str = Field(description="Version of Python.")
    device: str = Field(description="Where the attacks ran.")
    hardware: str = Field(description="Processor or GPU.")


class Audit(Part):
    """All that an audit found."""

    schema_version: Literal[2] = Field(default=2, description="Version of these fields.")
    name: str = Field(description="The model, as its file names it.")
    unit: Unit = Field(description="What its records are: images, or rows of a table.")
    weights_sha256: str = Field(description="Hex SHA-256 of its weights.")
    created_utc: str = Field(description="When the audit ended, ISO 8601.")
    headline: str = Field(description="The verdict in one sentence.")
    verdict: list[str] = Field(description="A sentence for each threat model.")
    records_given: Count = Field(description="Training records that the audit had; it can say nothing of others.")
    records_trained: Count = Field(description="Training records of the model, as its owner tells it.")
    held_out: Count = Field(description="Records given that the model was not trained on.")
    hit: Count | None = Field(
        description="Training records that fell to any attack that is beyond chance; null if none were given."
    )
    null_hit: Count | None = Field(
        description="Training records that any null control of any of these attacks gets; null if none were given."
    )
    exposure: Exposure = Field(description="What the weights show at a look.")
    threats: list[ThreatFinding] = Field(description="What each attacker gets.")
    attempts: list[AuditAttempt] = Field(description="All attacks, run or left out.")
    by_class: list[Group] = Field(description="Who was hit, by class.")
    by_margin: list[Group] = Field(description="Who was hit, by quarters of the margin, the smallest first.")
    overlaps: list[Overlap] = Field(description="Who was hit, by the attacks that hit, the largest group first.")
    limits: list[str] = Field(description="What was not tested, and what the audit lacked.")
    follows: list[str] = Field(
        default=[], description="What follows: what was not shown, and what more time or more knowledge would try."
    )
    advice: list[str] = Field(description="What its owner can do.")
    command: str = Field(description="What makes this audit again.")
    budget_seconds: float = Field(description="Time that all attacks had together.")
    environment: Environment = Field(description="What it was made with.")


class Record(Part):
    """One training record: a row of records.csv."""

    index: Count = Field(description="Its place among the training records given.")
    label: Count = Field(description="Its class.")
    margin: float = Field(description="The model's margin on it: how surely it is classified right.")
    attacks: list[str] = Field(description="Attacks beyond chance that reconstructed it; joined by spaces in the CSV.")
    best_attack: str = Field(description="The attack that came nearest to it.")
    best_score: float = Field(
        description="SSIM of that reconstruction, in [-1, 1]; of a row of a table the share of its columns that are "
        "right, in [0, 1]."
    )
    null_score: float = Field(description="The best score that any null control reaches on this record.")
