"""Verbs that show what is there, or join it: list, show, compare, report, merge, privacy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bench.cli.app import (
    AttackNames,
    DataDir,
    PluginDir,
    ReadResults,
    ResultsDir,
    TablePath,
    VictimNames,
    app,
    complain,
    named_folder,
)
from bench.terminal.console import printer, say
from bench.terminal.interrupts import work_begins
from victims.cache import trained_card
from victims.defences.spec import JOINT
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack


@app.command("list")
def list_(
    data_dir: DataDir = None,
    plugin_dir: PluginDir = None,
    picture: Annotated[
        Path | None,
        typer.Option(parser=named_folder, metavar="PATH", help="Draw what each attack must know, as a PNG; no list."),
    ] = None,
) -> None:
    """List attacks, grouped by who can mount them, and victims, and files that do not import."""
    from bench.cli import tables
    from bench.plan import registry
    from bench.plan.options import choose_data_dir

    console = printer()
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    if picture is not None:
        draw(attacks.items.values(), picture)
        return
    console.print(tables.attack_table(attacks))
    console.print()
    say(tables.victim_table(victims, choose_data_dir(data_dir)))
    for broken in registry.broken(attacks, victims):
        say(f"does not import: {broken.origin}: {broken.reason}")


def draw(attacks: Iterable[type[Attack[Any]]], picture: Path) -> None:
    """Write the picture of the knowledge lattice, and say where it is.

    Raises:
        UserError: the file does not end in .png, is a result, or cannot be written.
    """
    from bench.publish.report.lattice_picture import draw_lattice
    from bench.store.overwriting import require_no_result

    work_begins()
    if picture.suffix != ".png":
        raise UserError(f"--picture {picture}: it is a PNG; name a file that ends in .png")
    require_no_result(picture, picture.parent / "knowledge.png", option="--picture")
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw_lattice(attacks, picture, say)
    except FileExistsError:
        raise UserError(f"--picture {picture}: {picture.parent} is no folder; name another file") from None
    except OSError as error:
        raise UserError(f"--picture {picture} cannot be written ({error.strerror}); name another file") from None
    say(str(picture))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="An attack, victim, metric, protocol, column, or the start of a run id.")],
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Print an attack's parameters, a victim's card, a metric, a scoring protocol, a column of tables, or a run."""
    from bench.cli import tables
    from bench.plan import registry
    from bench.plan.options import choose_data_dir
    from bench.store.folders import Store

    console = printer()
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    if name in attacks.items:
        console.print(tables.attack_card(attacks.items[name], attacks.origins[name]))
    elif (spec := victims.find(name)) is not None:
        data = choose_data_dir(data_dir)
        console.print(tables.victim_card(spec, victims.origins[spec.described.name.partition(JOINT)[0]], data))
        if spec.setting == "dataset" and trained_card(spec, data):
            from bench.plan.exposed import exposed

            console.print()
            console.print(tables.exposure_card(*exposed(spec, data, attacks)))
    elif (card := tables.scoring_card(name)) is not None:
        console.print(card)
    elif (folder := Store(results_dir).resolve(name)) is not None:
        console.print(tables.run_card(folder))
    else:
        known = [*attacks.items, *victims.items, *tables.scoring_names()]
        near = " or ".join(difflib.get_close_matches(name, known))
        hint = f"did you mean {near}?" if near else "`python -m bench list` names attacks and victims"
        if not near and plugin_dir is None:
            hint += "; one of your own needs its --plugin-dir"
        unknown = f"{name!r} is no attack, victim, metric, protocol or column, and no run in {results_dir}; {hint}"
        raise UserError(registry.unimported(registry.broken(attacks, victims), unknown))


@app.command()
def compare(
    old: TablePath,
    new: TablePath,
    format_: Annotated[
        Literal["text", "markdown", "csv"], typer.Option("--format", help="For a terminal, a pull request, a program.")
    ] = "text",
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit status 1 if a cell got worse; for CI.")
    ] = False,
) -> None:
    """Print what changed between two tables, cell by cell, averaged over seeds, how surely and why.

    Leaderboards, tables of runs and results folders of any schema are compared with each other. What only one holds is
    listed; of the new table's cells, how the gain stands beside the old table's attacks on the same victim; of many
    cells that only the old table holds, how many there are of each attack (all with --format markdown or csv).

    A cell got worse if the 95% interval of the change of n_good, of the gain or of n_good_unique lies below 0; if
    n_good fell and has no interval; if the gain was surely above 0 and is no longer; or if every run of it fails now. A
    change under other metrics or another version of the protocol is no regression, nor is a fall of what is at or below
    its null control in both, or a cell that only the old table holds.

    Where the tables hold different trainings of a victim, those that both have are compared, by n_good, n_good_unique
    and the gain, as far as the tables tell them image by image. Without one the cell is not comparable.
    """
    from bench.cli import comparisons
    from bench.publish.compare import compare as compare_tables

    comparison = compare_tables(old, new)
    if format_ == "text" and len(comparison.changed):
        printer().print(comparisons.table(comparison))
    say({"text": comparisons.text, "markdown": comparisons.markdown, "csv": comparisons.csv}[format_](comparison))
    raise typer.Exit(1 if fail_on_regression and comparison.regressions else 0)


