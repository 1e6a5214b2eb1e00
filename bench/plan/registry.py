"""Finding attacks and victims: a file in a folder, an installed entry point, a plug-in folder. No central list.

Scanning imports the files; those that ship with the suite import torch only when they run, so `list` is quick.
A file that does not import, or does not survive it, is kept with its reason, and costs only itself.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, get_args

from attacks.base import Attack, ControlParams
from attacks.studies.base import Study
from bench.plan.declared import entry_points, require_declared
from bench.plan.rehearsal import not_importable
from bench.terminal.text import describe, few, one_line
from victims.defences.spec import JOINT, parse
from victims.defences.stacking import defended
from victims.errors import UserError
from victims.informed.spec import AnySpec
from victims.spec import VictimSpec

T = TypeVar("T")
Collect = Callable[[ModuleType, str], None]
ROOT = Path(__file__).parents[2]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Broken:
    """A file or entry point that did not import, and why."""

    origin: str
    reason: str


@dataclass
class Registry(Generic[T]):
    """Named objects of one kind and where each came from.

    Attributes:
        kind: "attack", "victim" or "study", for messages.
        items: by name.
        origins: file or entry point, by name.
        broken: what did not import.
        plugins: whether a folder of plug-ins was looked through, too.
    """

    kind: str
    items: dict[str, T] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)
    plugins: bool = False

    def add(self, name: str, item: T, origin: str) -> None:
        """Add an item.

        Raises:
            ValueError: the name is taken by an item from elsewhere, or cannot be part of a folder's name.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"the name {name!r} holds more than letters, digits, '-', '_' and '.'")
        if name in self.items and self.origins[name] != origin:
            raise ValueError(f"the name {name!r} is already taken by {self.origins[name]}")
        self.items[name] = item
        self.origins[name] = origin

    def match(self, patterns: Iterable[str]) -> list[T]:
        """Return the items that names or globs select, in the order asked for, each once.

        Raises:
            UserError: a pattern selects nothing; the message suggests near names.
        """
        chosen: dict[str, T] = {}
        for pattern in patterns:
            names = [name for name in self.items if fnmatch.fnmatchcase(name, pattern)]
            if not names:
                raise UserError(self._unknown(pattern))
            chosen |= {name: self.items[name] for name in names}
        return list(chosen.values())

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.items, n=3, cutoff=0.5)
        nearest = difflib.get_close_matches(name, self.items, n=len(self.items) or 1, cutoff=0)
        listed = f"there are: {few(nearest)}; `python -m bench {'study' if self.kind == 'study' else 'list'}` names all"
        own = "" if self.plugins else "; one of your own needs its --plugin-dir"
        hint = f"did you mean {' or '.join(near)}?" if near else f"{listed}{own}"
        named = [entry for entry in self.broken if Path(entry.origin).stem == name.replace("-", "_")]
        return unimported(named or self.broken, f"no {self.kind} is called {name!r}; {hint}")


class Victims(Registry[AnySpec]):
    """The victims, each under any defences: `NAME+noise=0.001+round=int8` names one as `NAME` does."""

    def match(self, patterns: Iterable[str], defences: Iterable[str] = ()) -> list[AnySpec]:
        """Return the victims that names or globs select, under the defences that these end with, then under others.

        Args:
            patterns: names or globs, with or without defences.
            defences: more of them, such as `noise=1e-3`.

        Raises:
            UserError: a pattern selects nothing, there is no such defence, or a victim cannot have it.
        """
        more = [parse(text) for text in defences]
        chosen: dict[str, AnySpec] = {}
        for pattern in patterns:
            name, *own = pattern.split(JOINT)
            specs = super().match([name])
            stack = [*map(parse, own), *more]
            chosen |= {spec.name: spec for spec in (defended(spec, stack) for spec in specs)}
        return list(chosen.values())

    def _unknown(self, name: str) -> str:
        trained, _, retraining = name.rpartition("@")
        if retraining.isdecimal() and trained in self.items:
            return f"no victim is called {name!r}; write {trained}, and `run` takes --victim-seeds {retraining}"
        return super()._unknown(name)

    def find(self, name: str) -> AnySpec | None:
        """Return the victim of exactly that name, None if there is none; `NAME@2` is its second retraining.

        Raises:
            UserError: the victim cannot have a defence that the name asks for.
        """
        trained, at, retraining = name.rpartition("@")
        if at and retraining.isdecimal():
            found = self.find(trained)
            return found.retrained(int(retraining)) if found is not None and found.training.kind != "released" else None
        plain, *own = name.split(JOINT)
        return defended(self.items[plain], [*map(parse, own)]) if plain in self.items else None


def attacks(plugin_dir: Path | None = None) -> Registry[type[Attack[Any]]]:
    """Return all attacks: those of `attacks/`, of installed packages, and of `plugin_dir`.

    Raises:
        UserError: `plugin_dir` is neither a folder nor a .py file; `victims` and `studies` raise it too.
    """
    registry: Registry[type[Attack[Any]]] = Registry("attack")

    def collect(module: ModuleType, origin: str) -> None:
        for value in vars(module).values():
            own = inspect.isclass(value) and issubclass(value, Attack) and value.__module__ == module.__name__
            if own and not inspect.isabstract(value):
                require_declared(value)
                registry.add(value.name, value, origin)

    _scan(registry, "attacks", collect, plugin_dir)
    return registry


