"""What a worker does: blobs read from a repository, cut into chunks, and made rows of the database.

A worker is a process of its own, which starts by importing this module: it imports nothing that parsing does not need.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import traceback
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from quarry_harness.chunking import chunk_blob, source_texts
from quarry_harness.errors import EnvironmentProblem, InvalidInputError, QuarryError
from quarry_harness.git import limit_reached, read_blobs
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.types import Chunk

DAMAGED = "Delete that folder, then run quarry fetch and quarry chunk again."

# A worker hands back what it has when the text it holds grows past this, so memory is bounded by jobs, not by blobs.
_HAND_BACK_BYTES = 4_000_000
_PIECES_AHEAD = 2


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
    """What became of some blobs of a batch: rows of the tables `blob` and `chunk`."""

    blobs: dict[str, Column]
    chunks: dict[str, Column]
    parsed: int  # blobs
    size: int  # of those blobs, in bytes


def parse_batch(batch: Batch, unwanted: Callable[[], bool] = lambda: False) -> Iterator[Parsed]:
    """Yields what became of the blobs, in order, whenever enough text is gathered, and at the end.

    Stops early where nobody waits for it: `unwanted`, asked after each blob, says so. Raises InvalidInputError where a
    blob is missing; what was parsed before it has been yielded, or is lost.
    """
    folder, blobs, rules, left_out = batch
    rows = _Rows()
    for blob, (_, length, data) in zip(blobs, read_blobs(folder, (b.oid for b in blobs), MAX_BLOB_BYTES), strict=False):
        if data is None and length < 0 and blob.oid not in left_out:
            raise InvalidInputError(f"{folder}: blob {blob.oid} is missing.", DAMAGED)
        rows.add(blob, rules[blob.dialect], length, data)
        if unwanted():
            return
        if rows.held > _HAND_BACK_BYTES:
            yield rows.parsed()
            rows = _Rows()
    if rows.blobs:
        yield rows.parsed()


class _Rows:
    """The rows of one `Parsed`, as they come together."""

    def __init__(self) -> None:
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
        if data is None:
            self.blobs.append((*blob, rules, max(length, 0), 0, "too_large", 0))
            return
        parsed = chunk_blob(data, blob.dialect)
        self.blobs.append((*blob, rules, length, parsed.lines, parsed.status, parsed.error_count))
        self.held += 200
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
        )


class Answer:
    """What a worker gives for one batch, piece by piece, to one reader."""

    def __init__(self) -> None:
        self.unwanted = False
        self._pieces: SimpleQueue[Parsed | BaseException | None] = SimpleQueue()
        # The worker waits when it is so much ahead, which bounds what all of them hold.
        self._room = threading.Semaphore(_PIECES_AHEAD)

    def __iter__(self) -> Iterator[Parsed]:
        """Yields the pieces, and raises what the worker did."""
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            self._room.release()
            yield piece

    def fill(self, pieces: Iterable[Parsed]) -> None:
        """Takes all the pieces, and passes them on while they are wanted; and then that they are all, or why not."""
        last: BaseException | None = None
        try:
            for piece in pieces:
                if not self.unwanted:
                    self._room.acquire()
                    self._pieces.put(piece)
        except BaseException as error:  # noqa: BLE001  # raised again where it is read
            last = error
        self._pieces.put(last)

    def cancel(self) -> None:
        """Tells that nobody reads on: a thread stops soon, a process parses its batch to the end, for nothing."""
        self.unwanted = True
        self._room.release()


@contextmanager
def workers(jobs: int) -> Iterator[Callable[[Batch], Answer]]:
    """Gives the function that hands a batch to the next free worker: a thread for one job, processes for more.

    Neither parsing nor walking a tree releases the interpreter lock, so threads would share one core; git and the
    database do their work without it, so one parsing thread and the storing go on side by side.
    """
    processes: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    answers: WeakSet[Answer] = WeakSet()

    def parse(batch: Batch, answer: Answer) -> None:
        if answer.unwanted:
            return
        if not processes:
            answer.fill(parse_batch(batch, lambda: answer.unwanted))
            return
        process = idle.get()
        try:
            answer.fill(process.parse(batch))
        finally:
            idle.put(process)

    pool = ThreadPoolExecutor(jobs)

    def submit(batch: Batch) -> Answer:
        answer = Answer()
        answers.add(answer)  # first, so that an interruption finds it
        try:
            pool.submit(parse, batch, answer)
        except RuntimeError as error:
            raise limit_reached(f"no thread can be started ({error}).") from error
        return answer

    try:
        for _ in range(jobs if jobs > 1 else 0):
            processes.append(_Worker())
            idle.put(processes[-1])
        yield submit
    finally:
        # After an interruption neither the batches that wait nor those at work are worth waiting for.
        for answer in list(answers):
            answer.cancel()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.end()
        pool.shutdown()
        for process in processes:
            process.close()


class _Worker:
    """A process that runs `serve`, and is asked by one thread.

    Not of multiprocessing, whose processes import the program's main module and all that it needs, and need a third
    process. This one ends when its input does, however the program that started it ended (kill -9 tells nobody).
    """

    def __init__(self) -> None:
        # The same package as this process has, wherever that came from.
        path = [str(Path(entry).absolute()) for entry in sys.path]
        program = f"import sys; sys.path[:] = {path!r}; from {__name__} import serve; serve()"
        # Signals are for the program that started it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise EnvironmentProblem(
                f"{sys.executable}: a parsing process cannot be started ({error.strerror}).",
                "Run it with fewer --jobs.",
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def parse(self, batch: Batch) -> Iterator[Parsed]:
        """Yields what `parse_batch` does, and raises it; EnvironmentProblem where the process was ended."""
        try:
            _send(cast("IO[bytes]", self.process.stdin), batch)
            while (piece := pickle.load(cast("IO[bytes]", self.process.stdout))) is not None:  # noqa: S301  # ours
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise EnvironmentProblem(
                f"{batch.folder}: a parsing process was ended from outside (out of memory?).",
                "Run it again, with --jobs 1 if memory is short; finished repositories are kept.",
            ) from error

    def end(self) -> None:
        """Ends the process, whatever it is doing; who waits for its answer is told."""
        self.process.kill()

    def close(self) -> None:
        """Closes its pipes, when nobody asks it any more."""
        with suppress(BrokenPipeError), self.process:
            pass


def serve() -> None:
    """Answers pickled batches on standard input, until there are no more.

    Each with what `parse_batch` yields of it, and None at its end, or the exception.
    """
    batches, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Whatever prints must not end up among the answers.
    os.dup2(2, 1)
    # Without it this process ends after its batch.
    with suppress(RuntimeError):
        threading.Thread(target=_end_with_input, daemon=True).start()
    with suppress(BrokenPipeError, EOFError):
        while True:
            batch = pickle.load(batches)  # noqa: S301  # of the process that started this one
            last: Exception | None = None
            try:
                for piece in parse_batch(batch):
                    _send(answers, piece)
            except BrokenPipeError:
                raise
            except QuarryError as error:
                last = error
            except Exception as error:  # noqa: BLE001  # raised where it is read, with the place that pickling loses
                last = RuntimeError(f"{type(error).__name__} in a parsing process: {error}")
                last.add_note(traceback.format_exc())
            _send(answers, last)


def _end_with_input() -> None:
    """Ends this process, in the middle of a batch too, when nobody is left to send another."""
    ends = select.poll()
    ends.register(0, select.POLLHUP)
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in ends.poll()):
        pass
    os._exit(0)


def _send(stream: IO[bytes], thing: object) -> None:
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
