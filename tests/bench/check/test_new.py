"""In the files that `new` writes `check` finds nothing wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_check import all_hold

from bench.check import check_file
from bench.check.new import write_new


def test_what_new_writes_passes(bench: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    names = ("my-attack.2", "3", "none", "reconstruction")
    for kind, name in (*(("attack", name) for name in names), ("victim", "my-victim")):
        made = bench("new", kind, name, "--folder", folder)
        assert made.status == 0
        path = folder / f"{re.sub('[-.]', '_', name)}.py"
        assert str(path) in made.out
        assert name in all_hold(path)
    checked = bench("check", folder / "my_attack_2.py")
    assert (checked.status, "✗" in checked.out, "my-attack.2" in checked.out) == (0, False, True)
    assert "my_attack_2.py" in bench("new", "attack", "my-attack.2", "--folder", folder).err


def test_a_new_model_wants_its_files(tmp_path: Path) -> None:
    claims = check_file(write_new("model", "mine", tmp_path, {}), {}, None)
    assert any("there are no weights at" in claim.trouble for claim in claims)
