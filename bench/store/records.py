"""The run record: the one definition of the columns of runs.csv."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bench.terminal.text import variant_name
from victims.errors import UserError

SCHEMA_VERSION = 7
"""Version of the columns; tables and records of an older one are read: what they lack is empty, and a version 1."""

TUNED_BY_ORACLE = "oracle"
"""`tuned_by` of a run whose parameters were chosen by looking at the training set: it is on no leaderboard."""

NULLS: dict[str, str] = {
    "null_random": "random candidates in the subspace that the network shows, as many and of the same contrast",
    "null_mean_image": "the mean image in the place of every reconstruction",
    "null_held_out": "the held-out images as candidates",
    "null_untrained": "the same attack on the victim before training",
    "null_disjoint": "the same attack on a twin trained on other images",
}
"""Column of runs.csv: the null control that it counts, none of which has seen what the victim has learnt."""
ALIGNED_NULLS: dict[str, str] = {
    "null_mean_image": NULLS["null_mean_image"],
    "null_shuffled": "each reconstruction scored against the target of another model",
}
"""The same where candidate i is for image i, as the informed adversary's are."""


OVERLAPPED = "wall_s is too long"
"""What begins the flag of a run whose seconds are not its own, for it shared the machine."""
ABSENT, RAISED, LOST = "absent_", "failed_", "lost_"
"""What begins the flag of a null control or a metric that could not be had, its name and the reason following: there is
no such control; it raised an exception, and would again; it was killed, or lacked memory or a disk, and is made up."""


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
ENVIRONMENT = "environment"
"""The flag of a failure that is not the attack's: data that are missing, a cache that cannot be written."""


class ScoreState(StrEnum):
    """How far the scoring of a run is."""

    NONE = ""
    PENDING = "pending"
    SCORED = "scored"
    FAILED = "failed"


class RunRecord(BaseModel):
    """One run: what was run, how it scored, what it cost. Fields are the columns of runs.csv, in their order.

    Scores are under `protocol` unless their name says otherwise; SSIM and Pearson's r lie in [-1, 1], MSE is on pixels
    in [0, 1], PSNR in dB, KL in nats. Empty means not measured.

    Attributes:
        sequence: the number of the run among those stored in its results folder: of two of one cell the higher counts,
            whatever the clock said; 0 of rows older than this column.
        reason: why a run failed or was skipped, one line.
        scores: scored; pending, while it is being scored or was interrupted in that; failed, and then the
            next `run` scores it; until then the row keeps the counts that it had, or counts as its null control if it
            had none; empty where there is nothing to score.
        scores_reason: why they failed, one line, which begins with whose fault it was: metric, disk or memory.
        log: file of the results folder with what the run printed and where it failed; empty if there is none.
        params_hash: hash of all parameters, by name, defaults included.
        attack_version: the attack's version, likewise `victim_version` of its recipe and `protocol_version`; rows of a
            lower version than another of the table are on no board.
        attack_sha: hash of the syntax trees of the attack and of all that it imports; it decides nothing.
        knowledge: the attack's declared needs, sorted, joined by "+".
        control: the attack is a null control itself.
        tuned_by: who chose the hyperparameters: default, the variant's name (`paper`: the paper), user (--set), study,
            tune (the attacker's own objective, by the verb of that name) or oracle (the same with the training set in
            hand).
        budget: what the attack was given, such as 600s or 500steps; empty for no limit. The flag "budget" marks a run
            that spent it and returned its best so far.
        victim_key: hash of the victim's definition: its description, its recipe's version and its data; the same for
            all of its retrainings.
        victim_seed: which retraining it is; 0 is the victim as it is described. Others have another seed and other
            images.
        victim_sha: hash of the weights.
        family: the kind of network that the victim is.
        n: images to be reconstructed: all training images given, or the targets of the informed adversary.
        n_fixed: size of the set that the informed adversary knows; 0 for deletions, empty for other victims.
        n_good: training images whose reconstruction passes the protocol's threshold.
        n_good_haim_min: training images that pass under haim2022-min, `n_good_haim_mean` under haim2022-mean.
        n_good_unique: training images that pass when a candidate may serve one image only; `n_good_assigned` when
            nothing is rescaled either.
        null_n_good: the most that any null control of this victim gets, `null_control` the column of that control;
            likewise for the other counts.
        null_random: n_good of each null control, see `NULLS`.
        gain_over_null: n_good less null_n_good.
        false_positive_rate: share of the held-out images that the same scoring call says are reconstructed.
        ssim_at_1pct: the SSIM that 1% of the held-out images pass; `n_good_at_1pct` are the training images above it.
        good_images: which training images are good, a bit each, the first image's the highest: (n + 3) // 4 hex digits.
        one_to_one_images: which of them are good when a candidate may serve one image only; `null_images` are those of
            the null control that gets the most then.
        ssim_top10: mean of the ten best.
        identified: share of training images whose reconstruction is nearer to them than to any other image at hand.
        lpips_status: which network measured LPIPS, or why none did.
        kl_status: which judge classifier measured KL and how accurate it is, or why none did.
        oracle_mse: mean over training images of the MSE to the nearest held-out (test) image.
        beats_oracle: share of training images that are reconstructed with a lower MSE than that of their own
            nearest held-out image.
        mse_p1: the MSE that 1% of the targets stay below, likewise 10% and 50%; of the informed adversary.
        membership_auc: of the informed membership test, which tells a target from another model's.
        confidence_ap: average precision with which the attack's own confidence ranks its candidates, a hit being a
            candidate that alone reconstructs a training image; `base_rate` is what a random order would get.
        precision_at_10: share of hits among the ten candidates that the attack is surest of; likewise of 50, and of n.
        n_found_at_n: how many different training images its n surest candidates reconstruct alone.
        attack_loss: the attack's own objective.
        peak_mem_mb: peak resident memory of the attack's own process, or of the GPU's allocations.
        flags: reasons to read the row with care, joined by ";".
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    sequence: int = 0
    status: Status
    reason: str = ""
    scores: ScoreState = ScoreState.NONE
    scores_reason: str = ""
    log: str = ""
    attack: str
    variant: str = ""
    params_hash: str
    params_json: str
    attack_version: int = 1
    attack_sha: str = ""
    knowledge: str
    control: bool = False
    tuned_by: str
    budget: str = ""
    victim: str
    victim_version: int = 1
    victim_key: str = ""
    victim_seed: int = 0
    victim_sha: str = ""
    family: str = ""
    dataset: str
    n: int
    n_fixed: int | None = None
    n_classes: int = 2
    seed: int
    protocol: str
    protocol_version: int = 1
    metric_suite: str
    n_candidates: int | None = None
    n_good: int | None = None
    n_good_haim_min: int | None = None
    n_good_haim_mean: int | None = None
    n_good_unique: int | None = None
    n_good_assigned: int | None = None
    null_n_good: int | None = None
    null_n_good_haim_min: int | None = None
    null_n_good_haim_mean: int | None = None
    null_n_good_unique: int | None = None
    null_n_good_assigned: int | None = None
    null_control: str = ""
    null_random: int | None = None
    null_mean_image: int | None = None
    null_held_out: int | None = None
    null_untrained: int | None = None
    null_disjoint: int | None = None
    null_shuffled: int | None = None
    gain_over_null: int | None = None
    false_positive_rate: float | None = None
    ssim_at_1pct: float | None = None
    n_good_at_1pct: int | None = None
    good_images: str = ""
    one_to_one_images: str = ""
    null_images: str = ""
    ssim_mean: float | None = None
    ssim_top10: float | None = None
    ssim_best: float | None = None
    mse_mean: float | None = None
    mse_best: float | None = None
    psnr_mean: float | None = None
    pearson_mean: float | None = None
    identified: float | None = None
    lpips_mean: float | None = None
    lpips_status: str = "not measured"
    kl_mean: float | None = None
    kl_status: str = "not measured"
    oracle_mse: float | None = None
    beats_oracle: float | None = None
    mse_p1: float | None = None
    mse_p10: float | None = None
    mse_p50: float | None = None
    membership_auc: float | None = None
    confidence_ap: float | None = None
    base_rate: float | None = None
    precision_at_10: float | None = None
    precision_at_50: float | None = None
    precision_at_n: float | None = None
    n_found_at_n: int | None = None
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

    @property
    def training(self) -> str:
        """The victim's name, that of a retraining with its seed."""
        return f"{self.victim}@{self.victim_seed}" if self.victim_seed else self.victim

    @property
    def title(self) -> str:
        """Short text for people."""
        return f"{variant_name(self.attack, self.variant)} on {self.training} seed {self.seed}"

    @property
    def pending(self) -> bool:
        """The attack is done, its scores are not, and nothing has gone wrong so far."""
        return self.status is Status.OK and self.n_good is None and self.scores is not ScoreState.FAILED

    @property
    def trouble(self) -> str:
        """What went wrong, one line; empty if nothing did."""
        if self.status in FAILED:
            return f"{self.status}: {self.reason}"
        return f"its scores failed: {self.scores_reason}" if self.scores is ScoreState.FAILED else ""


