"""`check` tells, before anything runs, what an attack's class declares wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.check import check_file

ATTACK = """
from attacks.base import Attack, AttackParams, Knowledge


class Params(AttackParams):
    count: {count}


class Own(Attack[Params]):
    name, summary, Params = "own", "noise", Params
    needs = frozenset({{Knowledge.ARCHITECTURE}})

    def reconstruct(self{arguments}):
        raise AssertionError("it is not called")
"""


@pytest.mark.parametrize(
    ("count", "arguments", "trouble"),
    [
        ("int = 'three'", ", view, ctx", "the default count='three': Input should be a valid integer"),
        ("int = 3", ", view", "`reconstruct` must take self, view and ctx: too many positional arguments"),
        ("int = 3", ", view, ctx, more", "`reconstruct` must take self, view and ctx: missing a required argument"),
        ("int", ", view, ctx", "count needs a default that works"),
    ],
    ids=["a default of another type", "too few arguments", "too many arguments", "no default"],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, count: str, arguments: str, trouble: str) -> None:
    (tmp_path / "own.py").write_text(ATTACK.format(count=count, arguments=arguments))
    (failed,) = [claim for claim in check_file(tmp_path / "own.py", {}, None) if not claim.holds]

    assert trouble in failed.trouble
