"""The chunk stage: every source blob of the fetched revisions parsed once per dialect.

While workers parse, this thread lists the next trees and stores what is parsed: the work of several repositories is in
hand at once, and is stored in their order, so that an undisturbed stage gives the same database with any number of
workers. A revision is listed after all its blobs are stored; blobs are of use without it (a stage that goes on does not
parse them again; `quarry gc` takes them for unneeded), so a transaction ends when it holds enough.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from quarry_harness.errors import InvalidInputError
from quarry_harness.git import NOT_FILES, list_tree
from quarry_harness.languages import dialect_of_path, reads_headers_as_cpp
from quarry_harness.layout import absent_blobs
from quarry_harness.parsing import DAMAGED, Batch, Blob, Column, Parsed, Strings
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
from quarry_harness.workers import Answer, workers

FILE_MODES = frozenset({"100644", "100755", "100664"})
NOT_SOURCE = "not_source"

# A batch has at most this many blobs, and fewer towards the end, so that no worker is left alone with a long one.
_BATCH_BLOBS = 256
_FEW_BLOBS = 4
# A worker hands back what it has when the text it holds grows past this, so memory is bounded by jobs, not by blobs.
HAND_BACK_BYTES = 4_000_000
# And so much text is stored with one statement, or more.
_STORED_BYTES = 2_000_000
# What a transaction holds before it is committed stays in memory until then, and is lost with the process.
_TRANSACTION_BYTES = 16_000_000

_Submit: TypeAlias = Callable[[Batch], Answer]


class _Listing(NamedTuple):
    """The sources of a revision, to be kept: rows of the table `entry`, and how many other files it has."""

    repo: str
    revision: int
    rows: pa.Table
    digest: int
    other: int


class _Parsing(NamedTuple):
    """Blobs on their way through a worker."""

    repo: str
    batch: Batch
    result: Answer


class _Damage(NamedTuple):
    """Why a repository cannot be listed further."""

    repo: str
    error: InvalidInputError


_Step: TypeAlias = _Listing | _Parsing | _Damage


@dataclass
class _Done:
    """What a run has parsed."""

    blobs: int = 0
    bytes: int = 0


def chunk(workspace: Path, image: str, jobs: int, progress: Progress) -> dict[str, Any]:
    """Chunks what is not chunked yet; returns the counts of the whole selection and of this run.

    Keys: revisions, files, blobs, parsed and parsed_bytes (blobs parsed now), chunks, bytes (of the distinct blobs),
    seconds, skipped {reason: files}, other_files (not of the eleven languages), missing (revisions that were not
    fetched), listed (revisions listed now). Raises InvalidInputError, after the others are chunked and kept, where a
    repository is damaged, and EnvironmentProblem where a worker cannot be started or is ended from outside.
    """
    started = time.monotonic()
    rules = chunk_rules()
    state = listing_state(rules)
    # One thread for the database: the other cores are the workers'.
    with Store.open(workspace, threads=1) as store:
        revisions = require_fetched(store, image)
        if store.drop_stale_blobs(rules):
            revisions = store.revisions(image)
        have = [r for r in revisions if r.status in HAVE]
        waiting: dict[str, list[RevisionRow]] = {}
        for revision in have:
            if revision.rules != state:
                waiting.setdefault(revision.repo, []).append(revision)
        done = _Done()
        if waiting:
            _chunk_repositories(store, workspace, waiting, rules, state, jobs, progress, done)
        summary = store.chunk_summary([r.id for r in have])
    return {
        "revisions": len(have),
        **summary,
        "parsed": done.blobs,
        "parsed_bytes": done.bytes,
        "listed": sum(len(group) for group in waiting.values()),
        "missing": [missing_revision(r) for r in revisions if r.status not in HAVE],
        "seconds": round(time.monotonic() - started, 3),
    }


def _chunk_repositories(
    store: Store,
    workspace: Path,
    waiting: dict[str, list[RevisionRow]],
    rules: dict[str, str],
    state: str,
    jobs: int,
    progress: Progress,
    done: _Done,
) -> None:
    """Lists, parses and stores, and adds up what is done."""
    todo = deque(waiting)
    damaged: list[InvalidInputError] = []
    with workers(jobs) as submit:
        while todo:
            prepare = _Preparation(store, workspace, rules, submit, jobs)
            # As many steps ahead as keep every worker busy while this thread stores and commits.
            steps = _ahead(prepare.steps([(repo, waiting[repo]) for repo in todo]), 2 * jobs + 8)
            for repo, group in groupby(steps, key=attrgetter("repo")):
                progress(len(waiting) - len(todo), len(waiting), repo)
                todo.popleft()
                try:
                    _keep_all(store, group, prepare, state, done)
                except InvalidInputError as error:
                    # One damaged repository must not keep the others waiting. What was prepared after it may rest on
                    # its blobs, and is prepared again.
                    damaged.append(error)
                    steps.close()
                    break
                progress(len(waiting) - len(todo), len(waiting), repo)
    if damaged:
        more = f" ({len(damaged) - 1} more repositories are damaged)" if len(damaged) > 1 else ""
        raise InvalidInputError(f"{damaged[0].message}{more}", f"{DAMAGED} The other repositories are chunked.")


def _ahead(steps: Iterator[_Step], many: int) -> Generator[_Step]:
    """Yields the steps as they come, each when `many` are in hand: the work of those behind it goes on meanwhile."""
    hand: deque[_Step] = deque()
    try:
        for step in steps:
            hand.append(step)
            if len(hand) == many:
                yield hand.popleft()
        while hand:
            yield hand.popleft()
    finally:
        for step in hand:
            if isinstance(step, _Parsing):
                step.result.cancel()


def _keep_all(store: Store, steps: Iterator[_Step], prepare: _Preparation, state: str, done: _Done) -> None:
    """Stores the steps of one repository, in order, in transactions of bounded size."""
    results = _results(steps)
    unfinished = True
    while unfinished:
        with store.transaction():
            unfinished = _keep(store, results, prepare, state, done)


def _results(steps: Iterator[_Step]) -> Iterator[_Listing | Parsed | Batch]:
    """Yields the listings, what the workers hand back as it comes, and each batch after all of its own."""
    for step in steps:
        if isinstance(step, _Damage):
            raise step.error
        if isinstance(step, _Listing):
            yield step
            continue
        yield from step.result
        yield step.batch


def _keep(
    store: Store, results: Iterator[_Listing | Parsed | Batch], prepare: _Preparation, state: str, done: _Done
) -> bool:
    """Stores as much as a transaction is to hold; returns whether that was enough before the end."""
    held = 0
    gathered = _Gathered(store, prepare, done)
    for result in results:
        if isinstance(result, _Listing):
            held += gathered.flush()
            store.replace_entries(result.revision, state, result.rows, result.digest, result.other)
            held += result.rows.nbytes
        else:
            held += gathered.add(result)
        if held > _TRANSACTION_BYTES:
            gathered.flush()
            return True
    gathered.flush()
    return False


class _Gathered:
    """What workers have handed back and is stored together: a statement costs more than a few rows."""

    def __init__(self, store: Store, prepare: _Preparation, done: _Done) -> None:
        self.store, self.prepare, self.done = store, prepare, done
        self.pieces: list[Parsed] = []
        self.batches: list[Batch] = []  # that end with these pieces, or before
        self.held = 0

    def add(self, result: Parsed | Batch) -> int:
        """Takes it, and stores what is enough; returns the bytes that were stored."""
        if isinstance(result, Batch):
            self.batches.append(result)
            return 0
        self.pieces.append(result)
        self.held += result.held
        return self.flush() if self.held >= _STORED_BYTES else 0

    def flush(self) -> int:
        """Stores all there is; returns its bytes."""
        size = 0
        if self.pieces:
            blobs = _arrow(piece.blobs for piece in self.pieces)
            chunks = _arrow(piece.chunks for piece in self.pieces)
            self.store.add_blobs(blobs, chunks)
            self.done.blobs += sum(piece.parsed for piece in self.pieces)
            self.done.bytes += sum(piece.size for piece in self.pieces)
            size = int(blobs.nbytes + chunks.nbytes)
        for batch in self.batches:
            self.prepare.stored(batch.blobs)
        self.pieces, self.batches, self.held = [], [], 0
        return size


def _arrow(pieces: Iterable[dict[str, Column]]) -> pa.Table:
    """The Arrow table of workers' columns, on the same memory."""
    tables = ({name: _array(column) for name, column in columns.items()} for columns in pieces)
    return pa.concat_tables(map(pa.table, tables))