def require_known_schema(version: object, path: Path) -> None:
    """Check that a stored record or table is not of a newer program.

    Raises:
        UserError: it is.
    """
    text = str(version)
    if text.isdigit() and int(text) > SCHEMA_VERSION:
        raise UserError(f"{path} has schema {text}, this program reads {SCHEMA_VERSION}; update the program")


RENAMED = {"hit_rate": "base_rate"}
"""Columns of schemas before 5 by their old names: the names that they have now."""
COLUMNS: tuple[str, ...] = tuple(RunRecord.model_fields)
CELL: tuple[str, ...] = (
    *("attack", "variant", "params_hash", "budget"),
    *("victim", "victim_key"),
    *("protocol", "metric_suite"),
)
"""What makes two rows comparable: the same attack, parameters and budget on the same victim, scored alike."""
ONE_TO_ONE = "n_good_unique"
"""The count that ranks: a candidate serves one image only. A row without it, whose candidate i is for image i, has it
in `n_good`."""
COUNTS: tuple[str, ...] = ("n_good", "n_good_haim_min", "n_good_haim_mean", ONE_TO_ONE, "n_good_assigned")
"""The counts of good images, each of which has its null beside it."""
OWN_NUMBERS: tuple[str, ...] = (
    *("n_fixed", "n_candidates", "attack_loss", "grad_evals"),
    *("wall_s", "train_s", "test_accuracy", "peak_mem_mb"),
)
"""The numbers that a run has before it is scored: what was attacked, what was found, what it cost."""
MEASURES: tuple[str, ...] = tuple(
    name for name, field in RunRecord.model_fields.items() if field.default is None and name not in OWN_NUMBERS
)
"""What scoring measures: every other number that may be missing. A new score replaces all of them."""
SCORES: tuple[str, ...] = (*MEASURES, "wall_s", "train_s", "test_accuracy", "peak_mem_mb")
"""What leaderboard.csv averages over seeds."""
