"""The chunk stage: many repositories and revisions in hand at once, stored in order, each blob parsed once."""

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from git_repos import Files, git, make_repository
from parsing_workers import TOO_DEEP, killing_workers, needs_proc, weaken, workers_of_this_process

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.stages import chunk as chunk_stage
from quarry_harness.stages.chunk import chunk
from quarry_harness.stages.workspace import repository_folder
from quarry_harness.store import Store
from quarry_harness.types import GoldRow, Query, Release, Task


def make_workspace(workspace: Path, repositories: Mapping[str, Sequence[Files]]) -> dict[str, list[str]]:
    """A workspace that needs these repositories, each with its revisions: all are there, none is recorded as fetched.

    Returns the commit ids.
    """
    pins = {
        repo: make_repository(repository_folder(workspace, repo), revisions) for repo, revisions in repositories.items()
    }
    rows = [(repo, f"{repo}-{i}", sha) for repo, shas in pins.items() for i, sha in enumerate(shas)]
    release = Release(
        "test",
        "0",
        {"queries.jsonl": "a" * 64},
        tuple(Task(repo, task, "python") for repo, task, _ in rows),
        tuple(Query(repo, task, f"{task}::q1", "?", sha) for repo, task, sha in rows),
        tuple(GoldRow(repo, task, f"{task}::q1", "preimage", ()) for repo, task, _ in rows),
    )
    with Store.open(workspace, create=True) as store:
        store.import_release(release, {("preimage", f"{task}::q1"): sha for _, task, sha in rows})
    return pins


def make_fetched(workspace: Path, repositories: Mapping[str, Sequence[Files]]) -> None:
    """The same, with everything recorded as fetched: ready to be chunked."""
    fetched(workspace, make_workspace(workspace, repositories))


def fetched(workspace: Path, pins: Mapping[str, Sequence[str]], status: str = "fetched") -> None:
    with Store.open(workspace) as store:
        store.record_revisions((repo, sha, status, "") for repo, shas in pins.items() for sha in shas)


def run(workspace: Path, jobs: int = 1) -> dict[str, Any]:
    return chunk(workspace, "preimage", jobs, lambda _done, _total, _words: None)


def functions(workspace: Path) -> list[tuple[str, str, str]]:
    """(repository, path, function) of all that is listed and chunked, revisions apart."""
    with duckdb.connect(str(workspace / "quarry.duckdb"), read_only=True) as database:
        return database.execute(
            "SELECT repo, path, name FROM revision r JOIN entry e ON e.revision = r.id JOIN chunk c ON c.blob = e.blob"
            " ORDER BY ALL"
        ).fetchall()


def table(workspace: Path, name: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(workspace / "quarry.duckdb"), read_only=True) as database:
        return database.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall()


def source(*names: str) -> bytes:
    return b"".join(f"def {name}():\n    return 1\n\n\n".encode() for name in names)


def many(repo: int, revisions: int = 3, files: int = 150) -> list[Files]:
    """Revisions that share most files with each other, and some with every other repository."""
    return [
        {
            f"src/f{i}.py": source(f"f{i}_{'all' if i % 3 == 0 else f'{repo}_{revision if i < 5 else 0}'}")
            for i in range(files)
        }
        for revision in range(revisions)
    ]


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_change_nothing_in_the_database(tmp_path: Path, jobs: int) -> None:
    repositories = {f"o__r{number}": many(number) for number in range(4)}
    for name, workers in (("one", 1), ("more", jobs)):
        make_fetched(tmp_path / name, repositories)
        run(tmp_path / name, workers)
    for name in ("revision", "entry", "blob", "chunk"):
        assert table(tmp_path / "one", name) == table(tmp_path / "more", name)
    assert len(functions(tmp_path / "one")) == 4 * 3 * 150


def test_a_blob_of_many_revisions_and_repositories_is_parsed_once(tmp_path: Path) -> None:
    make_fetched(tmp_path, {f"o__r{number}": many(number) for number in range(3)})
    done = run(tmp_path)
    # Of 150 files 50 are everybody's; of 100 that are a repository's own, f1, f2 and f4 change with each of three
    # revisions.
    assert done["parsed"] == done["blobs"] == 50 + 3 * (97 + 3 * 3)
    assert done["files"] == 3 * 3 * 150
    assert run(tmp_path)["parsed"] == 0


