"""Which files are a list of claims, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.publish.claims import read_claims
from victims.errors import UserError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[claim]\n", "is no TOML"),
        ("[[claim]]\ntext = 1\n", "claim.0.text"),
        ("[[claim]]\ntxt = 'a'\n", "claim.0"),
        ("[[claim]]\ntext = 'a'\nvalues = { n_good = nan }\n", "claim.0.values.n_good: .* finite number"),
        ("[[claim]]\ntext = 'a'\ndigits = 2\nvalues = { n_good = inf }\n", "claim.0.values.n_good: .* finite number"),
        ("[[claim]]\ntext = 'a'\nvalues = { n = 1 }\ntolerance = inf\n", "claim.0.tolerance: .* finite number"),
        ("[[claim]]\ntext = 'a'\n", "claim.0: .* says nothing"),
        ("[[claim]]\ntext = " + "[" * 100_000, "nests its values too deeply"),
    ],
)
def test_a_file_that_is_no_list_of_claims_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "claims.toml").write_text(text)
    with pytest.raises(UserError, match=words):
        read_claims(tmp_path / "claims.toml")
