"""What a worker does: blobs read from a repository, cut into chunks, and made rows of the database.

A worker is a process of its own, which starts by importing this module: it imports nothing that parsing does not need.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import signal
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

from quarry_harness.chunking import chunk_blob, source_texts
from quarry_harness.errors import InvalidInputError, QuarryError
from quarry_harness.git import BlobReader, read_blobs
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.trees import PARSE_CPU_S, PARSE_MEMORY_BYTES
from quarry_harness.types import Chunk, ParsedBlob

DAMAGED = "Delete that folder, then run quarry fetch and quarry chunk again."


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
    hand_back: int  # the worker hands back what it has when it holds so many bytes of text


class Source(NamedTuple):
    """One source to be cut into chunks."""

    data: bytes
    dialect: str


# How a source in a dialect becomes chunks, and how blobs of a repository are read.
Cut: TypeAlias = Callable[[bytes, str], ParsedBlob]
Read: TypeAlias = Callable[[Path, Iterable[str], int], Iterator[tuple[str, int, bytes | None]]]


class Strings(NamedTuple):
    """A column of texts as Arrow lays it out: their UTF-8 end to end, and where each begins, and the last one ends."""

    data: bytes
    offsets: array[int]


Column: TypeAlias = "Strings | array[int]"


class Parsed(NamedTuple):
    """What became of some blobs of a batch: rows of the tables `blob` and `chunk`."""

    blobs: dict[str, Column]
    chunks: dict[str, Column]
    parsed: int  # blobs
    size: int  # of those blobs, in bytes
    held: int  # bytes of text, and something for a blob's own row


def parse_batch(batch: Batch, cut: Cut = chunk_blob, read: Read = read_blobs) -> Iterator[Parsed]:
    """Yields what became of the blobs, in order, whenever enough text is gathered, and at the end.

    Raises InvalidInputError where a blob is missing; what was parsed before it has been yielded, or is lost.
    """
    rows = _Rows(cut)
    contents = read(batch.folder, (blob.oid for blob in batch.blobs), MAX_BLOB_BYTES)
    for blob, (oid, length, data) in zip(batch.blobs, contents, strict=False):
        if oid != blob.oid:
            raise RuntimeError(f"{batch.folder}: git answers {oid} where {blob.oid} was asked for")
        if data is None and length < 0 and blob.oid not in batch.left_out:
            raise InvalidInputError(f"{batch.folder}: blob {blob.oid} is missing.", DAMAGED)
        rows.add(blob, batch.rules[blob.dialect], length, data)
        if rows.held >= batch.hand_back:
            yield rows.parsed()
            rows = _Rows(cut)
    if rows.blobs:
        yield rows.parsed()


class _Rows:
    """The rows of one `Parsed`, as they come together."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.blobs: list[tuple[Any, ...]] = []
        self.chunks: list[Chunk] = []
        # Columns that a chunk does not have: its blob's id, its number in the blob, its text.
        self.ids: list[int] = []
        self.ordinals: list[int] = []
        self.texts: list[bytes] = []
        self.size = 0
        self.held = 0  # bytes of text, and something for a blob's own row

    def add(self, blob: Blob, rules: str, length: int, data: bytes | None) -> None:
        """Parses a blob. Without its content, and with a length below 0 where that is unknown, it was too large."""
        self.size += max(length, 0)
        self.held += 200
        if data is None:
            self.blobs.append((*blob, rules, max(length, 0), 0, "too_large", 0))
            return
        parsed = self.cut(data, blob.dialect)
        self.blobs.append((*blob, rules, length, parsed.lines, parsed.status, parsed.error_count))
        if parsed.chunks:
            texts = source_texts(data, parsed.chunks)
            self.chunks.extend(parsed.chunks)
            self.ids.extend([blob.id] * len(texts))
            self.ordinals.extend(range(len(texts)))
            self.texts.extend(texts)
            self.held += sum(map(len, texts))

    def parsed(self) -> Parsed:
        fields = zip(*self.chunks, strict=True) if self.chunks else [()] * len(Chunk._fields)
        return Parsed(
            _table(_BLOB_COLUMNS, zip(*self.blobs, strict=True)),
            _table(_CHUNK_COLUMNS, (self.ids, self.ordinals, *fields, self.texts)),
            len(self.blobs),
            self.size,
            self.held,
        )


