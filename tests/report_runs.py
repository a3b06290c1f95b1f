"""Run folders made for the tests of reports, with every column that a report reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarry_harness import measures
from quarry_harness.runs import per_query_table, qrels_line, trec_line, write_run

REVISION = "c0de" * 10


@dataclass(frozen=True)
class Asked:
    """A query: the ranks of its units (0 = not in the ranking), which of them are unresolved, and its texts."""

    ranks: Sequence[int]
    repo: str = "own__app"
    task: str = "t1"
    language: str = "go"
    text: str = "how is it done"
    unresolved: Sequence[int] = ()
    retrieved: int = 100
    corpus: int = 400
    path: str = "pkg/file.go"


def keep(folder: Path, run_id: str, queries: Sequence[Asked], depth: int = 100, **result: Any) -> Path:
    """Writes runs/<run id> below a folder: one document a rank, the gold units at theirs."""
    rows = [_row(number, query) for number, query in enumerate(queries)]
    found = [
        measures.QueryRanks(
            row["query_id"], row["repo"], row["task_id"], row["language"], tuple(row["gold_ranks"]),
            tuple(word == "ESSENTIAL" for word in row["gold_relevances"]), row["retrieved"],
        )
        for row in rows
    ]  # fmt: skip
    columns = measures.per_query(found)
    for i, row in enumerate(rows):
        row |= {name: None if column[i] != column[i] else float(column[i]) for name, column in columns.items()}
    trec = [
        trec_line(row["query_id"], _document(row, query, rank), rank, 100.0 - rank, run_id)
        for row, query in zip(rows, queries, strict=True)
        for rank in range(1, min(query.retrieved, depth or query.retrieved) + 1)
    ]
    qrels = [
        qrels_line(row["query_id"], key.split(":", 2)[2], relevance)
        for row in rows
        for key, relevance in zip(row["gold_unit_keys"], row["gold_relevances"], strict=True)
    ]
    document = {
        "run_id": run_id, "model": run_id.partition("-")[0], "image": "preimage", "profile": "quarry",
        "release": "made", "release_version": "1", "filters": {}, "queries": sum(bool(q.ranks) for q in queries),
        "queries_without_gold": sum(not q.ranks for q in queries), "queries_without_result": 0,
        "queries_without_result_by_reason": {}, "tasks": len({q.task for q in queries}),
        "release_tasks": len({q.task for q in queries}), "units": sum(len(q.ranks) for q in queries),
        "unresolved_units": sum(len(q.unresolved) for q in queries), "units_sharing_a_chunk": 0,
        "revisions_missing": 0, "revisions": [], "versions": {"python": "3"},
        "measures": measures.micro(columns), "settings": {"depth": depth, "model": {"name": "made"}},
    } | result  # fmt: skip
    write_run(folder / "runs" / run_id, trec, qrels, per_query_table(rows, measures.names()), document, {})
    return folder / "runs" / run_id


def _row(number: int, query: Asked) -> dict[str, Any]:
    units = range(len(query.ranks))
    return {
        "query_id": f"{query.task}::q{number}",
        "repo": query.repo,
        "task_id": query.task,
        "language": query.language,
        "revision": REVISION,
        "query": query.text,
        "corpus_chunks": query.corpus,
        "retrieved": query.retrieved,
        "gold_units": len(query.ranks),
        "unresolved_units": len(query.unresolved),
        "gold_unit_keys": [
            f"preimage:{REVISION}:{query.path}:gold{unit}:{10 * unit + 1}-{10 * unit + 5}" for unit in units
        ],
        "gold_relevances": ["RELATED" if unit else "ESSENTIAL" for unit in units],
        "gold_ranks": list(query.ranks),
        "gold_documents": list(units),
        "gold_kinds": ["" if unit in query.unresolved else "function" for unit in units],
        "gold_chunk_bytes": [0 if unit in query.unresolved else 80 for unit in units],
    }


def _document(row: dict[str, Any], query: Asked, rank: int) -> str:
    if rank in query.ranks:
        return str(row["gold_unit_keys"][list(query.ranks).index(rank)].split(":", 2)[2])
    return f"pkg/other.go:other{rank}:{rank}-{rank + 2}"
