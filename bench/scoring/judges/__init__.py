"""Judges: small classifiers, trained by the suite itself, that tell what is left of an image in its reconstruction.

`obtain_judge` trains one on a dataset's own labels, or finds it in the cache; `Judge.kl` compares what it makes of the
true image and of the reconstruction (Balle et al. 2022).
"""

from bench.scoring.judges.examples import JudgeUnavailableError
from bench.scoring.judges.judge import Judge, JudgeCard
from bench.scoring.judges.obtain import obtain_judge

__all__ = ["Judge", "JudgeCard", "JudgeUnavailableError", "obtain_judge"]
