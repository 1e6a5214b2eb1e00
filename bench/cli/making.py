"""Verbs for one's own work: audit, study, check, new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.app import DataDir, Defence, Device, Jobs, PluginDir, ResultsDir, app, named_folder
from bench.terminal.console import printer, say
from bench.terminal.interrupts import work_begins
from bench.terminal.text import command
from victims.errors import UserError


@app.command()
def audit(
    file: Annotated[
        Path,
        typer.Argument(
            parser=named_folder, metavar="FILE", help="A .py file with VICTIMS that describes a model of your own."
        ),
    ],
    victim: Annotated[str, typer.Option("-v", "--victim", help="Which of its models, if it has several.")] = "",
    defence: Defence = None,
    budget: Annotated[str, typer.Option(help="What all attacks together may spend: 90s, 20m, 1.5h.")] = "20m",
    fail_above: Annotated[
        int | None, typer.Option(min=0, help="Exit status 1 if more records fall; for a release pipeline.")
    ] = None,
    device: Device = "auto",
    results_dir: ResultsDir = Path("results"),
    jobs: Jobs = 1,
) -> None:
    """Measure what a model gives away: exposure, every attack that can work, its null controls, in one page.

    Writes audit.html, audit.json and records.csv to RESULTS/audits/NAME. Killed, it goes on where it was; the same
    command tries again what failed. Exit status 0 whatever is found.
    """
    from bench.check import require_python_file
    from bench.plan import registry
    from bench.plan.options import choose_device, parse_budget

    require_python_file(file, "VICTIMS with your model")
    attacks, victims = registry.attacks(file), registry.victims(file)
    spec = registry.released_model(victims, file, victim, defence or [])
    limit, chosen = parse_budget(budget), choose_device(device)

    from bench.experiments.audit.verb import Asked
    from bench.experiments.audit.verb import audit as run_audit
    from bench.run.setup import Setup
    from bench.run.steps import Again

    root = results_dir / "audits" / spec.name
    setup = Setup(root, None, file, str(chosen), twins=False, again=Again.FAILED, jobs=jobs)
    work_begins()
    raise typer.Exit(run_audit(spec, attacks, setup, Asked(file, limit, fail_above, device, results_dir)))


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="The study; without one they are listed.")] = "",
    smoke: Annotated[bool, typer.Option("--smoke", help="Few and cheap cells, to see that it works.")] = False,
    missing: Annotated[bool, typer.Option("--missing", help="Only cells of which its table has no good row.")] = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="Run nothing; draw its table again.")] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    jobs: Annotated[
        int, typer.Option(min=0, max=1, envvar="BENCH_JOBS", help="1: a process for each run; 0: none.", clamp=True)
    ] = 1,
) -> None:
    """Run a study, several runs to be read together; its table and pictures go to RESULTS/studies/NAME."""
    from bench.plan import registry
    from bench.plan.options import choose_data_dir, choose_device

    studies = registry.studies(plugin_dir)
    if not name:
        given = {"--smoke": smoke, "--missing": missing, "--pictures": pictures}
        if options := [option for option, wanted in given.items() if wanted]:
            raise UserError(f"{options[0]} is of one study; name it, `{command('study')}` lists them")
        for known in studies.items.values():
            say(f"{known.name}: {known.summary} ({known.paper}; {len(known.cells)} runs)")
        return
    chosen = studies.match([name])[0]

    from bench.experiments.study import part_of, redraw, run_study
    from bench.run.setup import Setup

    cells, root = part_of(chosen, results_dir, smoke)
    if pictures:
        redraw(chosen, cells, root)
        return
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    data, chosen_device = choose_data_dir(data_dir), choose_device(device)
    work_begins()
    setup = Setup(root, data, plugin_dir, str(chosen_device), twins=False, jobs=jobs)
    raise typer.Exit(run_study(chosen, cells, attacks, victims, setup, missing))


@app.command()
def check(
    file: Annotated[
        Path,
        typer.Argument(
            parser=named_folder, metavar="FILE", help="A .py file with an attack of your own, or with VICTIMS."
        ),
    ],
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter of the attack, key=value; repeat.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Try out whether your own attacks and victims keep the contract, on victims that train in a moment.

    Exit status 1 if something is to be changed.
    """
    from bench.check.isolated import isolated_claims
    from bench.cli import tables
    from bench.plan.options import choose_data_dir, parse_settings

    settings, data = parse_settings(set_ or []), choose_data_dir(data_dir)
    work_begins()
    claims = list(isolated_claims(file, settings, data))
    printer().print(tables.claims_table(claims))
    raise typer.Exit(0 if all(claim.holds for claim in claims) else 1)


@app.command()
def new(
    kind: Annotated[Literal["attack", "victim", "model"], typer.Argument(help="What to write.")],
    name: Annotated[str, typer.Argument(help="What it will be called.")],
    folder: Annotated[Path, typer.Option(parser=named_folder, metavar="PATH", help="Where the file goes.")] = Path(),
) -> None:
    """Write a file with an attack, a victim, or a model of your own, to start from."""
    from bench.check.new import write_new
    from bench.plan import registry

    known = registry.attacks() if kind == "attack" else registry.victims()
    path = write_new(kind, name, folder, known.origins)
    say(f"{path}: change it, then `{command('check', str(path))}`")
