"""What revisions have at given places: chunks for labels, and the source of ranked documents."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from quarry_harness.store.corpora import CORPUS_ORDER
from quarry_harness.store.database import Database, Row

WANTED = pa.schema(
    [
        *((name, pa.int64()) for name in ("number", "nth")),
        *((name, pa.string()) for name in ("repo", "revision", "path", "name")),
        *((name, pa.int32()) for name in ("start_line", "end_line")),
    ]
)


def chunks_at(database: Database, revision: int, paths: Iterable[str], symbols: Iterable[str]) -> list[Row]:
    """Returns what Store.chunks_at promises."""
    names = pa.table({"name": pa.array(sorted(symbols), pa.string())})
    places = pa.table({"path": pa.array(sorted(paths), pa.string())})
    with database.incoming(names, "named"), database.incoming(places, "placed"):
        return database.rows(
            "SELECT e.path, c.blob, c.ordinal, c.language, c.kind, c.name, c.container, c.qualified_name,"
            " c.start_line, c.end_line, c.start_byte, c.end_byte FROM entry e JOIN chunk c USING (blob)"
            " WHERE e.revision = ? AND"
            " (e.path IN (SELECT path FROM placed) OR c.name IN (SELECT name FROM named))" + CORPUS_ORDER,
            [revision],
        )


def sources(database: Database, wanted: Iterable[Row], kinds: Iterable[str] | None) -> list[Row]:
    """Returns (number, path, name, text) of those chunks that the workspace has, found by place, not by id.

    wanted: rows of WANTED. nth: which one, in corpus order, of several with the same name and lines, from 1. kinds: of
    the profile that the documents were numbered in, None = every kind.
    """
    rows = [list(column) for column in zip(*wanted, strict=True)] or [[] for _ in WANTED]
    restriction = "" if kinds is None else " WHERE list_contains(?, c.kind)"
    parameters: list[object] = [] if kinds is None else [sorted(kinds)]
    with database.incoming(pa.table(rows, schema=WANTED)):
        return database.rows(
            "SELECT number, path, name, text FROM (SELECT i.number, i.nth, e.path, c.name, c.text,"
            " row_number() OVER (PARTITION BY i.number, e.path ORDER BY c.ordinal) AS place FROM incoming i"
            " JOIN revision r ON r.repo = i.repo AND r.sha = i.revision"
            " JOIN entry e ON e.revision = r.id AND e.path = i.path"
            " JOIN chunk c ON c.blob = e.blob AND c.name = i.name"
            f" AND c.start_line = i.start_line AND c.end_line = i.end_line{restriction})"
            " WHERE place = nth ORDER BY number, path",
            parameters,
        )
