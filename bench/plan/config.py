"""What `run` is asked for: sections of attacks and victims, from the command line or from a TOML file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from attacks.context import Budget
from bench.plan.options import attack_params, parse_seeds
from bench.plan.registry import ROOT, Registry, Victims
from bench.plan.run import Run, retraining_of
from bench.terminal.text import nearest, short
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack
    from victims.informed.spec import AnySpec


DEFAULT = ROOT / "attacks/default.toml"
Names = Annotated[tuple[str, ...], Field(min_length=1)]
TERMS = {"tuple": "array", "dictionary": "table"}
"""Words of pydantic's messages: what TOML calls the same thing."""
MISSPELT = "extra_forbidden"
"""What pydantic calls a key that a table does not have."""


class Section(BaseModel):
    """Attacks that each run on each victim with each seed; the fields are the options of `run`.

    Attributes:
        section: the name that `--only` selects it by; several tables may share one.
        attack: names or globs.
        victim: names or globs.
        defence: what each of the victims is defended by, in this order.
        variant: a named parameter set that all of the attacks have.
        set: parameters by name.
        seeds: as `--seeds` takes them; `victim_seeds` as `--victim-seeds` does.
        smoke: what `--smoke` changes, to see in a minute that it works.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: str = ""
    attack: Names
    victim: Names
    defence: tuple[str, ...] = ()
    variant: str = ""
    set: dict[str, Any] = {}
    seeds: str = "0"
    victim_seeds: str = "0"
    smoke: dict[str, Any] = {}

    def changed(self, given: dict[str, Any]) -> Section:
        """Return the section with other values for some of its fields; parameters of `set` are added to its own.

        Raises:
            ValidationError: a value is of the wrong kind.
        """
        values = self.model_dump() | {name: value for name, value in given.items() if value is not None}
        if isinstance(parameters := values["set"], dict):
            values["set"] = self.set | parameters
        return Section.model_validate(values)


def audited(attacks: Registry[type[Attack[Any]]], victim: str, all_variants: bool = True) -> tuple[Section, ...]:
    """Return a section for each parameter set that an audit runs of any attack, the defaults of all attacks first.

    What the defaults of an attack need, such as the start of the training, another parameter set of it may find out.

    Args:
        attacks: all that are known.
        victim: name of the victim.
        all_variants: False for the defaults alone.
    """
    by_variant: dict[str, list[str]] = {"": []}
    for name, kind in attacks.items.items():
        for variant in kind.audits if all_variants else ("",):
            if not variant or variant in kind.variants:
                by_variant.setdefault(variant, []).append(name)
    return tuple(
        Section(attack=tuple(names), victim=(victim,), variant=variant)
        for variant, names in by_variant.items()
        if names
    )


class StudySection(BaseModel):
    """Studies, which the verb of that name runs.

    Attributes:
        section: as of `Section`.
        study: names or globs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: str = ""
    study: Names


class TuneSection(BaseModel):
    """Searches for parameters; the fields are the options of `tune`.

    Attributes:
        section: as of `Section`.
        attack: names or globs; `victim` likewise.
        variant: a named parameter set.
        set: parameters to hold.
        trials: of each attack on each victim.
        oracle: whether the best trial is picked by its good images, and not by its loss.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: str = ""
    attack: Names
    victim: Names
    variant: str = ""
    set: dict[str, Any] = {}
    trials: PositiveInt = 30
    oracle: bool = False


class PlanFile(BaseModel):
    """A TOML file with a table `[[plan]]`, `[[study]]` or `[[tune]]` for each section.

    Attributes:
        device: as `--device` takes it.
        plan: the runs.
        study: the studies, after the runs.
        tune: the searches, after the studies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str = "auto"
    plan: tuple[Section, ...] = ()
    study: tuple[StudySection, ...] = ()
    tune: tuple[TuneSection, ...] = ()

    @property
    def sections(self) -> list[str]:
        """The names of the sections, in the order of the file's tables."""
        names = [table.section for table in self.plan] + [table.section for table in self.study]
        return list(dict.fromkeys(names + [table.section for table in self.tune]))

    def only(self, names: Sequence[str]) -> PlanFile:
        """Return the plan of some sections.

        Raises:
            UserError: there is no section of that name.
        """
        if unknown := [name for name in names if name not in self.sections or not name]:
            known = ", ".join(filter(None, self.sections)) or "none, for no table names its `section`"
            raise UserError(f"--only {short(unknown[0])}: the plan has no such section; there are: {known}")
        kept = {
            kind: tuple(table for table in getattr(self, kind) if table.section in names)
            for kind in ("plan", "study", "tune")
        }
        return self.model_copy(update=kept)


def default_plan() -> PlanFile:
    """Return the plan of attacks/default.toml.

    A command line that names only an attack takes the victim of its first section, and the other way round.
    """
    return read_plan(DEFAULT, smoke=False)