def _array(column: Column) -> pa.Array:
    if isinstance(column, Strings):
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        return pa.Array.from_buffers(pa.large_string(), len(column.offsets) - 1, buffers)
    kind = {"i": pa.int32(), "q": pa.int64()}[column.typecode]
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


class _Preparation:
    """Lists trees and hands out what is to be parsed, ahead of what is stored."""

    def __init__(self, store: Store, workspace: Path, rules: dict[str, str], submit: _Submit, jobs: int) -> None:
        self.store, self.workspace, self.rules, self.submit, self.jobs = store, workspace, rules, submit, jobs
        self.next_id = store.next_blob_id()
        # (object id, dialect) -> blob id of what was handed out and is not stored yet.
        self.in_hand: dict[tuple[str, str], int] = {}

    def steps(self, waiting: Iterable[tuple[str, Sequence[RevisionRow]]]) -> Iterator[_Step]:
        """Yields what is to be kept of each repository, in order."""
        for repo, revisions in waiting:
            try:
                yield from self._repository(repo, revisions)
            except InvalidInputError as error:
                yield _Damage(repo, error)

    def stored(self, blobs: Iterable[Blob]) -> None:
        """Tells that blobs are in the database."""
        for blob in blobs:
            self.in_hand.pop((blob.oid, blob.dialect), None)

    def _repository(self, repo: str, revisions: Sequence[RevisionRow]) -> Iterator[_Step]:
        folder = repository_folder(self.workspace, repo)
        left_out = frozenset(absent.oid for absent in absent_blobs(folder))
        gold_paths = self.store.gold_paths(repo)
        ids: dict[tuple[str, str], int] = {}
        for revision in revisions:
            rows, other = _sources(list(list_tree(folder, revision.sha)), gold_paths)
            self._know({(oid, dialect) for _, oid, dialect, _ in rows if dialect} - ids.keys(), ids)
            new: list[Blob] = []
            blobs = []
            for _, oid, dialect, _ in rows:
                if dialect and (oid, dialect) not in ids:
                    ids[oid, dialect] = self.in_hand[oid, dialect] = self.next_id
                    new.append(Blob(self.next_id, oid, dialect))
                    self.next_id += 1
                blobs.append(ids[oid, dialect] if dialect else -1)
            for batch in self._batches(new):
                task = Batch(folder, batch, self.rules, left_out, HAND_BACK_BYTES)
                yield _Parsing(repo, task, self.submit(task))
            columns = {"path": [row[0] for row in rows], "blob": blobs, "status": [row[3] or "source" for row in rows]}
            listing = pa.table(columns, _ENTRY_SCHEMA)
            # Here, while workers parse: when the listing can be stored, they may have nothing left.
            yield _Listing(repo, revision.id, listing, self.store.listing_digest(listing), other)

    def _know(self, pairs: set[tuple[str, str]], ids: dict[tuple[str, str], int]) -> None:
        """Adds the ids of those blobs that are stored or in hand."""
        ids.update((pair, self.in_hand[pair]) for pair in pairs & self.in_hand.keys())
        ids.update(self.store.known_blobs(pairs - ids.keys(), self.rules))

    def _batches(self, new: Sequence[Blob]) -> Iterator[Sequence[Blob]]:
        """Yields batches, smaller towards the end."""
        start = 0
        while (left := len(new) - start) > 0:
            size = min(_BATCH_BLOBS, max(_FEW_BLOBS, left // (4 * self.jobs)))
            yield new[start : start + size]
            start += size


_ENTRY_SCHEMA = pa.schema([("path", pa.string()), ("blob", pa.int32()), ("status", pa.string())])


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
