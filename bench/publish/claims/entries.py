"""claims.toml: one entry for each sentence that quotes results, with the row and the columns that hold its numbers."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, ValidationError, model_validator

from victims.errors import UserError

Tier = Literal["quick", "all", "stored"]
BINARY = 1e-9
"""Relative difference of numbers that are equal but for rounding in binary."""


class Claim(BaseModel):
    """A sentence, and where the tables say it.

    Attributes:
        text: the words as they stand in `file`, line breaks aside; of a paper's claim our words for it.
        file: the document that holds them, such as a README; empty for a claim of a paper that stands nowhere else.
        source: the paper, and the place in it, of a claim that a paper makes.
        theirs: the paper's numbers by column, which stand beside ours and decide nothing.
        table: the table of the results folder that holds the row: a CSV, or `leaderboard`, which runs.csv makes.
        where: column and value that choose the row. Of a leaderboard `param.NAME` is a parameter.
        values: column and number that the row has; every entry has some, or `theirs`, or is `unsupported`.
        tolerance: how far a number may be off.
        digits: to how many significant digits the text rounds, beyond `tolerance`; 0 where it does not.
        unsupported: why no row of a table has the numbers, empty if one should.
        shown: numbers in the text that are no results of any entry, such as how many a picture shows.
        tier: "quick" and "all" say which `--rerun` measures it again, if its row is of runs; "stored" is of a row that
            is not made again.
        seeds: of the attack, when it is measured again; `victim_seeds` are the retrainings of its victim.
        weights: hashes of the stored row's weights, when its runs are made again; empty otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    file: str = ""
    source: str = ""
    theirs: dict[str, FiniteFloat] = {}
    table: str = "leaderboard"
    where: dict[str, str | float | bool] = {}
    values: dict[str, FiniteFloat] = {}
    tolerance: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    digits: NonNegativeInt = 0
    unsupported: str = ""
    shown: tuple[FiniteFloat, ...] = ()
    tier: Tier = "all"
    seeds: str = "0"
    victim_seeds: str = "0"
    weights: frozenset[str] = frozenset()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.values or self.theirs or self.unsupported):
            raise ValueError("it has no `values`, so it says nothing; `unsupported` says why no table has its numbers")
        return self

    def slack(self, value: float) -> float:
        """Return how far a table's number may be off `value`, the text's."""
        rounding = 0.5 * 10 ** (math.floor(math.log10(abs(value))) - self.digits + 1) if self.digits and value else 0.0
        return max(self.tolerance, rounding) + BINARY * max(1.0, abs(value))

    def setting(self) -> dict[str, Any]:
        """Return the parameters that `where` asks for."""
        return {name.removeprefix("param."): value for name, value in self.where.items() if name.startswith("param.")}


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    claim: tuple[Claim, ...] = ()


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Return the entries of a claims.toml.

    Raises:
        UserError: it is missing or no TOML, or an entry has an unknown field, a value of the wrong kind, or
            nothing to be held against a table.
    """
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).claim
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; --claims names another file, --results-dir another folder"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except ValueError as error:
        raise UserError(f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise UserError(
            f"{path} nests its values too deeply; an entry holds texts, numbers and tables of them"
        ) from None
