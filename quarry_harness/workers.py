"""Processes that parse: what they are handed, what they hand back, and what becomes of a blob that ends one."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, TypeAlias, cast
from weakref import WeakSet

from quarry_harness import parsing
from quarry_harness.chunking import unparsed
from quarry_harness.errors import EnvironmentProblem
from quarry_harness.git import limit_reached
from quarry_harness.parsing import Batch, Cut, Parsed, Source, parse_batch, send
from quarry_harness.trees import PARSE_MEMORY_BYTES
from quarry_harness.types import ParsedBlob

_PIECES_AHEAD = 2
_LAST_BREATH_S = 10.0
_FAREWELL_S = 0.5


class Answer:
    """What a worker gives for one batch, piece by piece, to one reader."""

    def __init__(self) -> None:
        self.unwanted = False
        self._pieces: SimpleQueue[Parsed | BaseException | None] = SimpleQueue()
        # The worker waits when it is so much ahead, which bounds what all of them hold. Not a semaphore of threading,
        # which an interruption in the middle of its release leaves without an end.
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(_PIECES_AHEAD):
            self._room.put(None)

    def __iter__(self) -> Iterator[Parsed]:
        """Yields the pieces, and raises what the worker did."""
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            self._room.put(None)
            yield piece

    def fill(self, pieces: Iterable[Parsed]) -> None:
        """Takes all the pieces, and passes them on while they are wanted."""
        for piece in pieces:
            if not self.unwanted:
                self._room.get()
                self._pieces.put(piece)

    def end(self, why: BaseException | None) -> None:
        """Tells that there are no more pieces, or why there are not all."""
        self._pieces.put(why)

    def cancel(self) -> None:
        """Tells that nobody reads on. The process parses its batch to the end, for nothing, unless it is ended."""
        self.unwanted = True
        self._room.put(None)


@contextmanager
def workers(jobs: int) -> Iterator[Callable[[Batch], Answer]]:
    """Gives the function that hands a batch to the next free one of so many workers.

    They are processes: neither parsing nor walking a tree releases the interpreter's lock, so threads would share one
    core, and a parser can end its process. While one parses, git reads and the database stores beside it. Raises
    EnvironmentProblem where a process or a thread cannot be started; what a worker raises, the reader of its `Answer`
    gets.
    """
    processes: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    answers: WeakSet[Answer] = WeakSet()

    def parse(batch: Batch, answer: Answer) -> None:
        if answer.unwanted:
            return
        process, why = idle.get(), None
        try:
            answer.fill(process.parse(batch))
        except BaseException as error:  # noqa: BLE001  # raised again where it is read
            why = error
        # First, so that who has the whole answer finds the process idle.
        idle.put(process)
        answer.end(why)

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
        _dismiss_idle(idle)
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


# Does what `chunk_blob` does; the last argument says in messages what the source is.
Isolated: TypeAlias = Callable[[bytes, str, str], ParsedBlob]


@contextmanager
def worker() -> Iterator[Isolated]:
    """Gives the function that does what `chunk_blob` does in a process of its own, so that no source ends this one.

    Threads that call it wait for each other. Beside those of `chunk_blob` there is the status "parse_failed": a fault
    of the parser, which it has, too, where it is refused more than `trees.PARSE_MEMORY_BYTES` (on Linux).
    "parse_timeout" may mean more than `trees.PARSE_CPU_S`, too. Raises EnvironmentProblem where the process cannot
    work, or is ended from outside again and again.
    """
    process = _Worker()
    try:
        yield process.cut
        if process.is_idle():
            _dismiss([process])
    finally:
        process.end()
        process.close()


class _Ended(Exception):
    """A worker's process has ended, before its answer did."""

    def __init__(self, code: int, ready: bool | None) -> None:
        super().__init__(code)
        self.code = code  # as subprocess gives it: below 0 a signal
        self.ready = ready  # what it said before it took requests, as `parsing.serve` has it; None where it did not

    @property
    def status(self) -> str:
        """What is recorded of the source that did it, as `worker` says; "" where no source did."""
        if self.ready is not None and self.code == -signal.SIGPROF:
            return "parse_timeout"
        return "parse_failed" if self.ready and -self.code in _FAULTS else ""

    @property
    def how(self) -> str:
        """For messages."""
        names = {number.value: number.name for number in signal.Signals}
        return f"exit code {self.code}" if self.code >= 0 else names.get(-self.code, f"signal {-self.code}")


