"""The learned metrics: LPIPS and the judge of KL; without them their columns stay empty."""

from __future__ import annotations

from pathlib import Path

import torch

from bench.scoring.evaluation import LearnedMetrics
from bench.scoring.judges import Judge, obtain_judge
from bench.scoring.lpips.perceptual import Perceptual, PerceptualUnavailableError, load_perceptual
from bench.terminal.progress import Reporter
from victims.cache import cache_dir
from victims.errors import UserError


def obtain_learned_metrics(
    dataset: str, data_dir: Path | None, device: torch.device, reporter: Reporter
) -> LearnedMetrics:
    """Return LPIPS and the judge of a dataset, each with its name or the reason why it is missing."""
    perceptual, perceptual_status = _perceptual(reporter)
    judge, judge_status = _judge(dataset, data_dir, device, reporter)
    return LearnedMetrics(perceptual, perceptual_status, judge, judge_status)


def _perceptual(reporter: Reporter) -> tuple[Perceptual | None, str]:
    try:
        perceptual = load_perceptual(cache_dir(), reporter.notice)
    except PerceptualUnavailableError as error:
        return None, f"unavailable: {error}"
    return perceptual, perceptual.name


def _judge(dataset: str, data_dir: Path | None, device: torch.device, reporter: Reporter) -> tuple[Judge | None, str]:
    def report(step: int, steps: int, figures: dict[str, float]) -> None:
        reporter.progress(f"train the judge of {dataset}", step, steps, figures)

    try:
        judge = obtain_judge(dataset, data_dir, device, report, reporter.notice)
    except UserError as error:
        return None, f"unavailable: {error}"
    return judge, judge.label
