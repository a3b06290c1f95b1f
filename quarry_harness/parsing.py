"""What a worker does: blobs read from a repository, cut into chunks, and made rows of the database.

A worker is a process of its own, which starts by importing this module: it imports nothing that parsing does not need.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from quarry_harness.chunking import MAX_BLOB_BYTES, chunk_blob, source_texts
from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.git import read_blobs

DAMAGED = "Delete that folder, then run quarry fetch and quarry chunk again."

# A worker hands back what it has when the text it holds grows past this, so memory is bounded by jobs, not by blobs.
_HAND_BACK_BYTES = 8_000_000


class Blob(NamedTuple):
    """A blob to parse: its number in the database, its object id, and the dialect its path asks for."""

    id: int
    oid: str
    dialect: str


class Batch(NamedTuple):
    """Blobs of one repository to be parsed by one worker."""

    folder: Path
    blobs: Sequence[Blob]
    rules: dict[str, str]  # dialect -> what its chunks are marked with
    left_out: frozenset[str]  # object ids that the fetch left out for their size


class Strings(NamedTuple):
    """A column of texts as Arrow lays it out: their UTF-8 end to end, and where each begins, and the last one ends."""

    data: bytes
    offsets: array[int]


Column: TypeAlias = "Strings | array[int]"


class Parsed(NamedTuple):
    """What became of a batch: rows of the tables `blob` and `chunk`, and the blobs that were not parsed yet."""

    blobs: dict[str, Column]
    chunks: dict[str, Column]
    parsed: int  # blobs
    size: int  # of those blobs, in bytes
    rest: Sequence[Blob]


def parse_batch(batch: Batch) -> Parsed:
    """Parses blobs until enough text is gathered; raises InvalidInputError where a blob is missing."""
    folder, blobs, rules, left_out = batch
    blob_rows: list[tuple[Any, ...]] = []
    columns: list[list[Any]] = [[] for _ in _CHUNK_COLUMNS]
    ids, ordinals, *fields, texts = columns
    held = size = 0
    for blob, (_, length, data) in zip(blobs, read_blobs(folder, (b.oid for b in blobs), MAX_BLOB_BYTES), strict=False):
        size += max(length, 0)
        if data is None:
            if length < 0 and blob.oid not in left_out:
                raise InvalidInputError(f"{folder}: blob {blob.oid} is missing.", DAMAGED)
            blob_rows.append((*blob, rules[blob.dialect], max(length, 0), 0, "too_large", 0))
            continue
        parsed = chunk_blob(data, blob.dialect)
        blob_rows.append((*blob, rules[blob.dialect], length, parsed.lines, parsed.status, parsed.error_count))
        # Column by column: a tuple a chunk would cost as much again as its text.
        count = len(parsed.chunks)
        ids.extend([blob.id] * count)
        ordinals.extend(range(count))
        for column, values in zip(fields, zip(*parsed.chunks, strict=True), strict=False):
            column.extend(values)
        new = source_texts(data, parsed.chunks)
        texts.extend(new)
        held += sum(map(len, new)) + 200
        if held > _HAND_BACK_BYTES:
            break
    done = len(blob_rows)
    blob_columns = zip(*blob_rows, strict=True) if blob_rows else [()] * len(_BLOB_COLUMNS)
    return Parsed(_table(_BLOB_COLUMNS, blob_columns), _table(_CHUNK_COLUMNS, columns), done, size, blobs[done:])


@contextmanager
def workers(jobs: int) -> Iterator[Callable[[Batch], Future[Parsed]]]:
    """Gives the function that hands a batch to the next free worker: a thread for one job, processes for more.

    Neither parsing nor walking a tree releases the interpreter lock, so threads would share one core; git and the
    database do their work without it, so one parsing thread and the storing go on side by side.
    """
    # Not fork: the parent holds the threads of other libraries, which a forked child would inherit half dead.
    spawn = multiprocessing.get_context("spawn")
    pool: Executor = ThreadPoolExecutor(1) if jobs == 1 else ProcessPoolExecutor(jobs, spawn, _end_with_parent)

    def submit(batch: Batch) -> Future[Parsed]:
        # A process that this starts leaves signals to the one that started it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            return pool.submit(parse_batch, batch)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield submit
    finally:
        # After an interruption the batches that wait are not worth waiting for.
        pool.shutdown(cancel_futures=True)


def outcome(result: Future[Parsed], batch: Batch) -> Parsed:
    """Waits for a batch; raises what `parse_batch` raises, and EnvironmentProblem where its process was ended."""
    try:
        return result.result()
    except BrokenProcessPool as error:
        raise EnvironmentProblem(
            f"{batch.folder}: a parsing process was ended from outside (out of memory?).",
            "Run it again, with --jobs 1 if memory is short; finished repositories are kept.",
        ) from error


def _end_with_parent() -> None:
    """In a worker: ends it when the process that started it is gone, however that ended (kill -9 tells nobody)."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _table(columns: dict[str, str], values: Iterable[Sequence[Any]]) -> dict[str, Column]:
    return {
        name: array(kind, column) if kind else _strings(column)
        for (name, kind), column in zip(columns.items(), values, strict=True)
    }


def _strings(values: Sequence[str] | Sequence[bytes]) -> Strings:
    """The column of texts, or of their UTF-8: all of one kind."""
    if values and isinstance(values[0], str):
        whole = "".join(cast("Sequence[str]", values))
        if whole.isascii():
            return Strings(whole.encode(), _offsets(values))
        values = [value.encode() for value in cast("Sequence[str]", values)]
    return Strings(b"".join(cast("Sequence[bytes]", values)), _offsets(values))


def _offsets(values: Sequence[str] | Sequence[bytes]) -> array[int]:
    return array("q", accumulate(map(len, values), initial=0))


# Column -> the letter that module array has for its numbers, "" for texts.
_BLOB_COLUMNS = {
    "id": "i",
    "oid": "",
    "dialect": "",
    "rules": "",
    "bytes": "q",
    "lines": "i",
    "status": "",
    "error_count": "i",
}
_CHUNK_COLUMNS = {
    "blob": "i",
    "ordinal": "i",
    "language": "",
    "kind": "",
    "name": "",
    "container": "",
    "qualified_name": "",
    "start_line": "i",
    "end_line": "i",
    "start_byte": "q",
    "end_byte": "q",
    "text": "",
}