_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP})


class _Worker:
    """A process that parses, and is asked by one thread. One that ends is followed by another."""

    def __init__(self) -> None:
        self._wanted = True
        self._lock = threading.Lock()  # of the process, which one thread replaces and another may end
        self._process = _Process()
        self._asking = threading.Lock()

    def parse(self, batch: Batch) -> Iterator[Parsed]:
        """Yields what `parse_batch` does, and raises it; EnvironmentProblem where no process can do the work.

        Where a process ends, the next hands back blob by blob, so that it is known at which one it ends; that one is
        parsed alone by a third, which nothing else has used. If this one ends, too, the blob is given up, and its row
        says why. One that took too much time is given up at once: to wait again would tell nothing.
        """
        at, care = 0, _MANY
        while at < len(batch.blobs):
            blobs = batch.blobs[at : at + 1] if care == _ALONE else batch.blobs[at:]
            part = batch._replace(blobs=blobs, hand_back=batch.hand_back if care == _MANY else 0)
            try:
                for piece in self._process.ask(part):
                    at += piece.parsed
                    yield piece
                care = _MANY
            except _Ended as ended:
                self._start_anew(ended, str(batch.folder))
                if at == len(batch.blobs):
                    return
                if care < (_ONE_BY_ONE if ended.status == "parse_timeout" else _ALONE):
                    care += 1
                    continue
                blob = batch.blobs[at]
                given_up = _given_up(ended, f"{batch.folder}: blob {blob.oid}", _FEWER_JOBS)
                yield from parse_batch(batch._replace(blobs=[blob]), given_up)
                at, care = at + 1, _MANY

    def cut(self, data: bytes, dialect: str, place: str) -> ParsedBlob:
        """Returns what `chunk_blob` does, or why the source is given up, in its second process; raises like `parse`."""
        fresh = False
        with self._asking:
            while True:
                try:
                    (parsed,) = self._process.ask(Source(data, dialect))
                    return cast(ParsedBlob, parsed)
                except _Ended as ended:
                    self._start_anew(ended, place)
                    if fresh or ended.status == "parse_timeout":
                        return _given_up(ended, place, _AGAIN)(data, dialect)
                    fresh = True

    def is_idle(self) -> bool:
        """Whether nobody waits for what `cut` returns."""
        return not self._asking.locked()

    def dismiss(self) -> bool:
        """Tells the process that there is no more to do; returns whether it had anything to do before."""
        with self._lock:
            self._wanted = False
            return self._process.dismiss()

    def wait(self, seconds: float) -> None:
        """Waits for the end of the process, but not longer."""
        self._process.wait(seconds)

    def end(self) -> None:
        """Ends the process, whatever it is doing; who waits for its answer is told."""
        with self._lock:
            self._wanted = False
            self._process.end()

    def close(self) -> None:
        """Closes its pipes, when nobody asks it any more."""
        self._process.close()

    def _start_anew(self, ended: _Ended, place: str) -> None:
        """Starts another process; raises EnvironmentProblem where it would end as well, or nobody wants its answers."""
        with self._lock:
            if not self._wanted:
                raise _from_outside(ended, place, _AGAIN)
            if ended.code >= 0 or (ended.ready is None and -ended.code in _FAULTS):
                raise EnvironmentProblem(
                    f"{place}: a parsing process ended by itself ({ended.how}).",
                    "Its own message, if it had one, is above.",
                )
            process = _Process()
            self._process.close()
            self._process = process


def _dismiss_idle(idle: SimpleQueue[_Worker]) -> None:
    """Dismisses those that are idle now, and leaves them there."""
    resting: list[_Worker] = []
    with suppress(Empty):
        while True:
            resting.append(idle.get_nowait())
    _dismiss(resting)
    for process in resting:
        idle.put(process)