def random_control(attacks: Registry[type[Attack[Any]]]) -> type[Attack[Any]] | None:
    """Return the attack that is the null control of random candidates, None if there is none."""
    controls = (kind for kind in attacks.items.values() if kind.control and issubclass(kind.Params, ControlParams))
    return next(controls, None)


def victims(plugin_dir: Path | None = None) -> Victims:
    """Return all victims: the `VICTIMS` of the files of `victims/zoo/`, of installed packages, and of `plugin_dir`."""
    registry = Victims("victim")

    def collect(module: ModuleType, origin: str) -> None:
        for spec in _listed(module, "VICTIMS", get_args(AnySpec)):
            registry.add(spec.name, spec, origin)

    _scan(registry, "victims.zoo", collect, plugin_dir)
    return registry


def released_model(victims: Victims, file: Path, name: str, defences: Iterable[str] = ()) -> VictimSpec:
    """Return the released model that a file describes, under defences.

    Args:
        victims: all that are known, those of the file among them.
        file: the file.
        name: which of its models, with or without defences; empty if it has one.
        defences: more of them, such as `round=int8`.

    Raises:
        UserError: it does not import, or describes none, or several, or none of that name, or the model cannot have
            such a defence.
    """
    for entry in victims.broken:
        if entry.origin == str(file):
            raise UserError(f"{file} does not import: {entry.reason}")
    own = [victims.items[known] for known, origin in victims.origins.items() if origin == str(file)]
    models = {spec.name: spec for spec in own if isinstance(spec, VictimSpec) and spec.training.kind == "released"}
    if not models:
        raise UserError(f"{file} describes no model of your own; `python -m bench new model NAME` writes one")
    plain = name.partition(JOINT)[0]
    if plain and plain not in models:
        raise UserError(f"{file} has no model {name!r}; there are: {', '.join(models)}")
    if not name and len(models) > 1:
        raise UserError(f"{file} describes {', '.join(models)}; name one with -v")
    (spec,) = victims.match([name or next(iter(models))], defences)
    assert isinstance(spec, VictimSpec)
    return spec


def studies(plugin_dir: Path | None = None) -> Registry[Study]:
    """Return all studies: the `STUDIES` of the files of `attacks/studies/`, of packages, and of `plugin_dir`."""
    registry: Registry[Study] = Registry("study")

    def collect(module: ModuleType, origin: str) -> None:
        for study in _listed(module, "STUDIES", (Study,)):
            registry.add(study.name, study, origin)

    _scan(registry, "attacks.studies", collect, plugin_dir)
    return registry


def unimported(entries: Sequence[Broken], unknown: str) -> str:
    """Return a message on an unknown name, behind the first file that does not import if there is one."""
    return "; ".join([*(f"{entry.origin} does not import: {entry.reason}" for entry in entries[:1]), unknown])


def broken(*registries: Registry[Any]) -> list[Broken]:
    """Return what did not import, each file once."""
    return list(dict.fromkeys(entry for registry in registries for entry in registry.broken))


def _listed(module: ModuleType, name: str, kinds: tuple[type, ...]) -> Iterator[Any]:
    """Yield what a file lists under a name, nothing if it does not have it.

    Raises:
        TypeError: that is no list or tuple, or holds something of another kind.
    """
    listed = vars(module).get(name, ())
    if not isinstance(listed, list | tuple):
        raise TypeError(f"{name} is {listed!r}; expected a tuple, such as `{name} = (one,)`")
    for item in listed:
        if not isinstance(item, kinds):
            raise TypeError(f"{name} holds {item!r}, which is no {' or '.join(kind.__name__ for kind in kinds)}")
        yield item


def _scan(registry: Registry[Any], package: str, collect: Collect, extra: Path | None) -> None:
    if extra is not None and not extra.is_dir() and not (extra.is_file() and extra.suffix == ".py"):
        wrong = f"{extra} is no .py file" if extra.exists() else f"the plug-in folder {extra} does not exist"
        raise UserError(f"{wrong}; give --plugin-dir a folder of .py files, or one")
    for path in sorted((ROOT / package.replace(".", "/")).glob("*.py")):
        if path.stem != "__init__":
            name = f"{package}.{path.stem}"
            _try(registry, str(path.relative_to(ROOT)), partial(importlib.import_module, name), collect)
    loads: dict[str, Callable[[], ModuleType]] = {}
    for point in entry_points(group=f"bench.{'studies' if registry.kind == 'study' else registry.kind + 's'}"):
        loads[f"entry point {point.name} ({point.value})"] = point.load
    registry.plugins = extra is not None
    plugins = [] if extra is None else [extra] if extra.is_file() else sorted(extra.glob("*.py"))
    loads |= {str(path): partial(_load, path) for path in plugins}
    refused = not_importable(loads)
    for origin, load in loads.items():
        if origin in refused:
            registry.broken.append(Broken(origin, refused[origin]))
        else:
            _try(registry, origin, load, collect)


def _try(registry: Registry[Any], origin: str, load: Callable[[], ModuleType], collect: Collect) -> None:
    try:
        collect(load(), origin)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise anything, and must cost only itself
        reason = str(error) if isinstance(error, UserError) else describe(error)
        registry.broken.append(Broken(origin, one_line(reason)))


def _load(path: Path) -> ModuleType:
    """Return a plug-in file as a module under a name of its own; a process imports it once."""
    name = f"bench_plugin_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
