"""The run record: the one definition of the columns of runs.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from bench.store.what_ran import FAILED, SCHEMA_VERSION, ScoreState, Status, WhatRan
from bench.terminal.text import variant_name
from victims.errors import UserError

TUNED_BY_ORACLE = "oracle"
"""`tuned_by` of a run whose parameters were chosen by looking at the training set: it is on no leaderboard."""

NULLS: dict[str, str] = {
    "null_random": "random candidates in the row space of the released W1, as many and of the same contrast",
    "null_mean_image": "the mean image in the place of every reconstruction",
    "null_held_out": "the held-out images as candidates, with other images of the dataset where the attack has more; "
    "under nearest-public the latter alone",
    "null_untrained": "the same attack on the victim before training",
    "null_disjoint": "the same attack on a twin trained on other images",
}
"""Column of runs.csv: the null control that it counts, none of which has seen what the victim has learnt."""
ALIGNED_NULLS: dict[str, str] = {
    "null_mean_image": NULLS["null_mean_image"],
    "null_shuffled": "each reconstruction scored against the target of another model",
}
"""The same where candidate i is for image i, as the informed adversary's are."""
TWINS: dict[str, Literal["untrained", "disjoint"]] = {"null_untrained": "untrained", "null_disjoint": "disjoint"}
"""Those that attack a twin of the network: which."""


OVERLAPPED = "wall_s is too long"
"""What begins the flag of a run whose seconds are not its own, for it shared the machine."""
ABSENT, RAISED, LOST = "absent_", "failed_", "lost_"
"""What begins the flag of a null control or a metric that could not be had, its name and the reason following: there is
no such control; it raised an exception, and would again; it was killed, or lacked memory or a disk, and is made up."""


ENVIRONMENT = "environment"
"""The flag of a failure that is not the attack's: data that are missing, a cache that cannot be written."""


