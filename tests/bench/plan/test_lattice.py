"""The knowledge lattice: its sets, its edges, its picture, and the list that is grouped by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from skimage.io import imread

from attacks.base import Attack, AttackParams, Knowledge, Threat
from bench.plan import registry
from bench.plan.lattice import Node, by_threat, covers, nodes
from bench.publish.report.lattice_picture import COLOURS, draw_lattice

Bench = Callable[..., Any]
A, W, N, L, C = (
    Knowledge.ARCHITECTURE,
    Knowledge.WEIGHTS,
    Knowledge.N,
    Knowledge.LOGITS,
    Knowledge.CLASS_BALANCE,
)

MUTE = """
from typing import ClassVar
from attacks.base import Attack, AttackParams, Knowledge


class Mute(Attack):
    name, summary, Params, needs = "mute", "cannot say what it needs", AttackParams, frozenset({Knowledge.WEIGHTS})

    @property
    def knowledge(self):
        raise KeyError("cats")

    def reconstruct(self, view, ctx):
        raise NotImplementedError


class Misspelt(Attack):
    name, summary, Params, needs = "misspelt", "a variant is wrong", AttackParams, frozenset({Knowledge.WEIGHTS})
    variants: ClassVar = {"odd": {"nosuch": 1}}

    def reconstruct(self, view, ctx):
        raise NotImplementedError
"""


def node(name: str, *items: Knowledge) -> Node:
    return Node(Threat.WEIGHTS, frozenset(items), (name,))


def test_edges_lead_to_what_needs_more_with_nothing_between() -> None:
    small, middle, large, apart = node("s", A, W), node("m", A, W, N), node("l", A, W, N, C), node("a", A, W, C)
    found = {(low.attacks[0], high.attacks[0]) for low, high in covers([large, small, apart, middle])}
    assert found == {("s", "m"), ("s", "a"), ("m", "l"), ("a", "l")}


def test_weights_and_architecture_compute_the_logits() -> None:
    asks, reads = node("asks", L, C), node("reads", A, W, C)
    assert covers([asks, reads]) == [(asks, reads)]
    assert covers([asks, node("blind", W, C)]) == []


def test_every_attack_is_at_one_place_and_a_variant_where_it_needs_another_set() -> None:
    attacks = registry.attacks().items
    place = {name: found for found in nodes(attacks.values()) for name in found.attacks}
    assert {name for name in place if ":" not in name} == {name for name, kind in attacks.items() if not kind.control}
    for name, found in place.items():
        kind, _, variant = name.partition(":")
        attack: Attack[Any] = attacks[kind](attacks[kind].Params(**attacks[kind].variants.get(variant, {})))
        assert (found.knowledge, found.threat) == (attack.knowledge, attack.threat)
    assert place["kkt-delta:seed"].threat is Threat.SEED
    assert place["kkt-delta:uniform"].threat is Threat.WEIGHTS
    assert "kkt:paper" not in place
    assert [found.threat for found in nodes(attacks.values())] == sorted(
        (found.threat for found in nodes(attacks.values())), key=list(Threat).index
    )


def test_the_list_is_grouped_by_who_attacks(bench: Bench) -> None:
    lines = bench("list").out.splitlines()
    at = {
        word: next(index for index, line in enumerate(lines) if word in line)
        for word in (*Threat, "controls: they")
        if any(word in line for line in lines)
    }
    row = {
        name: next(index for index, line in enumerate(lines) if line.startswith(f"{name} "))
        for name in ("kkt", "kkt-delta", "glm", "random")
    }
    assert at[Threat.WEIGHTS] < row["kkt"] < at[Threat.START] < row["kkt-delta"] < at[Threat.RECORDS] < row["glm"]
    assert row["glm"] < at["controls: they"] < row["random"]
    groups = by_threat(registry.attacks().items.values())
    assert sum(map(len, groups.values())) == len(registry.attacks().items)


def test_the_picture_is_drawn_with_a_plug_in_and_grows_with_what_it_needs(bench: Bench, tmp_path: Path) -> None:
    ended = bench("list", "--picture", tmp_path / "new" / "a.png")
    assert (ended.status, ended.out.strip()) == (0, str(tmp_path / "new" / "a.png"))
    plain = imread(tmp_path / "new" / "a.png")

    class Asking(Attack[AttackParams]):
        name, summary, Params = "asking", "asks", AttackParams
        needs = frozenset({L})

        def reconstruct(self, view: Any, ctx: Any) -> Any:
            raise NotImplementedError

    draw_lattice([*registry.attacks().items.values(), Asking], tmp_path / "b.png")
    grown = imread(tmp_path / "b.png")
    assert plain.std() > 5
    assert grown.shape != plain.shape or (grown != plain).any()
    draw_lattice([], tmp_path / "none.png")


def test_a_plug_in_that_cannot_say_what_it_needs_is_named_and_costs_only_itself(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mute.py").write_text(MUTE)
    ended = bench("list", "--picture", tmp_path / "a.png", "--plugin-dir", tmp_path / "plugins")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "mute cannot say what it needs to know: KeyError: 'cats'",
        "misspelt:odd cannot say what it needs to know: UserError: variant odd of misspelt: nosuch=1: "
        "Extra inputs are not permitted",
        str(tmp_path / "a.png"),
    ]


def test_a_picture_that_cannot_be_written_is_told_in_one_line(bench: Bench, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "a.jpg", "ends in .png"), (tmp_path / "file" / "a.png", "is no folder")):
        (tmp_path / "file").write_text("")
        ended = bench("list", "--picture", path)
        assert ended.status == 2
        assert words in ended.err
        assert len(ended.err.strip().splitlines()) == 1


def test_each_attacker_has_a_colour_of_its_own() -> None:
    assert len(set(COLOURS)) == len(COLOURS) >= len(Threat)
