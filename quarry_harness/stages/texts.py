"""The exact texts of a selection in a file, for vectors that are to be made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quarry_harness.errors import EnvironmentProblem
from quarry_harness.models.precomputed import text_id
from quarry_harness.stages.ranking import EvalQuery, is_there, repository_documents
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "role", "text")])
# Rows written together, which are a row group of the file.
_ROWS_AT_A_TIME = 10_000


def write_texts(
    store: Store,
    file: Path,
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    progress: Progress,
) -> dict[str, Any]:
    """Writes every distinct text that a model would be given, without prompts; returns file, queries, documents.

    A Parquet file with the columns id (precomputed.text_id), role ("query" or "document") and text, whole or not at
    all; a text that is both has one row, as a query. At most one repository's texts are held. Raises
    EnvironmentProblem where the disk refuses.
    """
    counts = {"query": 0, "document": 0}
    part = file.with_name(f".{file.name}.part")
    try:
        # An open file: pyarrow would read a name such as "texts:1" as an address.
        with part.open("wb") as stream, pq.ParquetWriter(stream, _SCHEMA) as writer:
            rows = _distinct(store, queries, revisions, profile, progress)
            while some := list(islice(rows, _ROWS_AT_A_TIME)):
                for _, role, _ in some:
                    counts[role] += 1
                columns = [pa.array(column, pa.string()) for column in zip(*some, strict=True)]
                writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise EnvironmentProblem(
            f"{file}: cannot be written: {error.strerror or error}.", "Name a file in a folder that you may write to."
        ) from error
    return {"file": str(file), "queries": counts["query"], "documents": counts["document"]}


def _distinct(
    store: Store, queries: Sequence[EvalQuery], revisions: Sequence[RevisionRow], profile: str, progress: Progress
) -> Iterator[tuple[str, str, str]]:
    """Yields (id, role, text) of each distinct text: the queries, then the documents, a repository at a time."""
    seen: set[bytes] = set()
    there = {(r.repo, r.sha) for r in revisions if is_there(r)}
    yield from _new([query.text for query in queries if (query.repo, query.revision) in there], "query", seen)
    repos = sorted({repo for repo, _ in there})
    for number, repo in enumerate(repos):
        progress(number, len(repos), f"writing {repo}")
        yield from _new(repository_documents(store, repo, revisions, profile), "document", seen)
    progress(len(repos), len(repos), "repositories written")


def _new(texts: Sequence[str], role: str, seen: set[bytes]) -> Iterator[tuple[str, str, str]]:
    for text in texts:
        name = text_id(text)
        if (key := bytes.fromhex(name)) not in seen:
            seen.add(key)
            yield name, role, text
