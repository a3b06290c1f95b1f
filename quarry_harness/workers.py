"""Processes that parse: what they are handed, what they hand back, and what becomes of a blob that ends one."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, cast
from weakref import WeakSet

from quarry_harness import parsing
from quarry_harness.chunking import unparsed
from quarry_harness.errors import EnvironmentProblem
from quarry_harness.git import limit_reached
from quarry_harness.parsing import Batch, Cut, Parsed, Source, parse_batch, send
from quarry_harness.types import ParsedBlob

_PIECES_AHEAD = 2


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
    """Gives the function that hands a batch to the next free one of so many workers.

    They are processes: neither parsing nor walking a tree releases the interpreter's lock, so threads would share one
    core, and a parser can end its process. While one parses, git reads and the database stores beside it.
    """
    processes: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    answers: WeakSet[Answer] = WeakSet()

    def parse(batch: Batch, answer: Answer) -> None:
        if answer.unwanted:
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
        for _ in range(jobs):
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


@contextmanager
def worker() -> Iterator[Cut]:
    """Gives the function that does what `chunk_blob` does in a process of its own, so that no blob ends this one.

    Its further statuses are those of `_Ended.status`. It raises EnvironmentProblem where the process cannot be started
    or is ended from outside.
    """
    process = _Worker()
    try:
        yield process.cut
    finally:
        process.end()
        process.close()


class _Ended(Exception):
    """A worker's process has ended, before its answer did."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code  # as subprocess gives it: below 0 a signal

    @property
    def status(self) -> str:
        """What is recorded of the blob that did it; "" where it was ended from outside, or could not begin.

        "parse_timeout" past `trees.PARSE_CPU_S`; "parse_failed" after a fault of the parser, which it has, too, where
        it is refused more than `trees.PARSE_MEMORY_BYTES`.
        """
        if self.code == -signal.SIGPROF:
            return "parse_timeout"
        return "parse_failed" if -self.code in _FAULTS else ""


_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP})


class _Worker:
    """A process that runs `parsing.serve`, and is asked by one thread. One that ends is followed by another.

    Not of multiprocessing, whose processes import the program's main module and all that it needs, and need a third
    process. This one ends when its input does, however the program that started it ended (kill -9 tells nobody).
    """

    def __init__(self) -> None:
        self.wanted = True
        self.lock = threading.Lock()  # of `process`, which one thread replaces and another may end
        self.process = _start()

    def parse(self, batch: Batch) -> Iterator[Parsed]:
        """Yields what `parse_batch` does, and raises it; EnvironmentProblem where the process is ended from outside.

        Where it ends, the rest of the batch is handed back blob by blob; the one at which it ends again is parsed in a
        fresh process, which no other blob has used; where that ends, too, the blob is given up, with the status.
        """
        parts = [batch]
        while parts:
            part = parts.pop()
            done = 0
            try:
                for piece in self._ask(part):
                    done += piece.parsed
                    yield piece
            except _Ended as ended:
                self._start_anew(ended, str(batch.folder))
                left = part._replace(blobs=part.blobs[done:], hand_back=0)
                if part.hand_back or not left.blobs:  # not known where, or at none
                    parts += [left] * bool(left.blobs)
                    continue
                first = left._replace(blobs=left.blobs[:1])
                parts += [left._replace(blobs=left.blobs[1:])] * (len(left.blobs) > 1)
                if len(part.blobs) > 1 and ended.status != "parse_timeout":
                    parts.append(first)
                else:
                    yield from parse_batch(first, _given_up(ended, f"{batch.folder}: blob {first.blobs[0].oid}"))

    def cut(self, data: bytes, dialect: str) -> ParsedBlob:
        """Returns what `chunk_blob` does, or why the source is given up, as `parse` gives up a blob."""
        fresh = False
        while True:
            try:
                (parsed,) = self._ask(Source(data, dialect))
            except _Ended as ended:
                self._start_anew(ended, dialect)
                if fresh or ended.status == "parse_timeout":
                    return _given_up(ended, f"{len(data)} bytes of {dialect}")(data, dialect)
                fresh = True
            else:
                return cast(ParsedBlob, parsed)

    def _ask(self, request: Batch | Source) -> Iterator[Any]:
        """Yields the answers to a request, or raises them; _Ended where the process ends before they do."""
        try:
            send(cast("IO[bytes]", self.process.stdin), request)
            while (piece := pickle.load(cast("IO[bytes]", self.process.stdout))) is not None:  # noqa: S301  # ours
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise _Ended(self.process.wait()) from error

    def end(self) -> None:
        """Ends the process, whatever it is doing; who waits for its answer is told."""
        with self.lock:
            self.wanted = False
            self.process.kill()

    def close(self) -> None:
        """Closes its pipes, when nobody asks it any more."""
        with suppress(BrokenPipeError), self.process:
            pass

    def _start_anew(self, ended: _Ended, place: str) -> None:
        """Starts another process, unless the last could not work at all, or nobody wants its answers."""
        if ended.code >= 0:
            raise EnvironmentProblem(
                f"{place}: a parsing process gave up by itself (exit code {ended.code}).",
                "What it says stands above, if anything.",
            )
        with self.lock:
            if not self.wanted:
                raise _from_outside(ended, place)
            self.close()
            self.process = _start()


def _start() -> subprocess.Popen[bytes]:
    # The same package as this process has, wherever that came from.
    path = [str(Path(entry).absolute()) for entry in sys.path]
    program = f"import sys; sys.path[:] = {path!r}; from {parsing.__name__} import serve; serve()"
    # Signals are for the program that started it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise EnvironmentProblem(
            f"{sys.executable}: a parsing process cannot be started ({error.strerror}).", "Run it with fewer --jobs."
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _given_up(ended: _Ended, place: str) -> Cut:
    """What cuts a source that ended a process; raises EnvironmentProblem where it was not the source's fault."""
    if not ended.status:
        raise _from_outside(ended, place)
    return lambda data, _: unparsed(data, ended.status)


def _from_outside(ended: _Ended, place: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{place}: a parsing process was ended from outside (signal {-ended.code}; out of memory?).",
        "Run it again, with fewer --jobs if memory is short; finished repositories are kept.",
    )
