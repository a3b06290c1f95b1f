"""One query as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarry_harness.report import printable, table
from quarry_harness.types import LANGUAGES


def shown(document: Mapping[str, Any]) -> str:
    """Returns a query's document: the question, where its gold units are in each run, and what each run found."""
    runs = document["runs"]
    parts = [_asked(document), _gold(document["gold"], runs)]
    parts += [_found(run) for run in runs]
    return "\n\n".join(parts)


def _asked(document: Mapping[str, Any]) -> str:
    language = LANGUAGES.get(document["language"], document["language"])
    return "\n".join(
        [
            printable(f"{document['query_id']}  {document['repo']} ({language})"),
            *(f"  {printable(line)}" for line in document["query"].splitlines()),
        ]
    )


def _gold(units: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    if not units:
        return "The query has no gold unit."
    rows = [
        [printable(_place(unit)), unit["relevance"], *(_rank(unit, run["run_id"]) for run in runs)] for unit in units
    ]
    names = [printable(run["run_id"]) for run in runs]
    return table(["gold unit", "relevance", *(f"rank in {name}" for name in names)], rows)


def _rank(unit: Mapping[str, Any], run_id: str) -> str:
    rank = unit["ranks"].get(run_id)
    if rank is None:
        return "not its label"
    return str(rank) if rank else "never found" if unit["resolved"] else "unresolved"


def _found(run: Mapping[str, Any]) -> str:
    head = (
        f"{printable(run['run_id'])} at {run['image']} {run['revision'][:12]}: {run['retrieved']} of"
        f" {run['corpus_chunks']} chunks in the ranking"
        + (f", which keeps at most {run['depth']}" if run["depth"] else "")
    )
    return "\n".join([head, *(line for hit in run["hits"] for line in _hit(hit))])


def _hit(hit: Mapping[str, Any]) -> list[str]:
    lines = [printable(f"{'*' if hit['gold'] else ' '}{hit['rank']:>4}  {_place(hit)}  {hit['score']:g}")]
    if "source" not in hit:
        return lines
    if hit["source"] is None:
        return [*lines, "         (its source is not in the workspace)"]
    rows = hit["source"].split("\n")
    width = len(str(hit["start_line"] + len(rows)))
    lines += [
        printable(f"      {hit['start_line'] + i:>{width}} | {row.expandtabs(4)}").rstrip()
        for i, row in enumerate(rows)
    ]
    if hit["source_lines_left_out"]:
        lines.append(f"      {'':>{width}}   ... and {hit['source_lines_left_out']} more")
    return lines


def _place(row: Mapping[str, Any]) -> str:
    return (
        f"{row['path']}:{row['start_line']}-{row['end_line']} {row['name']}" if row["start_line"] else str(row["path"])
    )
