"""The chunk stage: every source blob of the fetched revisions parsed once per dialect, one transaction a repository."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from quarry_harness.chunking import MAX_BLOB_BYTES, chunk_blob, source_text
from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.fetching import absent_blobs
from quarry_harness.git import NOT_FILES, list_tree, read_blobs
from quarry_harness.languages import dialect_of_path, reads_headers_as_cpp
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    listing_state,
    missing_revision,
    repository_folder,
    require_fetched,
    shown_path,
)
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress, TreeEntry

FILE_MODES = frozenset({"100644", "100755", "100664"})
NOT_SOURCE = "not_source"
DAMAGED = "Delete that folder, then run quarry fetch and quarry chunk again."

# A worker hands back what it has when the text it holds grows past this, so memory is bounded by jobs, not by blobs.
_HAND_BACK_BYTES = 8_000_000
_BATCH_BLOBS = 1024


class Blob(NamedTuple):
    """A blob to parse: its number in the database, its object id, and the dialect its path asks for."""

    id: int
    oid: str
    dialect: str


# Blob rows, chunk rows, and the blobs that were not parsed yet.
_Batch: TypeAlias = tuple[pa.Table, pa.Table, Sequence[Blob]]


def chunk(workspace: Path, image: str, jobs: int, progress: Progress) -> dict[str, Any]:
    """Chunks what is not chunked yet; returns the counts of the whole selection and of this run.

    Keys: revisions, files, blobs, parsed and parsed_bytes (blobs parsed now), chunks, bytes (of the distinct blobs),
    seconds, skipped {reason: files}, other_files (not of the eleven languages), missing (revisions that were not
    fetched), listed (revisions listed now). Raises InvalidInputError, after the others are chunked and kept, where a
    repository is damaged.
    """
    started = time.monotonic()
    rules = chunk_rules()
    state = listing_state(rules)
    with Store.open(workspace) as store, _pool(jobs) as pool:
        require_fetched(store, image)
        store.drop_stale_blobs(rules)
        revisions = store.revisions(image)
        have = [r for r in revisions if r.status in HAVE]
        waiting: dict[str, list[RevisionRow]] = {}
        for revision in have:
            if revision.rules != state:
                waiting.setdefault(revision.repo, []).append(revision)
        parsed = parsed_bytes = 0
        damaged: list[InvalidInputError] = []
        for done, (repo, group) in enumerate(waiting.items()):
            progress(done, len(waiting), repo)
            try:
                with store.transaction():
                    folder = repository_folder(workspace, repo)
                    blobs, size = _chunk_repository(store, folder, group, rules, state, pool, ahead=2 * jobs)
            except InvalidInputError as error:
                # One damaged repository must not keep the others waiting.
                damaged.append(error)
                continue
            parsed += blobs
            parsed_bytes += size
            progress(done + 1, len(waiting), repo)
        if damaged:
            more = f" ({len(damaged) - 1} more repositories are damaged)" if len(damaged) > 1 else ""
            raise InvalidInputError(f"{damaged[0].message}{more}", f"{DAMAGED} The other repositories are chunked.")
        summary = store.chunk_summary([r.id for r in have])
    return {
        "revisions": len(have),
        **summary,
        "parsed": parsed,
        "parsed_bytes": parsed_bytes,
        "listed": sum(len(group) for group in waiting.values()),
        "missing": [missing_revision(r) for r in revisions if r.status not in HAVE],
        "seconds": round(time.monotonic() - started, 3),
    }


def _chunk_repository(
    store: Store,
    folder: Path,
    revisions: Sequence[RevisionRow],
    rules: dict[str, str],
    state: str,
    pool: Executor,
    ahead: int,
) -> tuple[int, int]:
    """Lists the revisions of one repository and parses its new blobs; returns how many, and their bytes."""
    gold_paths = store.gold_paths(revisions[0].repo)
    ids: dict[tuple[str, str], int] = {}
    to_parse: list[Blob] = []
    next_id = store.next_blob_id()
    for revision in revisions:
        rows, other = _sources(list(list_tree(folder, revision.sha)), gold_paths)
        unknown = {(oid, dialect) for _, oid, dialect, _ in rows if dialect} - ids.keys()
        ids.update(store.known_blobs(unknown, rules))
        entries = []
        for path, oid, dialect, skip in rows:
            if dialect and (oid, dialect) not in ids:
                ids[oid, dialect] = next_id
                to_parse.append(Blob(next_id, oid, dialect))
                next_id += 1
            entries.append((path, ids[oid, dialect] if dialect else -1, skip or "source"))
        store.replace_entries(revision.id, state, entries, other)
    size = 0
    for blobs, chunks in _parsed(folder, to_parse, rules, pool, ahead):
        store.add_blobs(blobs, chunks)
        size += pc.sum(blobs["bytes"]).as_py()
    return len(to_parse), size


def _sources(tree: Sequence[TreeEntry], gold_paths: set[str]) -> tuple[list[tuple[str, str, str, str]], int]:
    """Returns (path, oid, dialect, skip reason) of the files that matter, by path, and how many others there are.

    dialect is "" where the tree alone says that the file is skipped. A file that gold names is kept whatever it is, so
    that an unresolved unit can say why.
    """
    # C or C++ headers: decided by what else the revision holds.
    cpp_headers = reads_headers_as_cpp(entry.path for entry in tree)
    rows = []
    other = 0
    for entry in tree:
        dialect = dialect_of_path(entry.path, cpp_headers) or ""
        path = shown_path(entry.path)
        if not dialect and path not in gold_paths:
            other += 1
        elif not dialect:
            rows.append((path, entry.oid, "", NOT_SOURCE))
        elif entry.mode in FILE_MODES:
            rows.append((path, entry.oid, dialect, ""))
        else:
            rows.append((path, entry.oid, "", NOT_FILES.get(entry.mode, f"mode_{entry.mode}")))
    return sorted(rows), other


@contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    """Who parses while this thread writes: a thread for one job, processes for more.

    Neither parsing nor walking a tree releases the interpreter lock, so threads would share one core; writing to the
    database does, so one parsing thread and the writing go on side by side.
    """
    # Not fork: the parent holds DuckDB's threads, which a forked child would inherit half dead.
    spawn = multiprocessing.get_context("spawn")
    pool = ThreadPoolExecutor(1) if jobs == 1 else ProcessPoolExecutor(jobs, spawn, initializer=_end_with_parent)
    try:
        yield pool
    finally:
        # After an interruption the batches that wait are not worth waiting for.
        pool.shutdown(cancel_futures=True)


def _submit(pool: Executor, folder: Path, blobs: Sequence[Blob], rules: dict[str, str]) -> Future[_Batch]:
    """Hands a batch to the pool. A process that this starts leaves signals to the one that started it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return pool.submit(parse_blobs, folder, blobs, rules)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a worker: ends it when the process that started it is gone, however that ended (kill -9 tells nobody)."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _parsed(
    folder: Path, blobs: Sequence[Blob], rules: dict[str, str], pool: Executor, ahead: int
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yields (blob rows, chunk rows) until every blob is parsed, in the same order whatever the number of workers.

    ahead: how many batches are in hand at once.
    """
    queue: deque[Future[_Batch]] = deque()
    batches = (blobs[start : start + _BATCH_BLOBS] for start in range(0, len(blobs), _BATCH_BLOBS))
    try:
        while True:
            while len(queue) < ahead and (batch := next(batches, None)):
                queue.append(_submit(pool, folder, batch, rules))
            if not queue:
                return
            blob_rows, chunk_rows, rest = queue.popleft().result()
            if rest:
                queue.appendleft(_submit(pool, folder, rest, rules))
            yield blob_rows, chunk_rows
    except BrokenProcessPool as error:
        raise EnvironmentProblem(
            f"{folder}: a parsing process was ended from outside (out of memory?).",
            "Run it again, with --jobs 1 if memory is short; finished repositories are kept.",
        ) from error


def parse_blobs(folder: Path, blobs: Sequence[Blob], rules: dict[str, str]) -> _Batch:
    """Parses blobs until enough text is gathered; returns blob rows, chunk rows and the blobs not yet parsed."""
    blob_rows: list[tuple[Any, ...]] = []
    chunk_rows: list[tuple[Any, ...]] = []
    held = 0
    # What the fetch left out on purpose, for its size.
    left_out = {absent.oid for absent in absent_blobs(folder)}
    for blob, (_, size, data) in zip(blobs, _read(folder, blobs), strict=False):
        if data is None:
            if size < 0 and blob.oid not in left_out:
                raise InvalidInputError(f"{folder}: blob {blob.oid} is missing.", DAMAGED)
            status = "too_large"
            blob_rows.append((*blob, rules[blob.dialect], max(size, 0), 0, status, 0))
            continue
        parsed = chunk_blob(data, blob.dialect)
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        blob_rows.append((*blob, rules[blob.dialect], size, lines, parsed.status, parsed.error_count))
        for ordinal, c in enumerate(parsed.chunks):
            text = source_text(data, c)
            held += len(text)
            chunk_rows.append(
                (blob.id, ordinal, c.language, c.kind, c.name, c.container, c.qualified_name)
                + (c.start_line, c.end_line, c.start_byte, c.end_byte, text)
            )
        held += 200
        if held > _HAND_BACK_BYTES:
            break
    return _table(blob_rows, _BLOB_SCHEMA), _table(chunk_rows, _CHUNK_SCHEMA), blobs[len(blob_rows) :]


def _read(folder: Path, blobs: Iterable[Blob]) -> Iterator[tuple[str, int, bytes | None]]:
    return read_blobs(folder, (blob.oid for blob in blobs), MAX_BLOB_BYTES)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


_BLOB_SCHEMA = pa.schema(
    [
        *(("id", pa.int32()), ("oid", pa.string()), ("dialect", pa.string()), ("rules", pa.string())),
        *(("bytes", pa.int64()), ("lines", pa.int32()), ("status", pa.string()), ("error_count", pa.int32())),
    ]
)
_CHUNK_SCHEMA = pa.schema(
    [
        *(("blob", pa.int32()), ("ordinal", pa.int32()), ("language", pa.string()), ("kind", pa.string())),
        *(("name", pa.string()), ("container", pa.string()), ("qualified_name", pa.string())),
        *(("start_line", pa.int32()), ("end_line", pa.int32())),
        *(("start_byte", pa.int64()), ("end_byte", pa.int64()), ("text", pa.string())),
    ]
)
