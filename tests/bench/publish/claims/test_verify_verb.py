"""The verb `verify` on what is published, and on a claim that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]


def test_the_verb_says_so_and_exits_with_1(bench: Callable[..., Any], tmp_path: Path) -> None:
    good = bench("verify", "--results-dir", ROOT / "results")
    assert (good.status, good.err) == (0, "")
    assert "0 does not hold" in good.out.splitlines()[-1]

    head, *rows = (ROOT / "results" / "runs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "runs.csv").write_text(head + "".join(row for row in rows if ",402,403,411," in row))
    text = (ROOT / "results" / "claims.toml").read_text().replace("n_good_unique = 411", "n_good_unique = 500")
    (tmp_path / "claims.toml").write_text(text)
    bad = bench("verify", "--results-dir", tmp_path)
    assert bad.status == 1
    assert "n_good_unique is 411 and not 500" in bad.err