def _dismiss(processes: Sequence[_Worker]) -> None:
    """Lets idle ones end by themselves, and with each its git, which would be nobody's child."""
    used = [process for process in processes if process.dismiss()]
    until = time.monotonic() + _FAREWELL_S
    for process in used:
        process.wait(max(0.0, until - time.monotonic()))


# How the blobs of a batch are handed to a process.
_MANY, _ONE_BY_ONE, _ALONE = range(3)


class _Process:
    """One process that runs `parsing.serve`.

    Not of multiprocessing, whose processes import the program's main module and all that it needs, and need a third
    process. This one ends when its input does, however the program that started it ended (kill -9 tells nobody). Its
    answers have a pipe of their own, since much may print.
    """

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._answers = os.fdopen(reading, "rb")
        self._ready: bool | None = None
        # The same package as this process has, wherever that came from.
        path = [str(Path(entry).absolute()) for entry in sys.path]
        program = f"import sys; sys.path[:] = {path!r}; from {parsing.__name__} import serve; serve({writing})"
        # Signals are for the program that started it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    f"utf8={sys.flags.utf8_mode}",
                    *["-E"] * sys.flags.ignore_environment,
                    "-c",
                    program,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[writing],
            )
        except OSError as error:
            self._answers.close()
            raise EnvironmentProblem(
                f"{sys.executable}: a parsing process cannot be started ({error.strerror}).", _FEWER_JOBS
            ) from error
        finally:
            os.close(writing)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def ask(self, request: Batch | Source) -> Iterator[Any]:
        """Yields the answers to a request, or raises them; _Ended where the process ends before they do."""
        stdin = cast("IO[bytes]", self._process.stdin)
        if stdin.closed:  # it was dismissed
            raise _Ended(self._code(), self._ready)
        try:
            send(stdin, request)
            if self._ready is None:
                self._ready = pickle.load(self._answers)  # noqa: S301  # all of this pipe is ours
            while (piece := pickle.load(self._answers)) is not None:  # noqa: S301
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise _Ended(self._code(), self._ready) from error

    def _code(self) -> int:
        """How the process ended, which can be read before it has; one that only closed its pipes is ended."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_LAST_BREATH_S)
        self._process.kill()
        return self._process.wait()

    def dismiss(self) -> bool:
        """Tells it that there is no more to do; returns whether it had anything to do before."""
        with suppress(BrokenPipeError):
            cast("IO[bytes]", self._process.stdin).close()
        return self._ready is not None

    def wait(self, seconds: float) -> None:
        """Waits for its end, but not longer."""
        # A wait with a limit looks again after ever longer sleeps; that its pipe has ended is told at once.
        ended = select.poll()
        ended.register(self._answers, 0)
        if ended.poll(1000 * seconds):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        self._process.kill()

    def close(self) -> None:
        """Closes its pipes, when it has ended or is about to."""
        with suppress(BrokenPipeError), self._answers, self._process:
            pass


_AGAIN = "Run it again; where memory is short, with less beside it."
_FEWER_JOBS = "Run it again, with fewer --jobs if memory is short; finished repositories are kept."


def _given_up(ended: _Ended, place: str, hint: str) -> Cut:
    """What cuts a source that ended a process; raises EnvironmentProblem where it was not the source's fault."""
    if not ended.status:
        raise _from_outside(ended, place, hint)
    return lambda data, _: unparsed(data, ended.status)


def _from_outside(ended: _Ended, place: str, hint: str) -> EnvironmentProblem:
    if ended.ready is False and -ended.code in _FAULTS:
        return EnvironmentProblem(
            f"{place}: a parsing process ended ({ended.how}), which is allowed less memory than the"
            f" {PARSE_MEMORY_BYTES >> 20} MiB that a parser may take.",
            "Raise the limits on memory (ulimit -d and -v) and run it again.",
        )
    memory = ": out of memory?" if ended.code == -signal.SIGKILL else ""
    return EnvironmentProblem(f"{place}: a parsing process was ended from outside ({ended.how}{memory}).", hint)