class RunRecord(WhatRan):
    """One run: what was run, how it scored, what it cost. Fields are the columns of runs.csv, in their order.

    Scores are under `protocol` unless their name says otherwise; SSIM and Pearson's r lie in [-1, 1], MSE is on pixels
    in [0, 1], PSNR in dB, KL in nats. Empty means not measured.
    """

    n_candidates: int | None = None
    """How many candidates the attack returned."""
    n_good: int | None = None
    """Training images whose reconstruction passes the protocol's threshold."""
    n_good_haim_min: int | None = None
    """Training images that pass under haim2022-min."""
    n_good_haim_mean: int | None = None
    """Training images that pass under haim2022-mean."""
    n_good_unique: int | None = None
    """Training images that pass when a candidate may serve one image only."""
    n_good_assigned: int | None = None
    """Training images that pass when a candidate may serve one image only and nothing is rescaled."""
    null_n_good: int | None = None
    """The most that any null control of this victim gets."""
    null_n_good_haim_min: int | None = None
    """The most that any null control gets in n_good_haim_min."""
    null_n_good_haim_mean: int | None = None
    """The most that any null control gets in n_good_haim_mean."""
    null_n_good_unique: int | None = None
    """The most that any null control gets in n_good_unique."""
    null_n_good_assigned: int | None = None
    """The most that any null control gets in n_good_assigned."""
    null_control: str = ""
    """Column of the null control that gets the most."""
    null_random: int | None = Field(None, description=f"n_good of {NULLS['null_random']}.")
    null_mean_image: int | None = Field(None, description=f"n_good of {NULLS['null_mean_image']}.")
    null_held_out: int | None = Field(None, description=f"n_good of {NULLS['null_held_out']}.")
    null_untrained: int | None = Field(None, description=f"n_good of {NULLS['null_untrained']}.")
    null_disjoint: int | None = Field(None, description=f"n_good of {NULLS['null_disjoint']}.")
    null_shuffled: int | None = Field(None, description=f"n_good of {ALIGNED_NULLS['null_shuffled']}.")
    gain_over_null: int | None = None
    """n_good less null_n_good."""
    false_positive_rate: float | None = None
    """Share of the held-out images that the same scoring call says are reconstructed."""
    ssim_at_1pct: float | None = None
    """The SSIM that 1% of the held-out images pass."""
    n_good_at_1pct: int | None = None
    """Training images above the SSIM that 1% of the held-out images pass."""
    good_images: str = ""
    """Which training images are good, a bit each, the first image's the highest: (n + 3) // 4 hex digits."""
    one_to_one_images: str = ""
    """Which training images are good when a candidate may serve one image only, likewise."""
    null_images: str = ""
    """Which training images are good then of the null control that gets the most, likewise."""
    ssim_mean: float | None = None
    """Mean SSIM over training images."""
    ssim_top10: float | None = None
    """Mean SSIM of the ten best."""
    ssim_best: float | None = None
    """The highest SSIM of a training image."""
    mse_mean: float | None = None
    """Mean MSE over training images."""
    mse_best: float | None = None
    """The lowest MSE of a training image."""
    psnr_mean: float | None = None
    """Mean PSNR over training images."""
    pearson_mean: float | None = None
    """Mean of Pearson's r over training images."""
    identified: float | None = None
    """Share of training images whose reconstruction is nearer to them than to any other image at hand."""
    lpips_mean: float | None = None
    """Mean LPIPS over training images."""
    lpips_status: str = "not measured"
    """Which network measured LPIPS, or why none did."""
    kl_mean: float | None = None
    """Mean divergence of a judge's outputs on reconstructions from those on the training images."""
    kl_status: str = "not measured"
    """Which judge classifier measured KL and how accurate it is, or why none did."""
    oracle_mse: float | None = None
    """Mean over training images of the MSE to the nearest held-out (test) image, or to the nearest that the attacker
    has."""
    beats_oracle: float | None = None
    """Share of training images that are reconstructed with a lower MSE than that of their own nearest held-out
    image."""
    mse_p1: float | None = None
    """The MSE that 1% of the targets stay below; of the informed adversary and of deletions."""
    mse_p10: float | None = None
    """The MSE that 10% of the targets stay below, likewise."""
    mse_p50: float | None = None
    """The MSE that 50% of the targets stay below, likewise."""
    membership_auc: float | None = None
    """AUC of the informed membership test, which tells a target from another model's."""
    confidence_ap: float | None = None
    """Average precision with which the attack's own confidence ranks its candidates, a hit being a candidate that alone
    reconstructs a training image."""
    base_rate: float | None = None
    """Share of hits among the candidates: confidence_ap if all were tied. A random order's is a little above it where
    hits are few."""
    precision_at_10: float | None = None
    """Share of hits among the ten candidates that the attack is surest of."""
    precision_at_50: float | None = None
    """Share of hits among the 50 candidates that the attack is surest of."""
    precision_at_n: float | None = None
    """Share of hits among the n candidates that the attack is surest of."""
    n_found_at_n: int | None = None
    """How many different training images the attack's n surest candidates reconstruct alone; ties go by the order of
    the candidates."""
    attack_loss: float | None = None
    """The attack's own objective."""
    wall_s: float | None = None
    """Seconds of the attack, training excluded."""
    train_s: float | None = None
    """Seconds of the victim's training."""
    test_accuracy: float | None = None
    """Accuracy of the victim as it is released on held-out images, in [0, 1]."""
    grad_evals: int | None = None
    """How often the attack evaluated the gradient of its objective."""
    peak_mem_mb: float | None = None
    """Peak resident memory of the attack's own process, or of the GPU's allocations."""
    device: str
    """Kind of device that the attack ran on: cpu or cuda."""
    cpu: str
    """The processor's model, and how many cores the run might use."""
    gpu: str = ""
    """The GPU's name; empty on a CPU."""
    torch: str
    """Version of torch."""
    bench_version: str
    """Version of this suite."""
    git_commit: str = ""
    """Commit of this suite, `-dirty` behind it if its code was changed since; empty outside of a clone."""
    started_utc: str
    """When the attack began, by the clock of its machine."""
    flags: str = ""
    """Reasons to read the row with care, joined by ";"."""

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


class NewerSchemaError(UserError):
    """A stored record or table is of a newer program."""


def require_known_schema(version: object, path: Path) -> None:
    """Check that a stored record or table is not of a newer program.

    Raises:
        NewerSchemaError: it is.
    """
    text = str(version)
    if text.isdigit() and int(text) > SCHEMA_VERSION:
        raise NewerSchemaError(f"{path} has schema {text}, this program reads {SCHEMA_VERSION}; update the program")


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
