"""The run record: the one definition of the columns of runs.csv."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    SKIPPED = "skipped"
    DIVERGED = "diverged"
    ERROR = "error"


class RunRecord(BaseModel):
    """One run: what was run, how it scored, what it cost. Fields are the columns of runs.csv, in their order.

    Scores are under `protocol` unless their name says otherwise; SSIM lies in [-1, 1], MSE is on pixels in [0, 1].
    Empty means not measured.

    Attributes:
        params_hash: hash of all parameters, by name, defaults included.
        knowledge: the attack's declared needs, sorted, joined by "+".
        tuned_by: who chose the hyperparameters: default, paper (the variant of that name) or user (--set).
        n_good: training images whose reconstruction passes the protocol's threshold.
        n_good_haim_min: the same under haim2022-min, `n_good_haim_mean` under haim2022-mean.
        n_good_unique: the same when a candidate may serve one image only.
        null_n_good: n_good of the null control with as many candidates on the same victim, likewise for the others.
        ssim_top10: mean of the ten best.
        oracle_mse: mean over training images of the MSE to the nearest held-out (test) image.
        beats_oracle: share of training images that are reconstructed with a lower MSE than that of their own
            nearest held-out image.
        attack_loss: the attack's own objective.
        peak_mem_mb: peak resident memory of the process up to the end of the run, training included.
        flags: reasons to read the row with care, joined by ";".
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    status: Status
    reason: str = ""
    attack: str
    variant: str = ""
    params_hash: str
    params_json: str
    knowledge: str
    tuned_by: str
    victim: str
    victim_sha: str = ""
    dataset: str
    n: int
    n_classes: int = 2
    seed: int
    protocol: str
    metric_suite: str
    n_candidates: int | None = None
    n_good: int | None = None
    n_good_haim_min: int | None = None
    n_good_haim_mean: int | None = None
    n_good_unique: int | None = None
    null_n_good: int | None = None
    null_n_good_haim_min: int | None = None
    null_n_good_haim_mean: int | None = None
    null_n_good_unique: int | None = None
    ssim_mean: float | None = None
    ssim_top10: float | None = None
    ssim_best: float | None = None
    mse_mean: float | None = None
    mse_best: float | None = None
    lpips_mean: float | None = None
    lpips_status: str = "not measured"
    kl_mean: float | None = None
    oracle_mse: float | None = None
    beats_oracle: float | None = None
    attack_loss: float | None = None
    wall_s: float | None = None
    train_s: float | None = None
    test_accuracy: float | None = None
    grad_evals: int | None = None
    peak_mem_mb: float | None = None
    device: str
    cpu: str
    gpu: str = ""
    torch: str
    bench_version: str
    git_commit: str = ""
    started_utc: str
    flags: str = ""


COLUMNS: tuple[str, ...] = tuple(RunRecord.model_fields)
CELL: tuple[str, ...] = ("attack", "variant", "params_hash", "victim", "protocol", "metric_suite")
"""What makes two rows comparable: the same attack and parameters on the same victim, scored alike."""
SCORES: tuple[str, ...] = (
    "n_good",
    "n_good_haim_min",
    "n_good_haim_mean",
    "n_good_unique",
    "null_n_good",
    "null_n_good_haim_min",
    "null_n_good_haim_mean",
    "null_n_good_unique",
    "ssim_mean",
    "ssim_top10",
    "ssim_best",
    "mse_mean",
    "mse_best",
    "oracle_mse",
    "beats_oracle",
    "wall_s",
    "train_s",
    "test_accuracy",
    "peak_mem_mb",
)
"""What leaderboard.csv averages over seeds."""
