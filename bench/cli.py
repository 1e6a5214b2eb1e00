"""The verbs of the command line. torch is imported by those that compute, not by this module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from bench.options import ControlSet
from victims.errors import UserError

app = typer.Typer(
    help="Benchmark of training-data reconstruction attacks: how much of its training set does a network give away?",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DEFAULT_ATTACK = "kkt"
DEFAULT_VICTIM = "faces-mlp-100"
INTERRUPTED = 130
LOG_WIDTH = 200
"""Columns of a table that is not printed on a terminal, where nobody widens the window."""

PluginDir = Annotated[Path | None, typer.Option(help="Folder of .py files with more attacks and victims.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of NAME.npz files; BENCH_DATA_DIR if not given.")]
Controls = Annotated[ControlSet, typer.Option(help="Null controls: all, or quick ones that attack nothing.")]
ResultsDir = Annotated[Path, typer.Option(help="Where runs and tables go.")]


@app.command()
def run(
    attack: Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")] = None,
    victim: Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter of the attack, key=value; repeat.")] = None,
    variant: Annotated[str, typer.Option(help="Named parameter set of the attack, e.g. paper.")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds of the attack: 3, 0,2,5 or 0-4.")] = "0",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = ControlSet.ALL,
    force: Annotated[bool, typer.Option("--force", help="Run again what is stored.")] = False,
) -> None:
    """Train the victims that are not trained yet, attack them, score, and write runs.csv and leaderboard.csv.

    Without options: kkt on faces-mlp-100, which needs no download.
    """
    from bench import registry
    from bench.commands import run_plan
    from bench.options import attack_params, choose_data_dir, choose_device, parse_seeds, parse_settings
    from bench.store import Store

    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    chosen = attacks.match(attack or [DEFAULT_ATTACK])
    attacked = victims.match(victim or [DEFAULT_VICTIM])
    for broken in registry.broken(attacks, victims):
        _complain(f"does not import: {broken.origin}: {broken.reason}")
    settings = parse_settings(set_ or [])
    params = {kind.name: attack_params(kind, variant, settings) for kind in chosen}
    seed_list, data = parse_seeds(seeds), choose_data_dir(data_dir)
    store = Store(results_dir)
    store.require_writable()
    chosen_device = choose_device(device)

    from bench.plan import Run

    tuned_by = "user" if settings else variant or "default"
    plan = [
        Run(kind, params[kind.name], variant, tuned_by, spec, seed)
        for spec in attacked
        for kind in chosen
        for seed in seed_list
    ]
    control = next((kind for kind in attacks.items.values() if kind.control), None)
    twins = controls is ControlSet.ALL
    raise typer.Exit(run_plan(plan, store, control, data, chosen_device, twins=twins, force=force))


@app.command()
def score(
    attack: Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")] = None,
    victim: Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Score under this protocol, as rows of their own.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = ControlSet.ALL,
) -> None:
    """Score stored reconstructions again without attacking again, and write the tables.

    Without options: all stored runs, each under its own protocol.
    """
    from bench import registry
    from bench.commands import score_stored
    from bench.options import choose_data_dir, choose_device, matches
    from bench.scoring.protocols import protocol_named
    from bench.store import Store

    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    if protocol is not None:
        protocol_named(protocol)
    store = Store(results_dir)
    store.require_writable()
    records = [
        record for record in store.attacked() if matches(record.attack, attack) and matches(record.victim, victim)
    ]
    if not records:
        raise UserError(f"no stored run in {store.runs} is meant; `run` makes some, -a and -v choose among them")
    data, chosen = choose_data_dir(data_dir), choose_device(device)
    twins = controls is ControlSet.ALL
    raise typer.Exit(score_stored(records, store, attacks, victims, data, chosen, protocol=protocol, twins=twins))


@app.command("list")
def list_(data_dir: DataDir = None, plugin_dir: PluginDir = None) -> None:
    """List attacks and victims, and files that do not import."""
    from bench import registry, tables
    from bench.options import choose_data_dir

    console = Console()
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    console.print(tables.attack_table(attacks))
    console.print(tables.victim_table(victims, choose_data_dir(data_dir)))
    for broken in registry.broken(attacks, victims):
        console.print(f"does not import: {broken.origin}: {broken.reason}", style="red", markup=False, soft_wrap=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="An attack, victim, metric, protocol, or the start of a run id.")],
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Print one attack's parameters, one victim's card, one metric, one scoring protocol, or one run."""
    from bench import registry, tables
    from bench.options import choose_data_dir
    from bench.store import Store

    console = Console()
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    if name in attacks.items:
        console.print(tables.attack_card(attacks.items[name], attacks.origins[name]))
    elif name in victims.items:
        console.print(tables.victim_card(victims.items[name], victims.origins[name], choose_data_dir(data_dir)))
    elif (folder := Store(results_dir).resolve(name)) is not None:
        console.print(tables.run_card(folder))
    elif (card := tables.scoring_card(name)) is not None:
        console.print(card)
    else:
        raise UserError(
            f"{name!r} is no attack, victim, metric or protocol, and no run in {results_dir}; `python -m bench list` "
            "names attacks and victims"
        )


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="The runs.csv to compare against.")],
    new: Annotated[Path, typer.Argument(help="The runs.csv to compare.")],
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit status 1 if a cell got worse; for CI.")
    ] = False,
) -> None:
    """Print what changed between two runs.csv, cell by cell, averaged over seeds, how surely and why.

    A cell got worse if the 95% interval of the change of n_good lies below 0 (without an interval: if n_good fell), or
    if every run of it fails now. A change under other metrics is no regression.
    """
    from bench import tables
    from bench.compare import compare as compare_files
    from bench.ui import plural

    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    comparison = compare_files(old, new)
    if len(comparison.changed):
        console.print(tables.comparison_table(comparison))
    console.print(f"{plural(comparison.same, 'cell')} unchanged.")
    for title, names in (
        ("got worse", comparison.regressions),
        ("only in the old file", comparison.only_old),
        ("only in the new file", comparison.only_new),
    ):
        for cell in names:
            console.print(f"{title}: {cell}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if fail_on_regression and comparison.regressions else 0)


@app.command()
def report(
    format_: Annotated[
        Literal["html", "markdown", "latex", "csv"],
        typer.Option("--format", help="A page to look at, or the boards as tables."),
    ] = "html",
    across_knowledge: Annotated[
        bool, typer.Option("--across-knowledge", help="One board a victim, whatever its attacks were told.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="File to write; report.html in the results folder.")] = None,
    results_dir: ResultsDir = Path("results"),
) -> None:
    """Write a report of a results folder: boards, figures, pictures, failures, in one file that loads nothing.

    It reads runs.csv and what is there of the run folders; it needs no data set, no training and no network.
    """
    from bench.report import write_report

    path = write_report(results_dir, output, format_, across_knowledge=across_knowledge)
    Console().print(str(path), highlight=False, markup=False, soft_wrap=True)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="The study; without one they are listed.")] = "",
    smoke: Annotated[bool, typer.Option("--smoke", help="Few and cheap cells, to see that it works.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Run a study, several runs to be read together; its table and pictures go to RESULTS/studies/NAME."""
    from bench import registry
    from bench.options import choose_data_dir, choose_device

    studies = registry.studies(plugin_dir)
    if not name:
        for known in studies.items.values():
            text = f"{known.name}: {known.summary} ({known.paper}; {len(known.cells)} runs)"
            Console().print(text, highlight=False, markup=False, soft_wrap=True)
        return
    chosen = studies.match([name])[0]
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    data, chosen_device = choose_data_dir(data_dir), choose_device(device)

    from bench.study import run_study

    root = results_dir / "studies" / (f"{chosen.name}-smoke" if smoke else chosen.name)
    cells = chosen.smoke if smoke else chosen.cells
    raise typer.Exit(run_study(chosen, cells, attacks, victims, root, data, chosen_device))


@app.command()
def privacy(
    attack: Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")] = None,
    victim: Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")] = None,
    threshold: Annotated[float, typer.Option(help="Mean squared error up to which an attack succeeds.")] = 0.01,
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
) -> None:
    """Set stored runs of private victims beside the bounds on any attack; writes privacy.csv and privacy.png."""
    from bench import registry
    from bench.options import choose_data_dir, matches
    from bench.privacy import privacy_table, write_privacy
    from bench.store import Store

    if not threshold > 0:
        raise UserError(f"--threshold {threshold:g} must be positive: a mean squared error, such as 0.01")
    store = Store(results_dir)
    records = [run for run in store.attacked() if matches(run.attack, attack) and matches(run.victim, victim)]
    table = privacy_table(records, store, registry.victims(plugin_dir), choose_data_dir(data_dir), threshold)
    shown = table[
        ["attack", "variant", "victim", "epsilon", "test_accuracy", "success", "kappa", "bound_gaussian", "bound_zcdp"]
    ]
    console = Console()
    console.print(shown.to_string(index=False, float_format="%.3g"), highlight=False, markup=False, soft_wrap=True)
    for path in write_privacy(table, results_dir):
        console.print(f"  {path}", highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2, an interrupt exit status 130."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (UserError, typer.TyperException) as error:
        text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        _complain(f"bench: {text}")
        status = 2
    if status == INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        _complain("bench: interrupted; finished runs are stored")
    sys.exit(status)


def _complain(text: str) -> None:
    """Print one line on stderr, whatever the text holds."""
    line = " ".join(text.split())
    Console(stderr=True).print(line, style="red", highlight=False, markup=False, soft_wrap=True)