def test_a_new_revision_costs_only_its_new_blobs(tmp_path: Path) -> None:
    (repo, shas), *_ = make_workspace(tmp_path, {"o__r": many(0)}).items()
    fetched(tmp_path, {repo: shas[:2]})
    fetched(tmp_path, {repo: shas[2:]}, "unreachable")
    assert run(tmp_path)["parsed"] == 50 + 97 + 2 * 3
    fetched(tmp_path, {repo: shas[2:]})
    done = run(tmp_path)
    assert (done["listed"], done["parsed"]) == (1, 3)


def lose(workspace: Path, repo: str, oid: str) -> None:
    """Takes an object out of a small repository, which git keeps in files of their own."""
    (repository_folder(workspace, repo) / "objects" / oid[:2] / oid[2:]).unlink()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_repository_prepared_beside_a_damaged_one_does_not_rest_on_its_blobs(tmp_path: Path, jobs: int) -> None:
    shared = {f"s{i}.py": source(f"s{i}") for i in range(20)}
    make_fetched(
        tmp_path,
        {
            "o__a": [shared | {"z.py": source("lost")}],
            "o__b": [shared | {"b.py": source("b")}],
            "o__c": [shared | {"c.py": source("c")}],
        },
    )
    lose(tmp_path, "o__a", git(repository_folder(tmp_path, "o__a"), "hash-object", "--stdin", stdin=source("lost")))
    with pytest.raises(InvalidInputError, match=r"o__a\.git: blob [0-9a-f]{40} is missing"):
        run(tmp_path, jobs)
    found = functions(tmp_path)
    assert [name for repo, _, name in found if repo == "o__b"] == ["b", *sorted(f"s{i}" for i in range(20))]
    assert [name for repo, _, name in found if repo == "o__c"] == ["c", *sorted(f"s{i}" for i in range(20))]
    assert not [row for row in found if row[0] == "o__a"]
    with Store.open(tmp_path) as store:
        assert all(count == 0 for _, count in store.integrity())


def test_what_was_stored_before_an_end_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_stage, "_BATCH_BLOBS", 64)
    monkeypatch.setattr(chunk_stage, "_FEW_BLOBS", 64)
    monkeypatch.setattr(chunk_stage, "_STORED_BYTES", 0)
    monkeypatch.setattr(chunk_stage, "_TRANSACTION_BYTES", 0)
    names = [f"f{number}" for number in range(64 + 64 + 9)]
    make_fetched(tmp_path, {"o__r": [{f"{number:03}.py": source(name) for number, name in enumerate(names)}]})
    folder = repository_folder(tmp_path, "o__r")
    for pack in (folder / "objects" / "pack").glob("*.pack"):
        content = pack.read_bytes()
        pack.with_suffix(".idx").unlink()
        pack.unlink()
        git(folder, "unpack-objects", "-q", stdin=content)
    lose(tmp_path, "o__r", git(folder, "hash-object", "--stdin", stdin=source(names[-1])))
    with pytest.raises(InvalidInputError):
        run(tmp_path)
    assert functions(tmp_path) == []  # a revision is listed whole or not at all
    git(folder, "hash-object", "-w", "--stdin", stdin=source(names[-1]))
    assert run(tmp_path)["parsed"] == 9
    assert sorted(name for *_, name in functions(tmp_path)) == sorted(names)