def serve(answers_to: int) -> None:
    """Answers pickled requests on standard input, until there are no more, on this file descriptor.

    Says once that it can work: True, or False where it is allowed less memory than a parser may take. Then a `Batch`
    is answered with what `parse_batch` yields of it, a `Source` with what `chunk_blob` returns; then None, or the
    exception. Does not return: it ends the process then, in the middle of one when nobody is left to send another, and
    with a signal past the limits of `trees`.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(answers_to, "wb")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    # Rows are many and hold no cycles: to look through them for some costs one to three percent.
    gc.set_threshold(50_000)
    threading.stack_size(_STACK_BYTES)
    repository = _Repository()
    # Without it this process ends after its batch.
    with suppress(RuntimeError):
        threading.Thread(target=_end_with_input, args=(repository,), daemon=True).start()
    with suppress(BrokenPipeError, EOFError, pickle.UnpicklingError):
        send(answers, all(_enough(kind) for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)))
        while True:
            request = pickle.load(requests)  # noqa: S301  # of the process that started this one
            last: Exception | None = None
            try:
                with closing(_Limited()) as limited:
                    for piece in _pieces(request, limited.cut, repository.read):
                        send(answers, piece)
            except BrokenPipeError:
                raise
            except QuarryError as error:
                last = error
            except Exception as error:  # noqa: BLE001  # raised where it is read, with the place that pickling loses
                last = _fault(error)
            if last is not None:
                repository.close()
            send(answers, last)
    # Without the interpreter's own end, which takes longer.
    repository.end_process()


def _pieces(request: Batch | Source, cut: Cut, read: Read) -> Iterable[Parsed | ParsedBlob]:
    return parse_batch(request, cut, read) if isinstance(request, Batch) else (cut(*request),)


class _Repository:
    """The repository of the last batch, and its git: to start one costs as much as a few hundred small blobs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # of the git, which one thread starts and another may end
        self.folder: Path | None = None
        self.reader: BlobReader | None = None

    def read(self, folder: Path, oids: Iterable[str], max_bytes: int) -> Iterator[tuple[str, int, bytes | None]]:
        """Yields what `read_blobs` does, and raises it. When not all was taken, it is to be closed."""
        with self.lock:
            if self.reader is None or self.folder != folder or self.reader.has_ended():
                self._end()
                self.folder, self.reader = folder, BlobReader(folder)
            return self.reader.read(oids, max_bytes)

    def close(self) -> None:
        """Ends the git."""
        with self.lock:
            self._end()

    def end_process(self) -> None:
        """Ends the git, and this process before it could start another, or end without having ended it."""
        with self.lock:
            with suppress(Exception):
                self._end()
            os._exit(0)

    def _end(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = None


# What a thread's stack may take counts as memory, and may be set to gigabytes.
_STACK_BYTES = 1 << 20


def _enough(kind: int) -> bool:
    """Whether a limit on memory that was set from outside leaves a parser what it may take."""
    limit, _ = resource.getrlimit(kind)
    return limit == resource.RLIM_INFINITY or limit >= PARSE_MEMORY_BYTES


class _Limited:
    """What cuts as `chunk_blob` does, in a process that the system ends past the limits of `trees`."""

    def __init__(self) -> None:
        self.memory, self.most = resource.getrlimit(resource.RLIMIT_DATA)
        self.limited = False

    def cut(self, data: bytes, dialect: str) -> ParsedBlob:
        if not self.limited:
            # Not before there is something to cut: git has been started then, and may need more.
            if self.memory == resource.RLIM_INFINITY or self.memory > PARSE_MEMORY_BYTES:
                resource.setrlimit(resource.RLIMIT_DATA, (PARSE_MEMORY_BYTES, self.most))
            self.limited = True
        signal.setitimer(signal.ITIMER_PROF, PARSE_CPU_S)
        try:
            return chunk_blob(data, dialect)
        except MemoryError:
            os.abort()  # as the parser ends where it is refused memory

    def close(self) -> None:
        """Lifts the limits."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (self.memory, self.most))


def _fault(error: Exception) -> Exception:
    import traceback  # a worker that has no fault starts without it

    told = RuntimeError(f"{type(error).__name__} in a parsing process: {error}")
    told.add_note(traceback.format_exc())
    return told


def _end_with_input(repository: _Repository) -> None:
    """Ends this process, in the middle of a batch too, when nobody is left to send another."""
    ends = select.poll()
    ends.register(0, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in ends.poll()):
        pass
    repository.end_process()


def send(stream: IO[bytes], thing: object) -> None:
    """Writes a thing to a pipe, to be read with `pickle.load`."""
    pickle.dump(thing, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


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
