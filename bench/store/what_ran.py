"""What was run and how it ended: the first columns of runs.csv, as `records.py` goes on with them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 7
"""Version of the columns; tables and records of an older one are read: what they lack is empty, and a version 1."""


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    OOM = "oom"
    DIVERGED = "diverged"
    ERROR = "error"


FAILED: tuple[Status, ...] = (Status.TIMEOUT, Status.OOM, Status.DIVERGED, Status.ERROR)
"""What counts as the null control's score: out of time, out of memory, no finite candidate, anything else."""


class ScoreState(StrEnum):
    """How far the scoring of a run is."""

    NONE = ""
    PENDING = "pending"
    SCORED = "scored"
    FAILED = "failed"


class WhatRan(BaseModel):
    """What was run, and how it ended."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    schema_version: int = SCHEMA_VERSION
    """Version of the columns; tables of an older one are read."""
    run_id: str
    """Name of the run: attack, victim, seed, and a hash of all that determines its candidates."""
    sequence: int = 0
    """Number of the run among those stored in its results folder: of two of one cell the higher counts, whatever the
    clock said; 0 of rows older than this column."""
    status: Status
    """How the run ended: ok, skipped, timeout, oom, diverged or error."""
    reason: str = ""
    """Why a run failed or was skipped, one line."""
    scores: ScoreState = ScoreState.NONE
    """Scored; pending, while it is being scored or was interrupted in that; failed, and then the next `run` scores it,
    and until then the row keeps the counts that it had, or counts as its null control if it had none; empty where there
    is nothing to score."""
    scores_reason: str = ""
    """Why scoring failed, one line, which begins with whose fault it was: metric, disk or memory."""
    log: str = ""
    """File of the results folder with what the run printed and where it failed; empty if there is none."""
    attack: str
    """Name of the attack."""
    variant: str = ""
    """Named parameter set that the attack was run with; empty for its defaults."""
    params_hash: str
    """Hash of all parameters, by name, defaults included."""
    params_json: str
    """All parameters as JSON, defaults included."""
    attack_version: int = 1
    """Version of the attack; rows of a lower version than another of the table are on no board."""
    attack_sha: str = ""
    """Hash of the syntax trees of the attack and of all that it imports; it decides nothing."""
    knowledge: str
    """The attack's declared needs, sorted, joined by "+"."""
    control: bool = False
    """Whether the attack is a null control itself."""
    tuned_by: str
    """Who chose the hyperparameters: default, the variant's name (`paper`: the paper), user (--set), study, tune (the
    attacker's own objective, by the verb of that name) or oracle (the same with the training set in hand)."""
    budget: str = ""
    """What the attack was given, such as 600s or 500steps; empty for no limit. The flag "budget" marks a run that spent
    it and returned its best so far."""
    victim: str
    """Name of the victim as it is described, with its defences."""
    victim_version: int = 1
    """Version of the recipe that trained the victim; a lower one than another of the table is on no board."""
    victim_key: str = ""
    """Hash of the victim's definition: its description, its recipe's version and its data; the same for all of its
    retrainings."""
    victim_seed: int = 0
    """Which retraining it is; 0 is the victim as it is described. Others have another seed and other images."""
    victim_sha: str = ""
    """Hash of the victim's weights."""
    family: str = ""
    """The kind of network that the victim is."""
    dataset: str
    """What the victim was trained on."""
    n: int
    """Images to be reconstructed: all training images given, or the targets of the informed adversary."""
    n_fixed: int | None = None
    """Size of the set that the informed adversary knows; 0 for deletions, empty for other victims."""
    n_classes: int = 2
    """Classes that the victim tells apart."""
    seed: int
    """Seed of the attack."""
    protocol: str
    """How candidates are matched with training images and which count as good; `show NAME` describes it."""
    protocol_version: int = 1
    """Version of the protocol; a lower one than another of the table is on no board."""
    metric_suite: str
    """Version of all metrics and protocols, which scored the run."""