def test_a_repository_without_its_trees_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    make_fetched(tmp_path, {f"o__{name}": [{"a.py": source(name)}] for name in "abc"})
    lose(tmp_path, "o__b", git(repository_folder(tmp_path, "o__b"), "rev-parse", "main^{tree}"))
    with pytest.raises(InvalidInputError, match=r"o__b\.git"):
        run(tmp_path)
    assert [name for *_, name in functions(tmp_path)] == ["a", "c"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_blob_that_ends_its_worker_is_skipped_with_a_reason_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    weaken(tmp_path / "weak", monkeypatch)
    deadly = {f"m{number}.py": TOO_DEEP + b"# %d\n" % number for number in range(2)}
    files = many(0, revisions=1)[0] | deadly
    make_fetched(tmp_path / "w", {"o__a": [files], "o__b": [{"b.py": source("b")}]})
    done = run(tmp_path / "w", jobs)
    assert done["skipped"] == {"parse_failed": 2}
    assert done["parsed"] == done["blobs"] == 150 + 2 + 1
    assert len({name for *_, name in functions(tmp_path / "w")}) == 150 + 1
    again = run(tmp_path / "w", jobs)
    assert (again["parsed"], again["skipped"]) == (0, {"parse_failed": 2})


@needs_proc
def test_a_worker_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    make_fetched(tmp_path, {"o__r": many(0)})
    with killing_workers(2) as killed:
        done = run(tmp_path, jobs=2)
    assert len(killed) == 2
    assert done["skipped"] == {}
    assert len(functions(tmp_path)) == 3 * 150
    assert not workers_of_this_process()


@needs_proc
@pytest.mark.parametrize("jobs", [1, 2])
def test_workers_that_are_killed_again_and_again_are_the_surroundings_problem(tmp_path: Path, jobs: int) -> None:
    make_fetched(tmp_path, {"o__r": [{"a.py": source("a")}]})
    told = r"o__r.git: blob \w{40}: a parsing process was ended from outside \(SIGKILL: out of memory\?\)"
    with killing_workers(1_000), pytest.raises(EnvironmentProblem, match=told):
        run(tmp_path, jobs)
    assert not workers_of_this_process()
    run(tmp_path, jobs)
    assert functions(tmp_path) == [("o__r", "a.py", "a")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_cannot_be_started_is_the_surroundings_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    make_fetched(tmp_path, {"o__r": [{"a.py": source("a")}]})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(EnvironmentProblem, match=r"no-python: a parsing process cannot be started"):
        run(tmp_path, jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_account_without_room_for_a_thread_is_the_surroundings_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    make_fetched(tmp_path, {"o__r": [{"a.py": source("a")}]})

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")  # as Python says it

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(EnvironmentProblem, match="no thread can be started") as told:
        run(tmp_path, jobs)
    assert "--jobs" in told.value.hint


def test_what_a_worker_hands_back_is_parsed_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = {"o__r": many(0, revisions=2)}
    for name in ("whole", "pieces"):
        make_fetched(tmp_path / name, repositories)
    run(tmp_path / "whole")
    monkeypatch.setattr(chunk_stage, "HAND_BACK_BYTES", 2_000)
    run(tmp_path / "pieces")
    assert table(tmp_path / "pieces", "chunk") == table(tmp_path / "whole", "chunk")


def test_a_caller_that_ignores_the_end_of_processes_hides_no_failure_of_git(tmp_path: Path) -> None:
    make_fetched(tmp_path, {"o__r": [{"a.py": source("a"), "z/b.py": source("b")}]})
    lose(tmp_path, "o__r", git(repository_folder(tmp_path, "o__r"), "rev-parse", "main:z"))
    program = (
        "import signal, runpy, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "sys.argv[0] = 'quarry'; runpy.run_module('quarry_harness', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, "chunk", "-w", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "o__r.git" in done.stderr
    assert functions(tmp_path) == []


def test_texts_that_are_not_ascii_and_lines_that_end_in_cr_are_stored_as_they_are_read(tmp_path: Path) -> None:
    files = {
        "bom.py": b"\xef\xbb\xbfdef a():\r\n    return 1\r\n",
        "latin.py": b"def b():\n    return '\xe9'\n",
        "utf8.py": "def c():\n    return 'é'\n".encode(),
        "crlf.py": b"x = 1\r\nif x:\r\n    def d():\r\n        return 1\r\n",
        "cr.py": b"def e():\n    return 1\r\r\n",
    }
    make_fetched(tmp_path, {"o__r": [files]})
    run(tmp_path)
    with duckdb.connect(str(tmp_path / "quarry.duckdb"), read_only=True) as database:
        texts = dict(database.execute("SELECT name, text FROM chunk").fetchall())
        lines = dict(database.execute("SELECT path, lines FROM entry JOIN blob ON blob.id = entry.blob").fetchall())
    assert texts == {
        "a": "def a():\n    return 1",
        "b": "def b():\n    return '\ufffd'",
        "c": "def c():\n    return 'é'",
        "d": "    def d():\n        return 1",
        "e": "def e():\n    return 1",
    }
    assert lines == {"bom.py": 2, "latin.py": 2, "utf8.py": 2, "crlf.py": 4, "cr.py": 2}
