"""What `list`, `show` and `check` print."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import markup
from rich.table import Table

from attacks.base import Attack
from bench.plan.lattice import NOBODY, by_threat
from bench.plan.registry import Registry
from bench.store.file_names import RECORD
from bench.store.records import COLUMNS, require_known_schema
from bench.terminal.text import lines
from victims.cache import trained_card
from victims.errors import UserError
from victims.informed.spec import AnySpec

if TYPE_CHECKING:
    from bench.check.claims import ContractClaim
    from bench.plan.prospects import Prospect
    from victims.exposure.card import Exposure


def escape(text: str) -> str:
    """Return foreign text for a cell: line breaks stay; markup, and what steers a terminal, is escaped."""
    return markup.escape(lines(text))


def attack_table(attacks: Registry[type[Attack[Any]]]) -> Table:
    """Return the table of attacks: name, summary, what each needs to know, paper; grouped by who can mount them."""
    table = filled_table(("attack", "what it does", "needs to know", "variants", "paper"))
    for threat, group in by_threat(attacks.items.values()).items():
        table.add_section()
        table.add_row("", f"[bold]{escape(str(threat or NOBODY))}[/bold]")
        for attack in group:
            table.add_row(
                attack.name,
                escape(attack.summary),
                escape(", ".join(sorted(attack.needs))),
                escape(", ".join(attack.variants)),
                escape(attack.paper),
            )
    return table


def victim_table(victims: Registry[AnySpec], data_dir: Path | None) -> str:
    """Return the table of victims, a line each: name, dataset, n, architecture, training, and whether it is trained.

    There are hundreds: `tabulate` takes a tenth of the time that `rich` does.
    """
    from tabulate import tabulate

    rows = [
        (name, spec.dataset, spec.n, spec.architecture.label, spec.training.label, _trained(spec, data_dir))
        for name, spec in victims.items.items()
    ]
    return tabulate(rows, ["victim", "dataset", "n", "architecture", "training", "trained"], disable_numparse=True)


def todo_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return the runs of a plan, what is to be done for each, and why."""
    return filled_table(("run", "to do", "why"), rows)


def attack_card(attack: type[Attack[Any]], origin: str) -> Table:
    """Return all that is declared of one attack, with its parameters' defaults."""
    rows: list[tuple[str, object]] = [
        ("attack", attack.name),
        ("version", attack.version),
        ("file", origin),
        ("what it does", attack.summary),
        ("paper", attack.paper),
        ("needs to know", ", ".join(sorted(attack.needs))),
    ]
    for name, field in attack.Params.model_fields.items():
        rows.append((f"--set {name}=", field.get_default(call_default_factory=True)))
    rows += [(f"--variant {variant}", json.dumps(values)) for variant, values in attack.variants.items()]
    for variant, ranges in attack.search_spaces.items():
        spans = (f"{name} {span.low:g} to {span.high:g}{' (log)' * span.log}" for name, span in ranges.items())
        rows.append((f"tune{variant and f' --variant {variant}'}", ", ".join(spans)))
    described = inspect.getdoc(attack.Params) if attack.Params.model_fields else ""
    return filled_table(("item", "value"), [*rows, *([("parameters", described)] if described else [])])


def victim_card(spec: AnySpec, origin: str, data_dir: Path | None) -> Table:
    """Return a victim's spec and, if it is trained, its card."""
    described = {"file": origin, **spec.model_dump(), "recipe's version": spec.training.version}
    card = {name: value for name, value in trained_card(spec, data_dir).items() if name not in ("spec", "name")}
    return filled_table(("item", "value"), [*described.items(), *card.items()])


def exposure_card(card: Exposure, found: Iterable[Prospect]) -> Table:
    """Return what a network gives away at a look, and which attacks can work on it."""
    from bench.plan.exposed import exposure_lines

    told = ((one.name, f"{one.outlook}{one.reason and ': '}{one.reason}") for one in found)
    return filled_table(("exposure", ""), [*exposure_lines(card), *told])


def run_card(folder: Path) -> Table:
    """Return one stored run's record, and where its files are.

    Raises:
        UserError: the record is damaged, or of a newer schema.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it holds no record")
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UserError(f"{path} cannot be read ({reason}); `run --force` makes it again") from None
    require_known_schema(record.get("schema_version"), path)
    columns = ((name, "" if value is None else value) for name, value in record.items())
    return filled_table(("column", "value"), [*columns, *(("file", path) for path in sorted(folder.iterdir()))])


def scoring_card(name: str) -> Table | None:
    """Return what defines a metric, a scoring protocol or a column, or None if there is none of that name."""
    from bench.publish.leaderboard import BOARD_COLUMNS
    from bench.publish.report.columns import glossary
    from bench.scoring import METRIC_SUITE, METRICS, PROTOCOLS

    found = METRICS.get(name) or PROTOCOLS.get(name)
    if found is None and name not in COLUMNS and name not in BOARD_COLUMNS:
        return None
    if found is None:
        table = f"{'runs' if name in COLUMNS else 'leaderboard'}.csv"
        return filled_table(("item", "value"), [(f"column of {table}", name), ("what it holds", glossary()[name])])
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    meanings = {name: (inspect.getdoc(value) or "") if callable(value) else value for name, value in fields.items()}
    return filled_table(("item", "value"), [*meanings.items(), ("metric suite", METRIC_SUITE)])


def scoring_names() -> list[str]:
    """Return the names of all metrics, protocols and columns."""
    from bench.publish.leaderboard import BOARD_COLUMNS
    from bench.scoring import METRICS, PROTOCOLS

    return list(dict.fromkeys([*METRICS, *PROTOCOLS, *COLUMNS, *BOARD_COLUMNS]))


def claims_table(claims: Sequence[ContractClaim]) -> Table:
    """Return what `check` found: a tick or a cross, the claim, and what to change."""
    rows = ((claim.subject, "✓" if claim.holds else "✗", claim.text, claim.trouble) for claim in claims)
    return filled_table(("of", "", "claim", "what to change"), rows)


def _trained(spec: AnySpec, data_dir: Path | None) -> str:
    try:
        return "yes" if trained_card(spec, data_dir) else "no"
    except UserError:
        return "no"


def filled_table(columns: Iterable[str], rows: Iterable[Iterable[object]] = ()) -> Table:
    """Return a table of foreign text whose long cells are folded."""
    table = Table(show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table
