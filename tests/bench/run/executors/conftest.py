from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import World, make_world

from attacks import context
from bench.scoring import evaluation
from victims.training import loop

CHANGED_BY_PLUGINS = ((context, "CHECKPOINT_SECONDS"), (loop, "train"), (evaluation, "evaluate"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def here(followed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Follow a plan of a world in this process; its runs are in processes of their own."""
    for module, name in CHANGED_BY_PLUGINS:
        monkeypatch.setattr(module, name, getattr(module, name))  # it is put back when the test ends

    def call(world: World, *words: object) -> Any:
        return followed(world.environment, *world.command(*words)[3:])

    return call
