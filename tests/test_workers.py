"""Processes that parse: what they are handed and hand back, in order, whatever becomes of them."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from git_repos import git, make_repository
from parsing_workers import (
    DEADLY,
    TOO_DEEP,
    change_workers,
    make_deadly,
    needs_proc,
    signalled,
    weaken,
    workers_of_this_process,
)

from quarry_harness import parsing, workers
from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.stages.look import looking


def test_a_worker_ends_in_the_middle_of_a_batch_when_nobody_waits_for_it(tmp_path: Path) -> None:
    # The Scala parser works on this until its limit of 30 seconds.
    data = b"if (a) {" * 100_000
    folder = tmp_path / "o__r.git"
    make_repository(folder, [{"a.scala": data}])
    oid = git(folder, "hash-object", "--stdin", stdin=data)
    batch = parsing.Batch(folder, [parsing.Blob(0, oid, "scala")], {"scala": ""}, frozenset(), 0)
    command = [sys.executable, "-c", "from quarry_harness.parsing import serve; serve(1)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(pickle.dumps(batch))
        worker.stdin.flush()
        time.sleep(1)
        worker.stdin.close()
        assert worker.wait(10) == 0
        assert pickle.loads(worker.stdout.read()) is True  # noqa: S301


def test_a_fault_in_a_worker_tells_its_place(tmp_path: Path) -> None:
    with workers.workers(2) as submit:
        batch = parsing.Batch(tmp_path, [parsing.Blob(0, "0" * 40, "python")], None, frozenset(), 0)  # type: ignore[arg-type]
        make_repository(tmp_path / "r", [{"a.py": source("a")}])
        oid = git(tmp_path / "r", "hash-object", "--stdin", stdin=source("a"))
        result = submit(batch._replace(folder=tmp_path / "r", blobs=[parsing.Blob(0, oid, "python")]))
        with pytest.raises(RuntimeError, match="TypeError in a parsing process") as fault:
            list(result)
        assert "in parse_batch" in "".join(fault.value.__notes__)
        wrong = submit(batch._replace(folder=tmp_path / "r", rules={}))
        with pytest.raises(InvalidInputError, match="is missing") as told:
            list(wrong)
        assert told.value.hint


def one_batch(folder: Path, names: Sequence[str]) -> parsing.Batch:
    """The sources with these names of a repository that is made with them, where it is not there yet."""
    if not folder.exists():
        make_repository(folder, [{f"{name}.py": source(name) for name in names}])
    oids = [git(folder, "hash-object", "--stdin", stdin=source(name)) for name in names]
    blobs = [parsing.Blob(number, oid, "python") for number, oid in enumerate(oids)]
    return parsing.Batch(folder, blobs, {"python": ""}, frozenset(), 0)


def test_a_worker_goes_from_one_repository_to_another_and_back(tmp_path: Path) -> None:
    first, second = one_batch(tmp_path / "a.git", ["a", "b"]), one_batch(tmp_path / "b.git", ["c"])
    with workers.workers(1) as submit:
        answers = [submit(batch) for batch in (first, second, first, second)]
        assert [names_in(answer) for answer in answers] == [["a", "b"], ["c"]] * 2


def test_what_is_read_after_a_missing_blob_is_what_was_asked_for(tmp_path: Path) -> None:
    whole = one_batch(tmp_path / "a.git", ["a", "b", "c"])
    broken = whole._replace(blobs=[whole.blobs[0], parsing.Blob(9, "1" * 40, "python"), *whole.blobs[1:]])
    with workers.workers(1) as submit:
        answers = [submit(batch) for batch in (broken, whole)]
        with pytest.raises(InvalidInputError, match=r"blob 1{40} is missing"):
            list(answers[0])
        assert names_in(answers[1]) == ["a", "b", "c"]


@needs_proc
def test_no_git_of_a_worker_is_left_to_others(tmp_path: Path) -> None:
    batch = one_batch(tmp_path / "a.git", ["a"])
    with workers.workers(2) as submit:
        assert [names_in(submit(batch)) for _ in range(4)] == [["a"]] * 4
        asked = {pid for worker in workers_of_this_process() for pid in children_of(worker)}
        assert asked
    assert not [pid for pid in asked if Path("/proc", pid).exists()]


@needs_proc
def test_a_git_that_ended_between_two_batches_is_followed_by_another(tmp_path: Path) -> None:
    batch = one_batch(tmp_path / "a.git", ["a"])
    with workers.workers(1) as submit:
        assert names_in(submit(batch)) == ["a"]
        for pid in [pid for worker in workers_of_this_process() for pid in children_of(worker)]:
            os.kill(int(pid), signal.SIGKILL)
            while Path("/proc", pid, "cmdline").read_bytes():
                time.sleep(0.01)
        assert names_in(submit(batch)) == ["a"]


def test_who_asks_on_after_the_end_is_told_so() -> None:
    with workers.worker() as cut:
        assert cut(source("a"), "python", "here").status == "parsed"
    with pytest.raises(EnvironmentProblem, match="here: a parsing process was ended from outside"):
        cut(source("a"), "python", "here")


def children_of(process: int) -> list[str]:
    return [pid for task in Path(f"/proc/{process}/task").iterdir() for pid in (task / "children").read_text().split()]


def test_the_workers_have_the_package_that_this_process_has(tmp_path: Path) -> None:
    shutil.copytree(Path(parsing.__file__).parent, tmp_path / "quarry_harness")
    program = (
        "import quarry_harness.workers as p, pathlib, sys\n"
        "pathlib.Path('quarry_harness/git.py').write_text('raise SystemExit(7)')\n"
        "print(p.__file__)\n"
        "with p.worker() as cut: cut(b'', 'python', 'here')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == str(tmp_path / "quarry_harness" / "workers.py")
    assert "here: a parsing process ended by itself (exit code 7)." in done.stderr


def test_a_worker_that_a_signal_ends_before_it_can_work_skips_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_workers(
        tmp_path, monkeypatch, ("parsing.py", "    threading.stack", f"    {signalled('SIGILL')}\n    threading.stack")
    )
    with (
        workers.worker() as cut,
        pytest.raises(EnvironmentProblem, match=r"here: a parsing process ended by itself \(SIGILL\)"),
    ):
        cut(source("f"), "python", "here")


def test_what_a_python_prints_as_it_starts_is_not_among_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with workers.worker() as cut:
        assert [chunk.name for chunk in cut(source("f"), "python", "here").chunks] == ["f"]


def source(name: str) -> bytes:
    return f"def {name}():\n    return 1\n".encode()


def batch_of(folder: Path, names: Sequence[str]) -> parsing.Batch:
    """A repository in which each name is a function in a file of its own, and the batch of them all."""
    make_repository(folder, [{f"{name}.py": source(name) for name in names}])
    oids = [git(folder, "hash-object", "--stdin", stdin=source(name)) for name in names]
    blobs = [parsing.Blob(number, oid, "python") for number, oid in enumerate(oids)]
    return parsing.Batch(folder, blobs, {"python": "r"}, frozenset(), 0)


def names_in(pieces: Iterable[parsing.Parsed]) -> list[str]:
    return [row["name"] for piece in pieces for row in rows_of(piece.chunks)]


def rows_of(columns: dict[str, parsing.Column]) -> list[dict[str, Any]]:
    """The rows of a table that a worker made."""
    lists = {
        name: [column.data[a:b].decode() for a, b in pairwise(column.offsets)]
        if isinstance(column, parsing.Strings)
        else list(column)
        for name, column in columns.items()
    }
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_pieces_of_a_batch_come_in_order_while_its_reader_waits(tmp_path: Path, jobs: int) -> None:
    names = [f"f{number}" for number in range(50)]
    with workers.workers(jobs) as submit:
        answers = [submit(batch_of(tmp_path / str(number), names)) for number in range(4)]
        assert [names_in(answer) for answer in answers] == [names] * 4


def give(answer: workers.Answer, pieces: Iterable[Any]) -> None:
    answer.fill(pieces)
    answer.end(None)


def test_a_worker_is_only_a_few_pieces_ahead_of_the_reader() -> None:
    made = []

    def pieces() -> Iterator[Any]:
        for number in range(50):
            made.append(number)
            yield number

    answer = workers.Answer()
    filler = threading.Thread(target=give, args=(answer, pieces()))
    filler.start()
    reader = iter(answer)
    next(reader)
    time.sleep(0.3)
    assert 2 <= len(made) <= 5
    assert len(list(reader)) == 49
    filler.join()


def test_an_interruption_at_any_moment_of_reading_keeps_nobody_waiting() -> None:
    interrupted, moment = True, 0
    while interrupted:
        answer = workers.Answer()
        filler = threading.Thread(target=give, args=(answer, range(50)), daemon=True)
        filler.start()
        time.sleep(0.02)  # it waits for room
        reader = iter(answer)
        moment += 1
        steps = 0

        def trace(_frame: FrameType, _event: str, _argument: object, moment: int = moment) -> Any:
            nonlocal steps
            steps += 1
            if steps == moment:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            next(reader)
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        time.sleep(0.02)  # it takes what room there is
        threading.Thread(target=answer.cancel, daemon=True).start()
        filler.join(5)
        assert not filler.is_alive(), moment
    assert moment > 3


def statuses_of(pieces: Iterable[parsing.Parsed]) -> list[tuple[int, str]]:
    return [(row["id"], row["status"]) for piece in pieces for row in rows_of(piece.blobs)]


# What ends a worker without the guards and with low limits: a fault of the grammar, memory, and a step without end.
HOSTILE = {
    "fault": ("python", TOO_DEEP, "parse_failed"),
    "memory": ("csharp", b"a:" * 600_000, "parse_failed"),
    "time": ("scala", b"x" + b"\x80" * 300_000, "parse_timeout"),
}


@needs_proc  # other systems than Linux do not hold to limits of memory
@pytest.mark.parametrize(("dialect", "data", "status"), HOSTILE.values(), ids=HOSTILE)
def test_a_blob_that_ends_its_worker_is_given_up_and_the_batch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, data: bytes, status: str
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    batch = batch_of(tmp_path / "r", [f"f{number}" for number in range(9)])
    oid = git(tmp_path / "r", "hash-object", "-w", "--stdin", stdin=data)
    large = parsing.Blob(10, "1" * 40, "python")  # not there, as the fetch leaves large ones out
    blobs = [*batch.blobs[:4], large, parsing.Blob(9, oid, dialect), *batch.blobs[4:]]
    batch = batch._replace(
        blobs=blobs, rules={"python": "r", dialect: "r"}, left_out=frozenset({large.oid}), hand_back=500
    )
    with workers.workers(1) as submit:
        pieces = list(submit(batch))
        assert names_in(submit(batch._replace(blobs=batch.blobs[:4]))) == ["f0", "f1", "f2", "f3"]
    assert names_in(pieces) == [f"f{number}" for number in range(9)]
    assert statuses_of(pieces) == [
        *((number, "parsed") for number in range(4)),
        (10, "too_large"),
        (9, status),
        *((number, "parsed") for number in range(4, 9)),
    ]
    (row,) = [row for piece in pieces for row in rows_of(piece.blobs) if row["id"] == 9]
    assert row == {
        "id": 9,
        "oid": oid,
        "dialect": dialect,
        "rules": "r",
        "bytes": len(data),
        "lines": data.count(b"\n") or 1,
        "status": status,
        "error_count": 0,
    }


@needs_proc
@pytest.mark.parametrize(("dialect", "data", "status"), HOSTILE.values(), ids=HOSTILE)
def test_a_source_that_ends_its_worker_is_given_up_and_the_next_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, data: bytes, status: str
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    with workers.worker() as cut:
        given_up = cut(data, dialect, "here")
        assert (given_up.status, given_up.chunks, given_up.lines) == (status, (), data.count(b"\n") or 1)
        assert [chunk.name for chunk in cut(source("f"), "python", "here").chunks] == ["f"]


def deadly_batch(folder: Path) -> parsing.Batch:
    """Nine blobs and `DEADLY` as the fifth of ten, with the number 9."""
    batch = batch_of(folder, [f"f{number}" for number in range(9)])
    oid = git(folder, "hash-object", "-w", "--stdin", stdin=DEADLY)
    blobs = [*batch.blobs[:4], parsing.Blob(9, oid, "python"), *batch.blobs[4:]]
    return batch._replace(blobs=blobs, hand_back=500)


# What a worker does over a blob, how often, what becomes of the blob, and how often it is tried in a batch, and alone.
ENDS = {
    "fault": (signalled("SIGSEGV"), 9, "parse_failed", 3, 2),
    "abort": (signalled("SIGABRT"), 9, "parse_failed", 3, 2),
    "memory of Python": ("raise MemoryError", 9, "parse_failed", 3, 2),
    "time": (signalled("SIGPROF"), 9, "parse_timeout", 2, 1),
    "a fault that does not come alone": (signalled("SIGSEGV"), 2, "parsed", 3, 2),
    "killed once": (signalled("SIGKILL"), 1, "parsed", 2, 2),
    "killed twice": (signalled("SIGKILL"), 2, "parsed", 3, 2),
}


@pytest.mark.parametrize(("what", "times", "status", "tries", "_alone"), ENDS.values(), ids=ENDS)
def test_a_blob_is_given_up_after_so_many_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, times: int, status: str, tries: int, _alone: int
) -> None:
    log = make_deadly(tmp_path / "deadly", monkeypatch, what, times)
    with workers.workers(1) as submit:
        ids = [0, 1, 2, 3, 9, 4, 5, 6, 7, 8]
        assert statuses_of(submit(deadly_batch(tmp_path / "r"))) == [(i, status if i == 9 else "parsed") for i in ids]
    assert log.stat().st_size == tries


@pytest.mark.parametrize(("what", "times", "status", "_tries", "alone"), ENDS.values(), ids=ENDS)
def test_a_source_is_given_up_after_so_many_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, times: int, status: str, _tries: int, alone: int
) -> None:
    log = make_deadly(tmp_path, monkeypatch, what, min(times, 1) if status == "parsed" else times)
    with workers.worker() as cut:
        assert cut(DEADLY, "python", "here").status == status
    assert log.stat().st_size == alone


@pytest.mark.parametrize(
    ("what", "told", "tries"),
    [
        (
            signalled("SIGKILL"),
            r"blob \w{40}: a parsing process was ended from outside \(SIGKILL: out of memory\?\)",
            3,
        ),
        (signalled("SIGXCPU"), r"blob \w{40}: a parsing process was ended from outside \(SIGXCPU\)", 3),
        ("os.kill(os.getpid(), 40)", r"blob \w{40}: a parsing process was ended from outside \(signal 40\)", 3),
        ("os._exit(7)", r"r: a parsing process ended by itself \(exit code 7\)", 1),
    ],
)
def test_what_is_not_the_blobs_doing_is_the_surroundings_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, told: str, tries: int
) -> None:
    log = make_deadly(tmp_path / "deadly", monkeypatch, what)
    with workers.workers(1) as submit:
        pieces = iter(submit(deadly_batch(tmp_path / "r")))
        with pytest.raises(EnvironmentProblem, match=told):
            list(pieces)
    assert log.stat().st_size == tries


@needs_proc
def test_a_source_that_needs_more_than_the_users_own_limit_is_the_surroundings_problem() -> None:
    program = (
        "import resource; from quarry_harness.workers import worker\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (400_000_000, -1))\n"
        "with worker() as cut:\n"
        "    print(cut(b'void f() { }', 'java', 'here').status, flush=True)\n"
        "    cut(b'a:' * 1_000_000, 'csharp', 'here')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "parsed\n"
    assert "here: a parsing process ended (SIGSEGV), which is allowed less memory than the 1024 MiB" in done.stderr


@needs_proc
def test_git_and_threads_do_not_count_against_the_limit_of_a_parser(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from quarry_harness import parsing, workers\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (2 << 30, -1))\n"
        "blobs = [parsing.Blob(0, sys.argv[2], 'python')]\n"
        "with workers.workers(1) as submit:\n"
        "    pieces = list(submit(parsing.Batch(Path(sys.argv[1]), blobs, {'python': 'r'}, frozenset(), 0)))\n"
        "print(pieces[0].blobs['status'].data)"
    )
    make_repository(tmp_path / "r", [{"a.py": source("a")}])
    oid = git(tmp_path / "r", "hash-object", "--stdin", stdin=source("a"))
    command = [sys.executable, "-c", program, str(tmp_path / "r"), oid]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "b'parsed'\n"


def test_threads_that_share_a_worker_get_their_own_answers() -> None:
    names = [f"f{number}" for number in range(40)]
    with workers.worker() as cut, ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda name: cut(source(name), "python", name).chunks[0].name, names)
        assert list(answers) == names


def test_a_worker_that_closes_its_answers_and_goes_on_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LAST_BREATH_S", 0.1)
    log = make_deadly(tmp_path, monkeypatch, "os.closerange(3, 20); __import__('time').sleep(60)", times=1)
    with workers.worker() as cut:
        assert cut(DEADLY, "python", "here").status == "parsed"
    assert log.stat().st_size == 2


def test_blobs_that_end_their_worker_one_after_the_other_are_all_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_deadly(tmp_path / "deadly", monkeypatch, signalled("SIGSEGV"))
    make_repository(tmp_path / "r", [])
    oids = [git(tmp_path / "r", "hash-object", "-w", "--stdin", stdin=DEADLY + b"#" * n) for n in range(3)]
    blobs = [parsing.Blob(number, oid, "python") for number, oid in enumerate(oids)]
    with workers.workers(1) as submit:
        answer = submit(parsing.Batch(tmp_path / "r", blobs, {"python": "r"}, frozenset(), 1_000))
        assert statuses_of(answer) == [(number, "parse_failed") for number in range(3)]


def test_a_worker_that_cannot_be_started_again_is_the_surroundings_problem_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_deadly(tmp_path, monkeypatch, signalled("SIGSEGV"))
    with workers.worker() as cut:
        assert cut(source("f"), "python", "here").status == "parsed"
        monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
        for _ in range(2):
            with pytest.raises(EnvironmentProblem, match="no-python: a parsing process cannot be started"):
                cut(DEADLY, "python", "here")


@needs_proc
def test_an_end_while_a_worker_is_started_again_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_deadly(tmp_path / "deadly", monkeypatch, signalled("SIGSEGV"))
    first, again = threading.Event(), threading.Event()

    class Slow(workers._Process):
        def __init__(self) -> None:
            if first.is_set():
                again.set()
                time.sleep(0.3)
            first.set()
            super().__init__()

    monkeypatch.setattr(workers, "_Process", Slow)
    batch = deadly_batch(tmp_path / "r")
    # The Scala parser works on this until its limit of 30 seconds.
    oid = git(tmp_path / "r", "hash-object", "-w", "--stdin", stdin=b"if (a) {" * 100_000)
    blobs = [batch.blobs[4], parsing.Blob(10, oid, "scala")]
    with workers.workers(1) as submit:
        submit(batch._replace(blobs=blobs, rules={"python": "r", "scala": "r"}))
        assert again.wait(20)
        ending = time.monotonic()
    assert time.monotonic() - ending < 10
    assert not workers_of_this_process()


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_nobody_reads_is_not_among_the_next_answers(tmp_path: Path, jobs: int) -> None:
    unread = batch_of(tmp_path / "unread", [f"u{number}" for number in range(50)])
    wanted = batch_of(tmp_path / "wanted", [f"w{number}" for number in range(50)])
    with workers.workers(jobs) as submit:
        left = [submit(unread) for _ in range(4)]
        next(iter(left[0]))
        time.sleep(0.3)  # the workers wait for room in answers that nobody will read
        for answer in left:
            answer.cancel()
        assert names_in(submit(wanted)) == [f"w{number}" for number in range(50)]
        submit(unread)  # and one that is neither read nor cancelled keeps nobody waiting at the end
        time.sleep(0.5)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_while_a_batch_is_handed_out_leaves_no_worker_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    hand_out = workers.ThreadPoolExecutor.submit

    def interrupted(*arguments: Any) -> None:
        hand_out(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(workers.ThreadPoolExecutor, "submit", interrupted)
    batch = batch_of(tmp_path / "r", [f"f{number}" for number in range(50)])
    with pytest.raises(KeyboardInterrupt), workers.workers(jobs) as submit:
        submit(batch)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_many_paths_are_cut_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Counted(workers._Process):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    monkeypatch.setattr(workers, "_Process", Counted)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_bytes(source(name))
    with looking("quarry") as chunks_of:
        assert [row["name"] for name in "abc" for row in chunks_of(tmp_path / f"{name}.py")] == ["a", "b", "c"]
    assert len(started) == 1
