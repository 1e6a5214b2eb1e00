"""What an audit runs: every attack that can work, each with its share of the time."""

from __future__ import annotations

from collections.abc import Sequence

from attacks.context import Budget
from bench.plan.prospects import Outlook, Prospect
from bench.plan.run import Run
from victims.errors import UserError
from victims.spec import VictimSpec

LEAST_SECONDS = 5.0
"""Below this share of the time no attack gets anywhere."""
TUNED_BY = "default"


def runs_of(found: Sequence[Prospect], victim: VictimSpec, budget: Budget) -> list[Run]:
    """Return a run for each attack that can be tried, without the attacks on the last record, which are no runs.

    The time is shared equally before anything is run, so that the same command finds the runs that it has stored.

    Args:
        found: all attacks and what can be said of them.
        victim: the model.
        budget: what all runs together may spend, in seconds.

    Raises:
        UserError: the budget is too small to be shared.
    """
    assert budget.seconds is not None
    tried = [prospect for prospect in found if prospect.outlook is Outlook.OPEN]
    share = share_of(budget, len(tried))
    if tried and share < LEAST_SECONDS:
        least = LEAST_SECONDS * len(tried)
        raise UserError(f"--budget {budget} is too little for {len(tried)} attacks; give at least {least:.0f}s")
    own = Budget(seconds=share)
    return [
        Run(one.attack, one.params, one.variant, one.variant or TUNED_BY, victim, 0, own)
        for one in tried
        if one.attack.setting == victim.setting
    ]


def share_of(budget: Budget, attacks: int) -> float:
    """Return the seconds that each of a number of attacks has, rounded to a tenth."""
    assert budget.seconds is not None
    return round(budget.seconds / max(attacks, 1), 1)
