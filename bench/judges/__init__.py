"""Judges: small classifiers, trained by the suite itself, that tell what is left of an image in its reconstruction.

`obtain_judge` trains one on a dataset's own labels, or finds it in the cache; `Judge.kl` compares what it makes of the
true image and of the reconstruction (Balle et al. 2022).
"""

from bench.judges.cache import obtain_judge
from bench.judges.examples import JudgeUnavailableError
from bench.judges.judge import Judge, JudgeCard

__all__ = ["Judge", "JudgeCard", "JudgeUnavailableError", "obtain_judge"]
