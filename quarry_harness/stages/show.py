"""One query: what was asked, where its gold units are in each run, and what the runs found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from quarry_harness.errors import UsageError
from quarry_harness.stages.browse import gold_document, shortened
from quarry_harness.stages.compare import KeptRun, depth_of
from quarry_harness.stages.hits import Document, Place, places, readings, top_hits
from quarry_harness.stages.survey import open_runs

_LETTERS = 500  # of one line of source


def show(workspace: Path, query: str, names: Sequence[str], top: int, lines: int) -> dict[str, Any]:
    """Returns a query's document: gold units with their rank in each run, and each run's best results.

    query: a query id, or how exactly one begins, also with its commit cut short (1a2b3c-2::q1). names: runs, all of the
    workspace where there is none. top: results a run; lines: of the source of each (0 = no source). A rank is 0 where
    the unit is not in the ranking, and missing where the run has no such unit (a run of the other image). Raises
    UsageError where no run has the query or several queries are meant, and what `places` raises.
    """
    runs = open_runs(workspace, names, None)
    query_id = _the_one(query, runs)
    rows = {run.run_id: row for run in runs if (row := _row(run, query_id))}
    runs = [run for run in runs if run.run_id in rows]
    hits = {run.run_id: top_hits(run.folder, top, {query_id}).get(query_id, []) for run in runs}
    first = rows[runs[0].run_id]
    found = {
        run.run_id: _found(workspace, run, rows[run.run_id], [hit.document for hit in hits[run.run_id]], lines)
        for run in runs
    }
    return {
        **{name: first[name] for name in ("query_id", "repo", "task_id", "language", "revision", "query")},
        "gold": _gold(rows),
        "runs": [
            {
                "run_id": run.run_id,
                "model": run.result.get("model"),
                "image": run.result.get("image"),
                "revision": rows[run.run_id]["revision"],
                "depth": depth_of(run),
                "corpus_chunks": rows[run.run_id]["corpus_chunks"],
                "retrieved": rows[run.run_id]["retrieved"],
                "hits": [
                    {
                        "rank": hit.rank,
                        "gold": hit.rank in rows[run.run_id]["gold_ranks"],
                        "score": float(hit.score),
                        **_placed(found[run.run_id][hit.document], lines),
                    }
                    for hit in hits[run.run_id]
                ],
            }
            for run in runs
        ],
    }


def _the_one(query: str, runs: Sequence[KeptRun]) -> str:
    ids: set[str] = {name for run in runs for name in run.rows["query_id"].to_pylist()}
    if query in ids:
        return query
    head, dash, rest = query.partition("-")
    alike = sorted(
        name
        for name in ids
        if head and (name.startswith(query) or (rest and name.startswith(head) and name.endswith(dash + rest)))
    )
    if len(alike) == 1:
        return alike[0]
    names = ", ".join(run.run_id for run in runs)
    if alike:
        more = f" and {len(alike) - 5} more" if len(alike) > 5 else ""
        raise UsageError(
            f"{len(alike)} queries begin with '{query}': {', '.join(alike[:5])}{more}.", "Name one of them."
        )
    raise UsageError(
        f"There is no query '{query}' in {names}.", "The ids are in per_query.parquet and in the HTML report."
    )


def _row(run: KeptRun, query_id: str) -> dict[str, Any] | None:
    rows = run.rows.filter(pc.equal(run.rows["query_id"], query_id)).to_pylist()
    return rows[0] if rows else None


def _gold(rows: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    units: dict[str, dict[str, Any]] = {}
    for run_id, row in rows.items():
        columns = (row[f"gold_{name}"] for name in ("unit_keys", "relevances", "kinds", "ranks"))
        for key, relevance, kind, rank in zip(*columns, strict=True):
            place = readings(gold_document(key))[0]
            unit = units.setdefault(key, {"unit_key": key, "relevance": relevance, **_placed(place, 0), "ranks": {}})
            unit["ranks"][run_id] = rank
            unit["resolved"] = bool(kind) or unit.get("resolved", False)
    return list(units.values())


def _found(
    workspace: Path, run: KeptRun, row: Mapping[str, Any], documents: Sequence[str], lines: int
) -> dict[str, Place]:
    if not lines:
        return {document: readings(document)[0] for document in documents}
    wanted: list[Document] = [(row["repo"], row["revision"], document) for document in documents]
    return {key[2]: place for key, place in places(workspace, wanted, str(run.result.get("profile"))).items()}


def _placed(place: Place, lines: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": place.path,
        "name": place.name,
        "start_line": place.start_line,
        "end_line": place.end_line,
    }
    if lines:
        text, left_out = (None, 0) if place.text is None else shortened(place.text, lines, _LETTERS)
        document |= {"source": text, "source_lines_left_out": left_out}
    return document
