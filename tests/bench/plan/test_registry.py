"""Finding attacks and victims."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from bench.plan import registry
from bench.plan.options import matches
from bench.plan.registry import ROOT, Registry
from victims.errors import UserError

VICTIM = "VictimSpec(name={!r}, dataset='faces', n=4)"


def filled() -> Registry[int]:
    numbers: Registry[int] = Registry("number")
    for value, name in enumerate(("two-b", "one", "two-a", "three")):
        numbers.add(name, value, "here")
    return numbers


def victim_file(path: Path, *names: str) -> None:
    specs = "".join(f"{VICTIM.format(name)}," for name in names)
    path.write_text(f"from victims.spec import VictimSpec\nVICTIMS = ({specs})\n")


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (["one"], [1]),
        (["*"], [0, 1, 2, 3]),
        (["two-*"], [0, 2]),
        (["three", "one"], [3, 1]),
        (["one", "one", "*e"], [1, 3]),
        (["t??ee"], [3]),
        (["two-[a]"], [2]),
    ],
)
def test_names_and_globs_select_in_the_order_asked_for(patterns: list[str], chosen: list[int]) -> None:
    assert filled().match(patterns) == chosen


@pytest.mark.parametrize("pattern", ["onee", "ONE", "two", "", "x*"])
def test_what_selects_nothing_is_an_error(pattern: str) -> None:
    with pytest.raises(UserError, match=f"no number is called '{pattern.replace('*', '[*]')}'"):
        filled().match(["one", pattern])


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(UserError, match=r"did you mean two-a or two-b\?|did you mean two-b or two-a\?"):
        filled().match(["two-c"])
    with pytest.raises(UserError, match=r"there are: [^,]*, [^,]*, [^,]* and 1 more; `python -m bench list` names all"):
        filled().match(["xyzzy"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("version = '2'", "Odd.version: Input should be a valid integer"),
        ("paper = None", "Odd.paper: Input should be a valid string"),
        ("summary = 3", "Odd.summary: Input should be a valid string"),
        ("needs = None", "Odd.needs: Input should be a valid frozenset"),
        ("Params = dict", "Odd.Params: Input should be a subclass of AttackParams"),
        ("variants = ['paper']", "Odd.variants: Input should be a valid dictionary"),
        ("search_spaces = {'': {'lr': (1, 2)}}", "Odd.search_spaces at lr: Input should be an instance of Range"),
        ("audits = 'paper'", "Odd.audits: Input should be a valid tuple"),
        ("resources = (1.0, 1.0, 0)", "Odd.resources: Input should be an instance of Resources"),
        ("class Params(AttackParams): size: int", "Odd.Params: size needs a default that works"),
    ],
)
def test_an_attack_whose_declarations_are_of_a_wrong_type_costs_only_itself(
    tmp_path: Path, line: str, reason: str
) -> None:
    (tmp_path / "odd.py").write_text(
        "from attacks.base import *\n"
        "class Odd(Attack):\n"
        "    name, summary, needs, Params = 'odd', 'odd', frozenset(), AttackParams\n"
        f"    {line}\n"
        "    def reconstruct(self, view, ctx): ...\n"
    )
    found = registry.attacks(tmp_path)
    (broken,) = found.broken
    assert "odd" not in found.items and "kkt" in found.items
    assert f"TypeError: {reason}" in broken.reason


@pytest.mark.parametrize("name", ["VICTIMS", "STUDIES"])
def test_what_is_no_list_costs_only_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd.py").write_text(f"{name} = 3\n")
    (broken,) = (registry.victims if name == "VICTIMS" else registry.studies)(tmp_path).broken
    assert f"TypeError: {name} is 3; expected a tuple" in broken.reason


def test_a_file_that_does_not_import_is_named_where_a_name_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UserError, match=r"^[^;]*own.py does not import: ModuleNotFoundError.*did you mean .*[?]$"):
        registry.victims(tmp_path).match(["faces-mlp-21"])
    (tmp_path / "own.py").write_text("")
    with pytest.raises(UserError, match=r"did you mean .*[?]$"):
        registry.victims(tmp_path).match(["faces-mlp-21"])


def test_where_no_name_is_near_the_folder_of_own_files_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"; one of your own needs its --plugin-dir$") as raised:
        registry.victims().match(["xyzzy"])
    assert len(str(raised.value)) < 250, "some hundred names are no help"
    with pytest.raises(UserError, match=r"there are: .* more; `python -m bench list` names all$"):
        registry.attacks(tmp_path).match(["xyzzy"])


def test_a_users_mistake_in_a_file_stands_without_the_name_of_its_exception(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from victims.errors import UserError\nraise UserError('no weights\\nthere')\n")
    (broken,) = registry.victims(tmp_path).broken
    assert broken.reason == "no weights there"


def test_a_name_is_taken_once() -> None:
    numbers = filled()
    numbers.add("one", 7, "here")  # the same file, loaded again
    with pytest.raises(ValueError, match="already taken by here"):
        numbers.add("one", 8, "there")
    assert numbers.items["one"] == 7


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".a", "a b", "a\nb", "[a]", "-a"])
def test_a_name_can_be_part_of_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="holds more than letters"):
        filled().add(name, 1, "here")


def test_every_shipped_file_imports_and_holds_its_namesake() -> None:
    found = registry.attacks()
    assert not registry.broken(found, registry.victims())
    for path in (ROOT / "attacks").glob("*.py"):
        if path.stem not in ("__init__", "base", "context", "knowledge", "search_space"):
            assert found.origins[path.stem.replace("_", "-")] == f"attacks/{path.name}"


def test_shipped_come_first_then_entry_points_then_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "plugins").mkdir()
    victim_file(tmp_path / "installed" / "some.py", "installed-mlp-4")
    victim_file(tmp_path / "plugins" / "b.py", "last-mlp-4")
    victim_file(tmp_path / "plugins" / "a.py", "first-mlp-4", "faces-mlp-20")

    def load() -> ModuleType:
        return registry._load(tmp_path / "installed" / "some.py")

    def points(group: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="some", value="some.module", load=load)] if group == "bench.victims" else []

    monkeypatch.setattr(registry, "entry_points", points)
    found = registry.victims(tmp_path / "plugins")

    shipped = list(registry.victims().items)[:-1]
    assert list(found.items) == [*shipped, "installed-mlp-4", "first-mlp-4", "last-mlp-4"]
    assert found.origins["installed-mlp-4"] == "entry point some (some.module)"
    assert found.origins["faces-mlp-20"].startswith("victims/zoo/")
    (broken,) = found.broken
    assert broken.origin == str(tmp_path / "plugins" / "a.py")
    assert "already taken" in broken.reason


def test_an_entry_point_that_fails_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> ModuleType:
        raise ImportError("gone\nfor good")

    point = SimpleNamespace(name="lost", value="lost.attacks", load=load)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    found = registry.attacks()

    assert "kkt" in found.items
    assert [(entry.origin, entry.reason) for entry in found.broken] == [
        ("entry point lost (lost.attacks)", "ImportError: gone for good")
    ]


def test_a_broken_file_is_named_once_and_explains_an_unknown_name(tmp_path: Path) -> None:
    (tmp_path / "my_attack.py").write_text("1 / 0\n")
    attacks, victims = registry.attacks(tmp_path), registry.victims(tmp_path)

    (entry,) = registry.broken(attacks, victims)
    assert entry.reason == "ZeroDivisionError: division by zero"
    with pytest.raises(UserError, match=r"my_attack\.py does not import: ZeroDivisionError"):
        attacks.match(["my-attack"])


def test_a_plugin_is_executed_once_a_process(tmp_path: Path) -> None:
    victim_file(tmp_path / "one.py", "one-mlp-4")
    with (tmp_path / "one.py").open("a") as file:
        file.write(f"open({str(tmp_path / 'log')!r}, 'a').write('x')\n")
    registry.attacks(tmp_path)
    registry.victims(tmp_path)

    assert (tmp_path / "log").read_text() == "x"


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        victim_file(tmp_path / name / "same.py", f"{name}-mlp-4")

    assert "a-mlp-4" in registry.victims(tmp_path / "a").items
    assert "b-mlp-4" in registry.victims(tmp_path / "b").items


def test_imported_and_abstract_classes_are_no_attacks(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(
        "from attacks.base import Attack\nfrom attacks.kkt import KKT\nclass Base(Attack):\n  name = 'base'\n"
    )
    found = registry.attacks(tmp_path)

    assert list(found.items) == list(registry.attacks().items)
    assert not found.broken


def test_a_retraining_has_a_name() -> None:
    victims = registry.victims()
    plain = victims.items["digits-mlp-20-c10-sgd"]
    assert victims.find("digits-mlp-20-c10-sgd@2") == plain.retrained(2)
    defended = victims.find("digits-mlp-20-c10-sgd+noise=1e-3@2")
    assert defended is not None and (defended.name, defended.seed) == ("digits-mlp-20-c10-sgd+noise=0.001@2", 3)
    assert victims.find("digits-mlp-20-c10-sgd@x") is victims.find("nobody@2") is None


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("a", {"a"}),
        ("a*", {"a", "a+noise=0.001", "a+noise=0.001@2", "a+noise=0.001+round=int8"}),
        ("a+noise=1e-3", {"a+noise=0.001"}),
        ("a+noise=1e-3@2", {"a+noise=0.001@2"}),
        ("a+noise=*", {"a+noise=0.001", "a+noise=0.001@2", "a+noise=0.001+round=int8"}),
        ("a+noise=*@2", {"a+noise=0.001@2"}),
        ("*+noise=1e-3+round=int8", {"a+noise=0.001+round=int8"}),
    ],
)
def test_a_stored_name_is_meant_however_its_defence_is_written(pattern: str, meant: set[str]) -> None:
    names = ("a", "a+noise=0.001", "a+noise=0.001@2", "a+noise=0.001+round=int8")
    assert {name for name in names if matches(name, [pattern])} == meant


def test_a_pattern_with_no_defence_is_an_error() -> None:
    with pytest.raises(UserError, match="no defence is called"):
        matches("a", ["a+nose=1"])


def test_the_plugin_folder_must_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    find: Callable[..., object]
    for find in (registry.attacks, registry.victims):
        for name, words in {"file": "file is no .py file", "absent": "absent does not exist"}.items():
            with pytest.raises(UserError, match=words):
                find(tmp_path / name)


def test_the_harness_names_no_attack_and_no_victim() -> None:
    """`random` is also how `tune` samples; a docstring, which is a help text or an example, may name them."""
    names = {*registry.attacks().items, *registry.victims().items} - {"random"}
    for path in sorted((ROOT / "bench").rglob("*.py")):
        if "templates" not in path.parts:
            nodes = [*ast.walk(ast.parse(path.read_text()))]
            told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            texts = {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in told}
            assert not texts & names, path
