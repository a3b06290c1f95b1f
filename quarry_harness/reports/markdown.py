"""A report as Markdown for a README, and as a LaTeX table for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarry_harness.report import HEADLINE, printable
from quarry_harness.reports import tables
from quarry_harness.reports.tables import Table

_MARKDOWN = {letter: f"\\{letter}" for letter in "\\`*_{}[]<>#|~$"} | {"&": "&amp;"}
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_"}, "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def markdown(document: Mapping[str, Any]) -> str:
    """Returns the report as GitHub's Markdown."""
    parts = [f"## {HEADLINE}", _escaped(tables.scope(document)) + "."]
    warnings = tables.warnings(document)
    parts += ["\n".join(f"- **{_escaped(line)}**" for line in warnings)] if warnings else []
    parts += [_table(tables.leaderboard(document)), _table(tables.averages(document))]
    against = tables.against(document)
    parts += ["### Against the baseline", _table(against)] if against else []
    parts += ["### By language", _table(tables.grouped(document, "languages", (5, 20)))]
    parts += ["### Where queries fail", _table(tables.failures(document, "queries"))]
    parts += [_table(tables.failures(document, "units"))]
    parts += ["### What to know before believing a number", _table(tables.accounts(document))]
    parts.append("\n".join(f"- {_escaped(line)}" for line in tables.notes(document)))
    parts += ["### How the numbers were made"]
    parts.append("\n".join(f"- {_escaped(line)}" for line in tables.method(document)))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    rule = ["---"] * table.left + ["---:"] * (len(table.header) - table.left)
    lines = [f"| {' | '.join(row)} |" for row in ([_escaped(name) for name in table.header], rule, *rows)]
    return "\n".join([_escaped(table.caption), "", *lines])


def _cell(cell: str | tuple[str, str]) -> str:
    return _escaped(cell) if isinstance(cell, str) else f"{_escaped(cell[0])}<br>{_escaped(cell[1])}"


def _escaped(words: str) -> str:
    return "".join(_MARKDOWN.get(letter, letter) for letter in printable(words))


def latex(document: Mapping[str, Any]) -> str:
    r"""Returns the leaderboard as a LaTeX table that needs no package, its making in comments.

    It is a `table` environment for \input; values are percent, with their intervals below in \scriptsize.
    """
    table = tables.leaderboard(document)
    comments = [
        HEADLINE,
        tables.scope(document),
        *tables.method(document),
        *tables.warnings(document),
        *tables.notes(document),
    ]
    header = " & ".join(_tex(name) for name in table.header)
    return "\n".join(
        [
            *(f"% {printable(line)}" for line in comments),
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(HEADLINE)}: {_tex(tables.scope(document))}. {_tex(table.caption)}}}",
            r"\label{tab:quarry}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
            r"\hline",
            rf"{header} \\",
            r"\hline",
            *(line for row in table.rows for line in _tex_row(row)),
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _tex_row(row: Sequence[str | tuple[str, str]]) -> list[str]:
    """A row of values, and under it their intervals."""
    above = " & ".join(_tex(cell if isinstance(cell, str) else cell[0]) for cell in row)
    below = " & ".join("" if isinstance(cell, str) else rf"{{\scriptsize {_tex(cell[1])}}}" for cell in row)
    return [rf"{above} \\", rf"{below} \\"]


def _tex(words: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in printable(words))
