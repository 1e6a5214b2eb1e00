"""Adam with a one-cycle schedule of learning rates, which goes on from a checkpoint as if it had not stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

LOWEST_MOMENTUM, HIGHEST_MOMENTUM = 0.85, 0.95
"""Adam's beta_1 falls from the highest to the lowest while the learning rate rises, and rises again while it falls."""
SQUARES = 0.99
"""Adam's beta_2, which stays."""
WARM_UP = 0.2
"""The share of the steps in which the learning rate rises."""
SHORTEST_CYCLE = 10
"""The shortest cycle: a run of fewer steps takes only its beginning, because a shorter cycle has no warm-up."""
REPORT_STEPS = 20
"""A search tells how far it is after so many steps."""


class OneCycle:
    """Moves variables along their gradients by Adam, with the learning rates of one cycle (Smith and Topin 2018).

    beta_1 cycles against the learning rate, from .95 to .85 and back.

    Args:
        groups: pairs of leaf tensors and their highest learning rate.
        steps: the number of steps of the cycle.
    """

    def __init__(self, groups: Sequence[tuple[list[Tensor], float]], steps: int) -> None:
        self._variables = [variable for variables, _ in groups for variable in variables]
        fused = all(variable.is_cuda for variable in self._variables)  # one kernel, which the host starts at once
        self._adam = torch.optim.Adam(
            [{"params": variables, "lr": lr} for variables, lr in groups],
            betas=(HIGHEST_MOMENTUM, SQUARES),
            fused=fused or None,
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._adam,
            [lr for _, lr in groups],
            total_steps=max(steps, SHORTEST_CYCLE),
            pct_start=WARM_UP,
            base_momentum=LOWEST_MOMENTUM,
            max_momentum=HIGHEST_MOMENTUM,
        )

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._adam.zero_grad()

    def step(self) -> None:
        """Move the variables along their gradients."""
        self._adam.step()
        self._schedule.step()

    def state(self) -> dict[str, Tensor]:
        """Return all that `restore` needs; the tensors are those that the next step changes."""
        named = {f"variable.{index}": variable.detach() for index, variable in enumerate(self._variables)}
        for index, variable in enumerate(self._variables):
            named |= {f"adam.{name}.{index}": value for name, value in self._adam.state[variable].items()}
        rates = [(group["lr"], *group["betas"]) for group in self._adam.param_groups]
        return named | {
            "rates": torch.tensor(rates, dtype=torch.float64),
            "step": torch.tensor(self._schedule.last_epoch),
        }

    def restore(self, state: Mapping[str, Tensor]) -> int:
        """Go on from what `state` returned, of variables of the same shapes; return how many steps it had done."""
        with torch.no_grad():
            for index, variable in enumerate(self._variables):
                variable.copy_(state[f"variable.{index}"])
                moments = {name: state[f"adam.{name}.{index}"].to(variable) for name in ("exp_avg", "exp_avg_sq")}
                # Adam counts its steps in its own precision: on the host, or fused on a GPU there
                step = state[f"adam.step.{index}"]
                self._adam.state[variable] = {"step": step.to(variable.device) if variable.is_cuda else step, **moments}
        for group, (lr, *betas) in zip(self._adam.param_groups, state["rates"].tolist(), strict=True):
            group["lr"], group["betas"] = lr, tuple(betas)
        self._schedule.last_epoch = int(state["step"])
        return self._schedule.last_epoch
