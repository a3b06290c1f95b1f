"""Processes that parse: what they are handed and hand back, in order, whatever becomes of them."""

import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from git_repos import git, make_repository
from parsing_workers import TOO_DEEP, needs_proc, weaken

from quarry_harness import parsing, workers
from quarry_harness.errors import InvalidInputError


def test_a_worker_ends_in_the_middle_of_a_batch_when_nobody_waits_for_it(tmp_path: Path) -> None:
    # The Scala parser works on this until its limit of 30 seconds.
    data = b"if (a) {" * 100_000
    folder = tmp_path / "o__r.git"
    make_repository(folder, [{"a.scala": data}])
    oid = git(folder, "hash-object", "--stdin", stdin=data)
    batch = parsing.Batch(folder, [parsing.Blob(0, oid, "scala")], {"scala": ""}, frozenset(), 0)
    command = [sys.executable, "-c", "from quarry_harness.parsing import serve; serve()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(pickle.dumps(batch))
        worker.stdin.flush()
        time.sleep(1)
        worker.stdin.close()
        assert worker.wait(10) == 0
        assert worker.stdout.read() == b""


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


def test_the_workers_have_the_package_that_this_process_has(tmp_path: Path) -> None:
    shutil.copytree(Path(parsing.__file__).parent, tmp_path / "quarry_harness")
    program = (
        "import quarry_harness.workers as p, pathlib, sys\n"
        "pathlib.Path('quarry_harness/git.py').write_text('raise SystemExit(7)')\n"
        "w = p._Worker(); print(p.__file__); print(w.process.wait())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.split() == [str(tmp_path / "quarry_harness" / "workers.py"), "7"], done.stderr


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


def test_a_worker_is_only_a_few_pieces_ahead_of_the_reader() -> None:
    made = []

    def pieces() -> Iterator[Any]:
        for number in range(50):
            made.append(number)
            yield number

    answer = workers.Answer()
    filler = threading.Thread(target=answer.fill, args=(pieces(),))
    filler.start()
    reader = iter(answer)
    next(reader)
    time.sleep(0.3)
    assert 2 <= len(made) <= 5
    assert len(list(reader)) == 49
    filler.join()


# What ends a worker without the guards and with low limits: a fault of the grammar, memory, and a step without end.
DEADLY = {
    "fault": ("python", TOO_DEEP, "parse_failed"),
    "memory": ("csharp", b"a:" * 600_000, "parse_failed"),
    "time": ("scala", b"x" + b"\x80" * 300_000, "parse_timeout"),
}


@needs_proc  # other systems than Linux do not hold to limits of memory
@pytest.mark.parametrize(("dialect", "data", "status"), DEADLY.values(), ids=DEADLY)
def test_a_blob_that_ends_its_worker_is_given_up_and_the_batch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, data: bytes, status: str
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    batch = batch_of(tmp_path / "r", [f"f{number}" for number in range(9)])
    oid = git(tmp_path / "r", "hash-object", "-w", "--stdin", stdin=data)
    blobs = [*batch.blobs[:4], parsing.Blob(9, oid, dialect), *batch.blobs[4:]]
    batch = batch._replace(blobs=blobs, rules={"python": "r", dialect: "r"}, hand_back=1_000_000)
    with workers.workers(1) as submit:
        pieces = list(submit(batch))
        assert names_in(submit(batch._replace(blobs=batch.blobs[:4]))) == ["f0", "f1", "f2", "f3"]
    assert sorted(names_in(pieces)) == [f"f{number}" for number in range(9)]
    rows = [row for piece in pieces for row in rows_of(piece.blobs)]
    assert [row for row in rows if row["status"] != "parsed"] == [
        {
            "id": 9,
            "oid": oid,
            "dialect": dialect,
            "rules": "r",
            "bytes": len(data),
            "lines": data.count(b"\n") or 1,
            "status": status,
            "error_count": 0,
        }
    ]
    assert sorted(row["id"] for row in rows) == list(range(10))


@needs_proc
def test_blobs_that_end_their_worker_one_after_the_other_are_all_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    make_repository(tmp_path / "r", [])
    oids = [git(tmp_path / "r", "hash-object", "-w", "--stdin", stdin=TOO_DEEP + b"#" * n) for n in range(3)]
    blobs = [parsing.Blob(number, oid, "python") for number, oid in enumerate(oids)]
    with workers.workers(1) as submit:
        pieces = list(submit(parsing.Batch(tmp_path / "r", blobs, {"python": "r"}, frozenset(), 1_000)))
    assert [row["status"] for piece in pieces for row in rows_of(piece.blobs)] == ["parse_failed"] * 3


@needs_proc
@pytest.mark.parametrize(("dialect", "data", "status"), DEADLY.values(), ids=DEADLY)
def test_a_source_that_ends_its_worker_is_given_up_and_the_next_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, data: bytes, status: str
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    with workers.worker() as cut:
        given_up = cut(data, dialect)
        assert (given_up.status, given_up.chunks, given_up.lines) == (status, (), data.count(b"\n") or 1)
        assert [chunk.name for chunk in cut(source("f"), "python").chunks] == ["f"]


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
