"""The run folder: a ranking kept so that other tools can read it and anybody can repeat it.

run.trec            query_id Q0 document_id rank score tag
qrels.trec          query_id 0 document_id relevance (ESSENTIAL 2, RELATED 1)
per_query.parquet   one row a query
result.json         the numbers and everything needed to repeat them
timing.json         how long it took; the only file that differs between two equal runs
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quarry_harness.errors import EnvironmentProblem, InvalidInputError

GRADES = {"ESSENTIAL": 2, "RELATED": 1}
# Printable ASCII but white space and "%" stays as it is: TREC files are split at white space.
_SAFE = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"

# The columns of per_query.parquet before those of the measures.
PER_QUERY: dict[str, pa.DataType] = {
    **dict.fromkeys(("query_id", "repo", "task_id", "language", "revision", "query"), pa.string()),
    **dict.fromkeys(("corpus_chunks", "retrieved", "gold_units", "unresolved_units"), pa.int32()),
    **dict.fromkeys(("gold_unit_keys", "gold_relevances"), pa.list_(pa.string())),
    **dict.fromkeys(("gold_ranks", "gold_documents"), pa.list_(pa.int32())),
    "gold_kinds": pa.list_(pa.string()),
    "gold_chunk_bytes": pa.list_(pa.int64()),
    **dict.fromkeys(("first_rank", "last_rank"), pa.int32()),
}


def document_ids(rows: Iterable[tuple[str, str, int, int]]) -> list[str]:
    """Returns one id a chunk of a corpus: `path:name:start-end`, the tail of a gold unit's unit_key.

    rows: (path, name, start line, end line) in corpus order. Ids are encoded. Chunks that would share an id (two
    functions of one name on one line) get ~2, ~3, ... in corpus order.
    """
    seen: dict[str, int] = {}
    ids = []
    for path, name, start, end in rows:
        base = encoded(f"{path}:{name}:{start}-{end}")
        seen[base] = seen.get(base, 0) + 1
        ids.append(base if seen[base] == 1 else f"{base}~{seen[base]}")
    return ids


def trec_line(query_id: str, document_id: str, rank: int, score: np.floating[Any], tag: str) -> str:
    """Returns one line of a TREC run; the score has as many digits as its float type needs, and no more."""
    return f"{encoded(query_id)} Q0 {document_id} {rank} {_shortest(score)} {tag}\n"


def encoded(name: str) -> str:
    """Returns an id as a TREC file has it: white space, "%" and what is not ASCII percent-encoded, as UTF-8."""
    return quote(name, safe=_SAFE)


def qrels_line(query_id: str, document_id: str, relevance: str) -> str:
    """Returns one line of TREC qrels."""
    return f"{encoded(query_id)} 0 {document_id} {GRADES[relevance]}\n"


def _shortest(score: np.floating[Any]) -> str:
    return np.format_float_positional(score, unique=True, trim="0")


def json_text(document: Any) -> str:
    """Returns a JSON document for people and machines; NaN, which JSON does not have, becomes null."""
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_run(
    folder: Path, run: Iterable[str], qrels: Iterable[str], per_query: pa.Table, result: Any, timing: Any
) -> dict[str, tuple[str, int]]:
    """Writes a run folder, whole or not at all; returns name -> (sha256, bytes) of its files.

    Raises EnvironmentProblem where the disk refuses.
    """
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, lines in (("run.trec", run), ("qrels.trec", qrels)):
            with (part / name).open("w", encoding="utf-8", newline="\n") as text:
                text.writelines(lines)
        # An open file: pyarrow would read a name such as "run:1" as an address.
        with (part / "per_query.parquet").open("wb") as file:
            pq.write_table(per_query, file)
        (part / "result.json").write_text(json_text(result), "utf-8")
        (part / "timing.json").write_text(json_text(timing), "utf-8")
        files = {path.name: (_sha256(path), path.stat().st_size) for path in sorted(part.iterdir())}
        for path in part.iterdir():
            with path.open("rb") as whole:
                os.fsync(whole.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        raise EnvironmentProblem(
            f"{error.filename or folder}: the run cannot be written: {error.strerror or error}.",
            "Make room, or way, for it, and run it again.",
        ) from error
    return files


def read_result(folder: Path) -> dict[str, Any]:
    """Returns the result.json of a run folder; InvalidInputError where there is none or it cannot be read."""
    path = folder / "result.json"
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: not a readable result ({error}).", "Run quarry eval again.") from error
    if not isinstance(document, dict):
        raise InvalidInputError(f"{path}: not a result.", "Run quarry eval again.")
    return document


def read_per_query(folder: Path, columns: Sequence[str]) -> pa.Table:
    """Returns those columns of a run's per_query.parquet, in the types that per_query_table gives them.

    Raises InvalidInputError where it cannot be read, lacks a column, or has one of another type.
    """
    path = folder / "per_query.parquet"
    try:
        table = pq.read_table(path, columns=list(columns), partitioning=None).select(list(columns))
        return table.cast(pa.schema([(name, PER_QUERY.get(name, pa.float64())) for name in columns]))
    except (OSError, pa.ArrowException, KeyError) as error:
        reason = "it is not there" if isinstance(error, FileNotFoundError) else str(error).partition("\n")[0]
        raise InvalidInputError(
            f"{path}: not a readable per-query table ({reason}).", "Run quarry eval again."
        ) from error


def per_query_table(rows: Sequence[dict[str, Any]], measures: Sequence[str]) -> pa.Table:
    """Returns the per-query table: who and where, the gold units, then one column a measure (null: undefined).

    The gold_ columns are lists with one entry a unit. gold_ranks, first_rank and last_rank: 1-based, 0 where not in
    the ranking. gold_documents: units with one number lie in one chunk. gold_kinds and gold_chunk_bytes: of the unit's
    chunk and its source, "" and 0 where unresolved.
    """
    schema = pa.schema([*PER_QUERY.items(), *((name, pa.float64()) for name in measures)])
    return pa.Table.from_pylist(list(rows), schema=schema)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
