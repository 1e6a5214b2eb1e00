"""The precision of matrix products: a search or a training lowers it, and it is what it was afterwards."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from attacking import CLASSES, attacked, victim_of

from attacks.kkt_family import search as solver
from attacks.kkt_general import KKTGeneral, KKTGeneralParams
from victims.spec import DecayedDescent
from victims.training import decayed_descent
from victims.training.hardware import products_in


def test_it_is_what_it_was_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError), products_in("bfloat16"):
        assert torch.get_float32_matmul_precision() == "medium"
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before
    with products_in("float32"):
        assert torch.get_float32_matmul_precision() == before


def watched(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    """Return the list of the precisions in which a module's function is called from now on."""
    seen: list[str] = []
    real = getattr(module, name)

    def watching(*arguments: object) -> object:
        seen.append(torch.get_float32_matmul_precision())
        return real(*arguments)

    monkeypatch.setattr(module, name, watching)
    return seen


PRECISIONS = pytest.mark.parametrize(("products", "expected"), [("bfloat16", "medium"), ("float32", "highest")])


@PRECISIONS
def test_a_search_runs_in_the_precision_that_its_parameter_names(
    products: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(monkeypatch, solver, "search")
    params = KKTGeneralParams.model_validate({"products": products, "steps": 20, "restarts": 1, "candidates": 12})
    found = attacked(KKTGeneral(params), victim_of(CLASSES))
    assert seen == [expected]
    assert found.candidates.isfinite().all()
    assert torch.get_float32_matmul_precision() == "highest"


@PRECISIONS
def test_a_descent_runs_in_the_precision_that_its_recipe_names(
    products: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(monkeypatch, decayed_descent, "sample_losses")
    recipe = DecayedDescent.model_validate({"products": products, "steps": 3})
    victim_of(CLASSES.model_copy(update={"training": recipe}))
    assert set(seen) == {expected}
    assert torch.get_float32_matmul_precision() == "highest"
