"""The application that the verbs join, and the options that they share."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from bench.plan.options import ControlSet
from bench.terminal.console import say
from bench.terminal.text import one_line


class Verbs(TyperGroup):
    """The verbs. An option that takes one value is refused a second time, for its first would be lost."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that the first argument names, and the others.

        Raises:
            BadParameter: an option that takes one value is given twice.
        """
        name, verb, rest = super().resolve_command(ctx, args)
        try:
            given = [] if verb is None else verb.make_parser(ctx).parse_args(args=list(rest))[2]
        except typer.TyperException:
            given = []  # the verb itself says what is wrong
        single = [one for one in given if not (one.multiple or getattr(one, "is_flag", True))]
        if twice := next((one for one in single if single.count(one) > 1), None):
            times = f"it takes one value and is given {single.count(twice)} times"
            raise typer.BadParameter(times, param_hint=f"'{max(twice.opts, key=len)}'")
        return name, verb, rest


app = typer.Typer(
    cls=Verbs,
    help="Benchmark of training-data reconstruction attacks: how much of its training set does a network give away?",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LONGEST_COMPLAINT = 4000
"""Most characters of an error message, which may list all names."""
MOST_JOBS = 1024


def named_folder(text: str | Path) -> Path:
    """Return the path that a text names, `~` expanded.

    Raises:
        BadParameter: the text is empty, as of a variable that is not set; or it is an address; or `~` cannot be
            expanded.
    """
    from bench.store.remote import SCHEME

    place = str(text)  # a default is a path already
    if not place:
        raise typer.BadParameter("it is empty; name a folder, '.' for this one")
    if SCHEME in place:
        raise typer.BadParameter(f"{place} is an address; name a folder (`run --copy-to` copies one to an address)")
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{place}: {error}") from None


def readable(text: str | Path) -> Path:
    """Return the path that a text names; of an address in object storage, the path of a local copy.

    Raises:
        BadParameter: as `named_folder`.
        UserError: the address cannot be read.
    """
    from bench.store.remote import SCHEME, fetched

    return fetched(str(text)) if SCHEME in str(text) else named_folder(text)


PluginDir = Annotated[
    Path | None,
    typer.Option(
        parser=named_folder, metavar="PATH", help="Folder of .py files with more attacks and victims, or one file."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(parser=named_folder, metavar="PATH", help="Folder of NAME.npz files; BENCH_DATA_DIR if not given."),
]
Defence = Annotated[
    list[str] | None,
    typer.Option("--defence", help="What each victim is defended by, e.g. noise=1e-3; repeat, in their order."),
]
Controls = Annotated[ControlSet, typer.Option(help="Null controls: all, or quick ones that attack nothing.")]
AttackNames = Annotated[list[str] | None, typer.Option("-a", "--attack", help="Attack or glob; repeat.")]
VictimNames = Annotated[list[str] | None, typer.Option("-v", "--victim", help="Victim or glob; repeat.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Spend = Annotated[str, typer.Option(help="What an attack, or a trial, may spend: 90s, 10m, 1.5h or 500steps.")]


def jobs_option(what: str) -> Any:
    """Return the option `--jobs`, whose help says what happens without it."""
    return typer.Option(min=0, max=MOST_JOBS, envvar="BENCH_JOBS", help=what)


Jobs = Annotated[int, jobs_option("Runs at a time, each in its own process; 0: in this one.")]
ResultsDir = Annotated[Path, typer.Option(parser=named_folder, metavar="PATH", help="Where runs and tables go.")]

ReadResults = Annotated[
    Path,
    typer.Option(
        "--results-dir", parser=readable, metavar="PATH", help="The results folder, here or at an address as s3://..."
    ),
]
TablePath = Annotated[
    Path,
    typer.Argument(
        parser=readable, metavar="PATH", help="A leaderboard.csv, runs.csv or results folder, here or at s3://..."
    ),
]


def complain(text: str) -> None:
    """Print a text on stderr as one line; a stderr that cannot be written is ignored."""
    with suppress(OSError):
        say(one_line(text, LONGEST_COMPLAINT), Console(stderr=True), "red")
