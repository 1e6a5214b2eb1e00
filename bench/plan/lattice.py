"""The knowledge lattice: what each attack must know, ordered by who has it and by inclusion. Imports no torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from attacks.base import Attack, Knowledge, Threat, threat_of
from bench.plan.options import attack_params
from bench.terminal.text import describe, variant_name

NOBODY = "controls: they attack nothing"
"""The heading of attacks whose threat is None."""


@dataclass(frozen=True)
class Node:
    """A set of knowledge, and the attacks that need just that.

    Attributes:
        threat: who has it.
        knowledge: the set.
        attacks: attack and variant, as `kkt-delta:seed`; a variant only where it needs another set than the defaults.
    """

    threat: Threat
    knowledge: frozenset[Knowledge]
    attacks: tuple[str, ...]

    @property
    def reach(self) -> frozenset[Knowledge]:
        """The set, with the logits where weights and architecture compute them."""
        computes = {Knowledge.ARCHITECTURE, Knowledge.WEIGHTS} <= self.knowledge
        return self.knowledge | {Knowledge.LOGITS} if computes else self.knowledge


def nodes(attacks: Iterable[type[Attack[Any]]], left_out: Callable[[str], object] = lambda line: None) -> list[Node]:
    """Return the sets of knowledge that attacks need, the attacker with least at hand first, smaller sets first.

    Controls, and variants that ask an oracle, are left out.

    Args:
        attacks: what there is.
        left_out: told, in a line, which attack cannot say what it needs, and why.
    """
    needing: dict[tuple[Threat, frozenset[Knowledge]], list[str]] = defaultdict(list)
    order = list(Threat)
    for kind in attacks:
        for variant in ("", *kind.variants):
            name = variant_name(kind.name, variant)
            try:
                attack = kind(attack_params(kind, variant, {}))
                threat, knowledge = attack.threat, attack.knowledge
                alike = variant and knowledge == kind(attack_params(kind, "", {})).knowledge
            except Exception as error:  # a plug-in's own methods, which must cost only itself
                left_out(f"{name} cannot say what it needs to know: {describe(error)}")
                continue
            if threat is not None and not alike:
                needing[threat, knowledge].append(name)
    found = [Node(threat, knowledge, tuple(sorted(names))) for (threat, knowledge), names in needing.items()]
    return sorted(found, key=lambda node: (order.index(node.threat), len(node.knowledge), node.attacks))


def by_threat(attacks: Iterable[type[Attack[Any]]]) -> dict[Threat | None, list[type[Attack[Any]]]]:
    """Return the attacks by who can mount them with their defaults, the one with least at hand first, controls last."""
    order: list[Threat | None] = [*Threat, None]
    groups: dict[Threat | None, list[type[Attack[Any]]]] = {threat: [] for threat in order}
    for kind in attacks:
        groups[None if kind.control else threat_of(kind.needs)].append(kind)
    return {threat: sorted(kinds, key=lambda kind: kind.name) for threat, kinds in groups.items() if kinds}


def covers(found: Iterable[Node]) -> list[tuple[Node, Node]]:
    """Return the pairs of a node and one that needs more, with none between them: the edges of the Hasse diagram."""
    every = list(found)
    above = {node: [other for other in every if node.reach < other.reach] for node in every}
    return [
        (node, other)
        for node, larger in above.items()
        for other in larger
        if not any(node.reach < between.reach < other.reach for between in every)
    ]
