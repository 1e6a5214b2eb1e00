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

PluginDir = Annotated[Path | None, typer.Option(help="Folder of .py files with more attacks and victims, or one file.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of NAME.npz files; BENCH_DATA_DIR if not given.")]
Controls = Annotated[ControlSet, typer.Option(help="Null controls: all, or quick ones that attack nothing.")]
ResultsDir = Annotated[Path, typer.Option(help="Where runs and tables go.")]


@app.command()
def run(
    attack: Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")] = None,
    victim: Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter of the attack, key=value; repeat.")] = None,
    variant: Annotated[str | None, typer.Option(help="Named parameter set of the attack, e.g. paper.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the attack: 3, 0,2,5 or 0-4.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a plan; other options change it.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="The plan's own small version, to see that it works.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = ControlSet.ALL,
    budget: Annotated[str, typer.Option(help="What an attack may spend: 90s, 10m, 1.5h or 500steps.")] = "",
    jobs: Annotated[
        int, typer.Option(min=0, envvar="BENCH_JOBS", help="Runs at a time, each in its own process; 0: in this one.")
    ] = 1,
    memory: Annotated[
        str, typer.Option(help="What each process may use, e.g. 8g; an equal share of what is free.")
    ] = "",
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="local: processes here; ray: tasks on a Ray cluster.")
    ] = "local",
    ray_address: Annotated[str, typer.Option(help="host:port of the cluster; RAY_ADDRESS, or a new one here.")] = "",
    pdb: Annotated[bool, typer.Option("--pdb", help="In this process, with a debugger where an attack fails.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again what is stored.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed.")] = False,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Run nothing; show what is stored.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Run nothing; say what would be run, and why.")] = False,
) -> None:
    """Train the victims that are not trained yet, attack them, score, and write runs.csv and leaderboard.csv.

    Without options: kkt on faces-mlp-100, which needs no download; on released weights, your own model's, every attack.
    What is stored and unchanged is not run again, and what was interrupted goes on where it was. A failure is stored
    too: it is run again when its attack's source, its parameters, victim or budget change, when it lacked memory or
    data, and with --retry-failed.
    """
    from bench import registry
    from bench.config import PlanFile, Section, planned, read_plan
    from bench.executors import server
    from bench.options import choose_data_dir, choose_device, parse_budget, parse_memory, parse_settings
    from bench.store import Store

    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    attacked = victims.match(victim or [DEFAULT_VICTIM])
    audit = any(spec.training.kind == "released" for spec in attacked)
    asked = PlanFile(plan=(Section(attack=("*",) if audit else (DEFAULT_ATTACK,), victim=(DEFAULT_VICTIM,)),))
    if config is not None:
        asked = read_plan(config, smoke)
    elif smoke:
        raise UserError("--smoke shrinks the plan of a file; name one with --config")
    given = {"attack": attack, "victim": victim, "set": parse_settings(set_ or []), "variant": variant, "seeds": seeds}
    sections = (section.changed(given) for section in asked.plan)
    plan = planned(sections, attacks, victims, parse_budget(budget))
    for broken in registry.broken(attacks, victims):
        _complain(f"does not import: {broken.origin}: {broken.reason}")
    data, share = choose_data_dir(data_dir), parse_memory(memory) if memory else None
    Store(results_dir).require_writable()
    if jobs and executor == "local" and not (pdb or only_cached or dry_run):
        server.start(server.threads_each(jobs))  # it imports torch while this process does
    chosen_device = choose_device(asked.device if device is None else device)

    from bench.commands import How, preview_plan, run_plan
    from bench.executors import Site
    from bench.steps import Again

    again = Again.ALWAYS if force else Again.FAILED if retry_failed else Again.NEVER
    twins = controls is ControlSet.ALL
    site = Site(results_dir, data, plugin_dir, str(chosen_device), twins, again, Site.variables())
    if dry_run:
        preview_plan(plan, site)
        return
    ray = ray_address if executor == "ray" else None
    raise typer.Exit(run_plan(plan, site, How(jobs, share, pdb, only_cached, ray)))


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
def tune(
    attack: Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")] = None,
    victim: Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter to hold, key=value; repeat.")] = None,
    variant: Annotated[str, typer.Option(help="Search around this parameter set, in its own ranges.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="Trials of each attack on each victim.")] = 30,
    sampler: Annotated[Literal["random", "tpe"], typer.Option(help="random: all end; tpe: learns, stops bad ones.")] = (
        "random"
    ),
    oracle: Annotated[bool, typer.Option("--oracle", help="Pick by good images, looking at the training set.")] = False,
    pool: Annotated[int, typer.Option(min=0, help="Score the pooled candidates of so many of the best, too.")] = 0,
    budget: Annotated[str, typer.Option(help="What a trial may spend: 90s, 10m, 1.5h or 500steps.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search and of every trial.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = ControlSet.ALL,
    jobs: Annotated[int, typer.Option(min=0, envvar="BENCH_JOBS", help="How the best are run: as for run.")] = 1,
) -> None:
    """Search an attack's parameters by what the attacker sees, and run the best as a row of its own.

    Trials are kept in RESULTS/tune: a search that was killed goes on, and the same command in several shells shares it.
    """
    from bench import registry
    from bench.options import attack_params, choose_data_dir, choose_device, parse_budget, parse_settings
    from bench.store import Store

    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    chosen, attacked = attacks.match(attack or [DEFAULT_ATTACK]), victims.match(victim or [DEFAULT_VICTIM])
    settings = parse_settings(set_ or [])
    params = {kind.name: attack_params(kind, variant, settings) for kind in chosen}
    data = choose_data_dir(data_dir)
    Store(results_dir).require_writable()
    chosen_device = choose_device(device)

    from bench.commands import How
    from bench.executors import Site
    from bench.plan import Run
    from bench.tuning.study import Sampler
    from bench.tuning.verb import Search
    from bench.tuning.verb import tune as search

    limit = parse_budget(budget)
    runs = [Run(kind, params[kind.name], variant, "", spec, seed, limit) for spec in attacked for kind in chosen]
    twins = controls is ControlSet.ALL
    site = Site(results_dir, data, plugin_dir, str(chosen_device), twins, environment=Site.variables())
    how = Search(trials, Sampler(sampler), oracle, pool, frozenset(settings))
    raise typer.Exit(search(runs, site, How(jobs), how))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A .py file with an attack of your own, or with VICTIMS.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter of the attack, key=value; repeat.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Try out whether your own attacks and victims keep the contract, on victims that train in a moment.

    Exit status 1 if something is to be changed.
    """
    from bench import tables
    from bench.check import check_file
    from bench.options import choose_data_dir, parse_settings

    claims = list(check_file(file, parse_settings(set_ or []), choose_data_dir(data_dir)))
    Console().print(tables.claims_table(claims))
    raise typer.Exit(0 if all(claim.holds for claim in claims) else 1)


@app.command()
def new(
    kind: Annotated[Literal["attack", "victim", "model"], typer.Argument(help="What to write.")],
    name: Annotated[str, typer.Argument(help="What it will be called.")],
    folder: Annotated[Path, typer.Option(help="Where the file goes.")] = Path(),
) -> None:
    """Write a file with an attack, a victim, or a model of your own, to start from."""
    from bench.new import write_new

    path = write_new(kind, name, folder)
    Console().print(f"{path}: change it, then `bench check {path}`", highlight=False, markup=False, soft_wrap=True)


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
