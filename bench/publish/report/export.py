"""The boards as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from bench.publish.board_page import plain
from bench.publish.numbers import ARROWS, MISSING
from bench.publish.ranking import Board, cell_of
from bench.publish.report.collect import Report
from bench.publish.report.columns import LEGEND, SHOWN
from bench.store.cells import to_csv


def markdown(report: Report) -> str:
    """Return a table a board, numbers with intervals and null controls as on the page."""
    parts = ["# What trained networks give away", "\n".join(f"- **{name}**: {text}" for name, text in LEGEND.items())]
    for board in report.boards:
        table = _table(report, board).map(plain)
        parts += [f"## {plain(_title(report, board))}", table.to_markdown(index=False, disable_numparse=True)]
    return "\n\n".join(parts) + "\n"


def latex(report: Report) -> str:
    """Return a table environment a board, for a paper that loads booktabs and graphicx."""
    parts = [
        "\n".join(["% Needs \\usepackage{booktabs,graphicx}.", *(f"% {name}: {text}" for name, text in LEGEND.items())])
    ]
    for board in report.boards:
        table = _table(report, board).map(_latex_text)
        table.columns = [_latex_text(name) for name in table.columns]
        tabular = table.to_latex(index=False, escape=False, column_format="ll" + "r" * (len(table.columns) - 2))
        parts.append(
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{_latex_text(_title(report, board))}}}\n"
            f"\\resizebox{{\\linewidth}}{{!}}{{%\n{tabular}}}\n\\end{{table}}"
        )
    return "\n\n".join(parts) + "\n"


def csv(report: Report) -> str:
    """Return all boards below each other: leaderboard.csv's columns, with the rank on each board."""
    tables = [board.rows.assign(board_knowledge=board.knowledge) for board in report.boards]
    if not tables:
        return "victim,board_knowledge,rank\n"
    table = pd.concat(tables, ignore_index=True)
    first = ["victim", "protocol", "metric_suite", "board_knowledge", "rank", "rank_low", "rank_high"]
    table = table[first + [name for name in table.columns if name not in first]]
    return to_csv(table)


EXPORTS: dict[str, Callable[[Report], str]] = {"markdown": markdown, "latex": latex, "csv": csv}


def _title(report: Report, board: Board) -> str:
    told = f"told at most {board.knowledge.replace('+', ', ') or 'nothing'}"
    if report.across_knowledge:
        told = "whatever they were told"
    return f"{board.victim} (n = {board.n}), {told}; {board.protocol}, metric suite {board.metric_suite}"


def _table(report: Report, board: Board) -> pd.DataFrame:
    rows = []
    for row in board.rows.to_dict("records"):
        described = {"rank": row["rank"] or MISSING, "attack": report.entries[cell_of(row)].label}
        scores = {f"{column.heading} {ARROWS[column.better]}": column.full_text(row) for column in SHOWN}
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        rows.append(described | scores | {"seeds": f"{row['seeds']}{failed}"})
    return pd.DataFrame(rows)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "−": "$-$",
    "–": "--",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
    """Return a text as LaTeX prints it, whatever it holds."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
