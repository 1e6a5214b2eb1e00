"""Verbs that attack and score: run, score, tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bench.cli.app import (
    AttackNames,
    Controls,
    DataDir,
    Defence,
    Device,
    Jobs,
    PluginDir,
    ResultsDir,
    Spend,
    VictimNames,
    app,
    complain,
    jobs_option,
    named_folder,
)
from bench.plan.options import LARGEST_SEED, ControlSet
from bench.terminal.console import printer, say
from bench.terminal.interrupts import work_begins
from victims.errors import UserError

if TYPE_CHECKING:
    from bench.plan.config import PlanFile

EVERY = (
    "no attack is named: each is tried with every parameter set that an audit tries, and one that does not take the "
    "victim is skipped; `audit FILE` also leaves out those that cannot work on the weights, and shares out a time"
)


@app.command()
def run(
    attack: AttackNames = None,
    victim: VictimNames = None,
    defence: Defence = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter of the attack, key=value; repeat.")] = None,
    variant: Annotated[str | None, typer.Option(help="Named parameter set of the attack, e.g. paper.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the attack: 3, 0,2,5 or 0-4.")] = None,
    victim_seeds: Annotated[
        str | None,
        typer.Option(help="Retrainings of the victim: 0 as described, others on other images; 0-4."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(parser=named_folder, metavar="PATH", help="TOML file with a plan; other options change it."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Section of the plan's file; repeat.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="The plan's own small version, to see that it works.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = "all",
    budget: Spend = "",
    jobs: Annotated[
        int | None,
        jobs_option(
            "Runs at a time, each in its own process, 1 if not given; 0: in this one. On a cluster the most at a "
            "time, as many as there is room for if not given."
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(help="What each process may use, e.g. 8g; an equal share of what is free.")
    ] = "",
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="local: processes here; ray: tasks on a Ray cluster.")
    ] = "local",
    ray_address: Annotated[str, typer.Option(help="host:port of the cluster; RAY_ADDRESS, or a new one here.")] = "",
    cpus: Annotated[float | None, typer.Option(min=0.01, help="CPUs of a run on a cluster; 1 if not given.")] = None,
    gpus: Annotated[
        float | None, typer.Option(min=0.01, help="GPUs of a run on a cluster, such as 0.25; 1 if not given.")
    ] = None,
    copy_to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Copy each stored run and the tables there too, such as s3://bucket/results."
        ),
    ] = None,
    pdb: Annotated[bool, typer.Option("--pdb", help="In this process, with a debugger where an attack fails.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again what is stored.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed.")] = False,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="Run nothing; show what is stored.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Run nothing; say what would be run, and why.")] = False,
) -> None:
    """Train the victims that are not trained yet, attack them, score, and write runs.csv and leaderboard.csv.

    Without options: the plan of attacks/default.toml, which needs no download. Where only the victim is named: the
    attack of its first section, or on released weights, your own model's, every attack with every parameter set that an
    audit tries. What is stored and unchanged is not run again, and what was interrupted goes on where it was. A failure
    is stored too: it is run again when its attack's version, its parameters, victim or budget change, when it lacked
    memory or data, and with --retry-failed.
    """
    from bench.plan import registry
    from bench.plan.config import named_plan, planned, require_settings
    from bench.plan.options import choose_data_dir, choose_device, parse_budget, parse_memory, parse_settings
    from bench.run.executors import server
    from bench.store.folders import Store

    if copy_to == "":
        raise UserError("--copy-to is empty; name an address, such as s3://bucket/results, or leave it out")
    of_a_cluster = {"--ray-address": ray_address or None, "--cpus": cpus, "--gpus": gpus}
    if executor != "ray" and (idle := [option for option, value in of_a_cluster.items() if value is not None]):
        raise UserError(f"{idle[0]} is for runs on a cluster; give --executor ray too, or leave {idle[0]} out")
    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)
    own = bool(victim and not (attack or config)) and any(
        spec.training.kind == "released" for spec in victims.match(victim or [])
    )
    asked = named_plan(attacks, own, named=bool(attack or victim), changed=bool(variant or set_))
    if config is not None:
        asked = _plan_of(config, smoke, only or [], executor)
    elif smoke or only:
        raise UserError(f"{'--smoke' if smoke else '--only'} is of the plan of a file; name one with --config")
    given: dict[str, Any] = {"attack": attack, "victim": victim, "defence": defence, "variant": variant}
    given |= {"seeds": seeds, "victim_seeds": victim_seeds}
    sections = tuple(section.changed(given) for section in asked.plan)
    if config is not None:
        require_settings(config, (*sections, *asked.tune), attacks)
    settings = parse_settings(set_ or [])
    asked = asked.model_copy(update={"plan": tuple(section.changed({"set": settings}) for section in sections)})
    limit = parse_budget(budget)
    plan = planned(asked.plan, attacks, victims, limit)
    for broken in registry.broken(attacks, victims):
        complain(f"does not import: {broken.origin}: {broken.reason}")
    data, share = choose_data_dir(data_dir), parse_memory(memory) if memory else None
    if not dry_run:
        Store(results_dir).require_writable()
    if jobs != 0 and executor == "local" and not (pdb or only_cached or dry_run):
        server.start(server.threads_each(jobs or 1))  # it imports torch while this process does
    chosen_device = choose_device(asked.device if device is None else device, elsewhere=executor == "ray")

    from bench.experiments.whole import Known, announced, run_rest
    from bench.run.setup import Cluster, Setup
    from bench.run.steps import Again

    setup = Setup(
        results_dir,
        data,
        plugin_dir,
        str(chosen_device),
        twins=controls == "all",
        again=Again.ALWAYS if force else Again.FAILED if retry_failed else Again.NEVER,
        jobs=1 if jobs is None else jobs,
        memory=share,
        debug=pdb,
        only_cached=only_cached,
        cluster=Cluster(ray_address, jobs or None, cpus, gpus) if executor == "ray" else None,
        copy_to=copy_to or "",
    )
    known = Known(attacks, victims, registry.studies(plugin_dir))
    if config or (len(plan) > 1 and not only_cached):
        say("\n".join([EVERY] * (own and len(asked.plan) > 1) + announced(asked, known, setup, limit, smoke)))
    if dry_run:
        from bench.cli.tables import todo_table
        from bench.run.todo import preview_plan

        printer().print(todo_table(preview_plan(plan, setup)))
        return
    from bench.experiments.sweep import run_plan

    work_begins()
    failed = run_plan(plan, setup) if plan else 0
    rest = run_rest(asked, known, setup, smoke) if (asked.study or asked.tune) and not only_cached else 0
    raise typer.Exit(rest or failed)


def _plan_of(config: Path, smoke: bool, only: list[str], executor: str) -> PlanFile:
    """Return the plan of a file, or sections of it.

    Raises:
        UserError: it is no plan, or a cluster is to make what it does not make.
    """
    from bench.plan.config import read_plan

    asked = read_plan(config, smoke)
    asked = asked.only(only) if only else asked
    if executor == "ray" and (asked.study or asked.tune):
        raise UserError(
            f"{config} holds studies or searches, and --executor ray makes runs alone; "
            "take the sections of runs with --only, and make the others without it"
        )
    return asked


@app.command()
def score(
    attack: AttackNames = None,
    victim: VictimNames = None,
    protocol: Annotated[str | None, typer.Option(help="Score under this protocol, as rows of their own.")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Annotated[
        ControlSet, typer.Option(help="quick: none that attacks; all: those too that train and attack a twin.")
    ] = "quick",
    jobs: Jobs = 1,
) -> None:
    """Score stored reconstructions again without attacking the victim again, and write the tables.

    Without options: all stored runs, each under its own protocol. A row keeps the null controls of twins that it has;
    with --controls all rows whose reconstruction is stored elsewhere get those that they lack, too.
    """
    from bench.plan import registry
    from bench.plan.options import choose_data_dir, choose_device, matches
    from bench.store.folders import Store

    attacks, victims = registry.attacks(plugin_dir), registry.victims(plugin_dir)

    from bench.experiments.sweep import score_stored, without_twins
    from bench.run.setup import Setup
    from bench.scoring.protocols import protocol_named

    if protocol is not None:
        protocol_named(protocol)
    store, twins = Store(results_dir), controls == "all"
    found = [store.attacked(), without_twins(store, attacks) if twins and protocol is None else []]
    records, rows = (
        [
            record
            for record in part
            if record.n  # 0 where no training image was given: nothing is scored
            and matches(record.attack, attack)
            and (matches(record.victim, victim) or matches(record.training, victim))
        ]
        for part in found
    )
    if not records + rows:
        raise UserError(f"no stored run in {store.runs} is meant; `run` makes some, -a and -v choose among them")
    store.require_writable()
    data, chosen = choose_data_dir(data_dir), choose_device(device)
    work_begins()
    setup = Setup(results_dir, data, plugin_dir, str(chosen), twins, jobs=jobs)
    raise typer.Exit(score_stored(records, rows, attacks, victims, setup, protocol or ""))


@app.command()
def tune(
    attack: AttackNames = None,
    victim: VictimNames = None,
    defence: Defence = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter to hold, key=value; repeat.")] = None,
    variant: Annotated[str, typer.Option(help="Search around this parameter set, in its own ranges.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="Trials of each attack on each victim.")] = 30,
    sampler: Annotated[Literal["random", "tpe"], typer.Option(help="random: all end; tpe: learns, stops bad ones.")] = (
        "random"
    ),
    oracle: Annotated[bool, typer.Option("--oracle", help="Pick by good images, looking at the training set.")] = False,
    pool: Annotated[int, typer.Option(min=0, help="Score the pooled candidates of so many of the best, too.")] = 0,
    budget: Spend = "",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED - 1, help="Seed of the search and of every trial.")] = 0,
    device: Device = "auto",
    data_dir: DataDir = None,
    results_dir: ResultsDir = Path("results"),
    plugin_dir: PluginDir = None,
    controls: Controls = "all",
    jobs: Jobs = 1,
) -> None:
    """Search an attack's parameters by what the attacker sees, and run the best as a row of its own.

    Trials are kept in RESULTS/tune: a search that was killed goes on, and the same command in several shells shares it.
    """
    from bench.plan import registry
    from bench.plan.config import default_plan, require_images
    from bench.plan.options import attack_params, choose_data_dir, choose_device, parse_budget, parse_settings
    from bench.store.folders import Store

    attacks, victims, usual = registry.attacks(plugin_dir), registry.victims(plugin_dir), default_plan().plan[0]
    chosen = attacks.match(attack or list(usual.attack))
    attacked = victims.match(victim or list(usual.victim), defence or [])
    require_images(attacked)
    settings = parse_settings(set_ or [])
    params = {kind.name: attack_params(kind, variant, settings) for kind in chosen}
    data = choose_data_dir(data_dir)
    Store(results_dir).require_writable()
    chosen_device = choose_device(device)

    from bench.experiments.tuning.verb import Search
    from bench.experiments.tuning.verb import tune as search
    from bench.plan.run import Run
    from bench.run.setup import Setup

    limit = parse_budget(budget)
    runs = [Run(kind, params[kind.name], variant, "", spec, seed, limit) for spec in attacked for kind in chosen]
    twins = controls == "all"
    setup = Setup(results_dir, data, plugin_dir, str(chosen_device), twins, jobs=jobs)
    wanted = Search(trials, sampler, oracle, pool, frozenset(settings))
    work_begins()
    raise typer.Exit(search(runs, setup, wanted))