def named_plan(attacks: Registry[type[Attack[Any]]], own: bool, named: bool, changed: bool) -> PlanFile:
    """Return what is run where the command line does not name all.

    Args:
        attacks: all that are known.
        own: whether a victim is one's own model, and no attack is named: then it is what an audit tries.
        named: whether an attack or a victim is named, which the sections do not have yet.
        changed: whether a parameter set or a parameter is given, which not every attack need have.
    """
    usual = default_plan()
    first = usual.plan[0]
    if own:
        return PlanFile(plan=audited(attacks, first.victim[0], all_variants=not changed))
    return PlanFile(plan=(first,)) if named or changed else usual


TABLES: dict[str, type[BaseModel]] = {"plan": Section, "study": StudySection, "tune": TuneSection}


def read_plan(path: Path, smoke: bool) -> PlanFile:
    """Return the plan of a file, or its small version: runs with the changes of their `smoke` tables, and no searches.

    Raises:
        UserError: the file is missing, no TOML, or no plan, or plans nothing.
    """
    try:
        plan = PlanFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        if not plan.sections:
            raise UserError(f"--config {path} plans nothing: it has no table [[plan]], [[study]] or [[tune]]")
        if smoke:
            small = tuple(
                _small(section, f"--config {path}: table {number}") for number, section in enumerate(plan.plan, 1)
            )
            plan = plan.model_copy(update={"plan": small, "tune": ()})
            if not plan.sections:
                raise UserError(f"--config {path} has no small version: it is of searches alone")
    except OSError as error:
        raise UserError(f"--config {path}: {error.strerror}") from None
    except ValidationError as error:
        raise UserError(f"--config {path}: {_complaint(error)}") from None
    except RecursionError:
        raise UserError(f"--config {path} is nested too deeply") from None
    except ValueError as error:
        raise UserError(f"--config {path} is no TOML: {error}") from None
    return plan


def _small(section: Section, where: str) -> Section:
    """Return the small version of a table of runs; `where` it stands is told where its `smoke` is none."""
    try:
        return section.changed(section.smoke)
    except ValidationError as error:
        raise UserError(f"{where} of [[plan]]: smoke.{_complaint(error)}") from None


def _complaint(error: ValidationError) -> str:
    """Return what is wrong with a plan's file, in TOML's words; a key that no table has is told before one it lacks."""
    first = min(error.errors(), key=lambda found: found["type"] != MISSPELT)
    *outer, key = map(str, first["loc"])
    table = f"table {int(outer[1]) + 1} of [[{outer[0]}]]: " if outer[1:] else ""
    where = table + ".".join([*(outer[2:] if table else outer), key])
    if first["type"] == MISSPELT:
        kind = TABLES[outer[0]] if outer else Section if error.title == Section.__name__ else PlanFile
        return f"{where}: there is no such key; {nearest(key, kind.model_fields)}"
    message = re.sub("|".join(TERMS), lambda found: TERMS[found[0]], first["msg"].replace("Tuple", "tuple"))
    if isinstance(value := first["input"], str) and "valid array" in message:
        message += f"; write {key} = {json.dumps([value])}"
    return f"{where}: {message}"


def require_settings(
    path: Path, sections: Iterable[Section | TuneSection], attacks: Registry[type[Attack[Any]]]
) -> None:
    """Check that the parameters which the sections of a plan's file set are ones that their attacks have.

    Raises:
        UserError: one is none, in which section; or there is no such attack or variant.
    """
    for section in sections:
        where = f"--config {path}: {f'section {section.section}: ' if section.section else ''}set"
        for kind in attacks.match(section.attack):
            attack_params(kind, section.variant, section.set, where)


def planned(
    sections: Iterable[Section],
    attacks: Registry[type[Attack[Any]]],
    victims: Victims,
    budget: Budget,
) -> list[Run]:
    """Return the runs of some sections, victim by victim in each, none of them twice, each with the same budget.

    Raises:
        UserError: there is no such attack, victim, defence, variant, parameter or seed, or a victim has no images.
    """
    runs: dict[Any, Run] = {}
    for section in sections:
        chosen, attacked = attacks.match(section.attack), victims.match(section.victim, section.defence)
        require_images(attacked)
        params = {kind.name: attack_params(kind, section.variant, section.set) for kind in chosen}
        tuned_by = "user" if section.set else section.variant or "default"
        seeds, retrainings = parse_seeds(section.seeds), parse_seeds(section.victim_seeds, "--victim-seeds")
        for spec in (retraining_of(spec, retraining) for spec in attacked for retraining in retrainings):
            for kind in chosen:
                for seed in seeds:
                    run = Run(kind, params[kind.name], section.variant, tuned_by, spec, seed, budget)
                    runs.setdefault((kind.name, run.params.model_dump_json(), spec.name, seed), run)
    return list(runs.values())


def require_images(victims: Iterable[AnySpec]) -> None:
    """Check that attacks on these victims can be scored.

    Raises:
        UserError: one was given without its training images.
    """
    for spec in victims:
        if not spec.dataset:
            hint = "give `images` in its file, or audit it without: `python -m bench audit FILE`"
            raise UserError(f"victim {spec.name} has no training images to score with; {hint}")
