"""The application that the verbs join, and the options that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.options import ControlSet

app = typer.Typer(
    help="Benchmark of training-data reconstruction attacks: how much of its training set does a network give away?",
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PluginDir = Annotated[Path | None, typer.Option(help="Folder of .py files with more attacks and victims, or one file.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of NAME.npz files; BENCH_DATA_DIR if not given.")]
Controls = Annotated[ControlSet, typer.Option(help="Null controls: all, or quick ones that attack nothing.")]
ResultsDir = Annotated[Path, typer.Option(help="Where runs and tables go.")]


def complain(text: str) -> None:
    """Print one line on stderr, whatever the text holds."""
    line = " ".join(text.split())
    Console(stderr=True).print(line, style="red", highlight=False, markup=False, soft_wrap=True)
