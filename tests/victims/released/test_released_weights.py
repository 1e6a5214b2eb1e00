"""The weights of one's own model are read out of the files that people have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from victims.errors import UserError
from victims.released.weights import last_layer, read_weights


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


class Wrapping(nn.Module):
    """A module whose own part has the name that nn.DataParallel gives."""

    def __init__(self) -> None:
        super().__init__()
        self.module = network()


def read(folder: Path, found: Any, module: nn.Module) -> dict[str, torch.Tensor]:
    torch.save(found, folder / "weights.pt")
    return read_weights(folder / "weights.pt", module)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_a_checkpoint_holds_them_beside_other_things(tmp_path: Path, key: str) -> None:
    module = network()
    others = {"epoch": 3, "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]}, "loss": torch.zeros(())}
    module.load_state_dict(read(tmp_path, {key: module.state_dict(), **others}, module))


def test_of_several_state_dicts_none_is_chosen(tmp_path: Path) -> None:
    module = network()
    both = {"model": module.state_dict(), "model_state_dict": module.state_dict()}
    with pytest.raises(UserError, match="several state dicts, under model_state_dict and model; save"):
        read(tmp_path, both, module)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_wrappers_leave_no_trace(tmp_path: Path, prefix: str) -> None:
    module = network()
    state = {f"{prefix}{name}": value for name, value in module.state_dict().items()}
    found = read(tmp_path, state, module)
    assert found.keys() == module.state_dict().keys()


def test_a_name_of_the_networks_own_is_no_wrapper(tmp_path: Path) -> None:
    module = Wrapping()
    module.load_state_dict(read(tmp_path, module.state_dict(), module))


def test_a_weight_may_be_called_like_a_wrapped_state_dict(tmp_path: Path) -> None:
    module = nn.ParameterDict({"model": nn.Parameter(torch.ones(3))})
    assert read(tmp_path, module.state_dict(), module).keys() == {"model"}


def test_the_last_layer_is_the_one_that_an_input_passes_last() -> None:
    class Swapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.body = nn.Linear(3, 2), nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU())

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.head(self.body(inputs))
            return outputs

    assert last_layer(Swapped(), (1, 2, 2)) == "head"
    assert last_layer(network(), (1, 2, 2)) == last_layer(network(), (1, 1, 4)) == "3"
    assert last_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (1, 2, 2)) == ""