@app.command()
def merge(
    folders: Annotated[
        list[Path], typer.Argument(parser=named_folder, metavar="PATH", help="Two or more results folders.")
    ],
    output: Annotated[
        Path, typer.Option(parser=named_folder, metavar="PATH", help="The new results folder that holds all of them.")
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Take a later folder's runs in the place of the same earlier ones.")
    ] = False,
) -> None:
    """Join results folders into a new one; they stay as they are.

    What two of them hold differently is refused: a run, a row, a study, or a victim's weights under one definition. The
    summary of the searches is made again; what `privacy` writes is left out where it differs, for it is of some runs.
    With --replace the runs of later folders are taken; of a training with other weights, only all its runs.
    """
    from bench.experiments.tuning.table import write_summary
    from bench.experiments.tuning.verb import TUNE
    from bench.publish.leaderboard import unscored
    from bench.publish.merge import merge as merge_folders
    from bench.store.folders import Store

    work_begins()
    rows, files = merge_folders(folders, output, replace)
    write_summary(output / TUNE, complain)
    say(f"{output}: {rows} rows of {len(folders)} folders, {files} files")
    if line := unscored(Store(output)):
        complain(line)


@app.command()
def report(
    format_: Annotated[
        Literal["html", "markdown", "latex", "csv"],
        typer.Option("--format", help="A page to look at, or the boards as tables."),
    ] = "html",
    across_knowledge: Annotated[
        bool, typer.Option("--across-knowledge", help="One board a victim, whatever its attacks were told.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(parser=named_folder, metavar="PATH", help="File to write; report.html in the results folder."),
    ] = None,
    results_dir: ReadResults = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Write a report of a results folder: boards, figures, pictures, failures, in one file that loads nothing.

    It reads runs.csv and what is there of the run folders; it needs no data set, no training and no network. Attacks
    and victims of your own are described if --plugin-dir names their folder.
    """
    from bench.plan import registry
    from bench.publish.leaderboard import unscored
    from bench.publish.parameters import knowing
    from bench.publish.report import write_report
    from bench.store.folders import Store
    from bench.store.remote import is_copy

    if output is None and is_copy(results_dir):
        raise UserError("results in object storage are only read; name the file to write with --output")
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    for broken in registry.broken(attacks, victims):
        complain(f"does not import: {broken.origin}: {broken.reason}")
    work_begins()
    with knowing(attacks, victims):
        say(str(write_report(results_dir, output, format_, across_knowledge=across_knowledge)))
    if not is_copy(results_dir) and (line := unscored(Store(results_dir))):
        complain(line)


@app.command()
def privacy(
    attack: AttackNames = None,
    victim: VictimNames = None,
    threshold: Annotated[float, typer.Option(help="Mean squared error up to which an attack succeeds.")] = 0.01,
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Set stored runs of private victims beside the bounds on any attack; writes privacy.csv and privacy.png."""
    from bench.plan import registry
    from bench.plan.options import choose_data_dir, matches
    from bench.store.folders import Store

    if not threshold > 0:
        raise UserError(f"--threshold {threshold:g} must be positive: a mean squared error, such as 0.01")
    victims = registry.victims(plugin_dir)

    from bench.experiments.privacy import privacy_table, write_privacy

    store = Store(results_dir)
    records = [run for run in store.attacked() if matches(run.attack, attack) and matches(run.victim, victim)]
    table = privacy_table(records, store, victims, choose_data_dir(data_dir), threshold)
    shown = table[
        ["attack", "variant", "victim", "epsilon", "test_accuracy", "success", "kappa", "bound_gaussian", "bound_zcdp"]
    ]
    say(shown.to_string(index=False, float_format="%.3g"))
    work_begins()
    for path in write_privacy(table, results_dir):
        say(f"  {path}")
