"""What surrounds a command: closed and full outputs, Ctrl-C, kills, odd folders, file systems that refuse."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Ended

from quarry_harness.store import Store

Quarry = Callable[..., Ended]
READERS = [("status",), ("verify",), ("eval", "-q"), ("run", "--help")]


def shell(words: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash in which `q` is the command."""
    line = f'q() {{ "{sys.executable}" -m quarry_harness "$@"; }}; {words}'
    return subprocess.run(
        ["bash", "-c", line, "bash", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def in_workspace(command: tuple[str, ...], workspace: Path) -> list[object]:
    return [*command, *(("-w", workspace) if command[0] in ("status", "verify", "eval") else ())]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_full_output_is_the_surroundings_fault(demo_workspace: Path, command: tuple[str, ...]) -> None:
    done = shell('q "$@" >/dev/full', *in_workspace(command, demo_workspace))
    assert done.returncode == 4
    assert done.stderr.splitlines() == [
        "error: writing failed: No space left on device.",
        "       What was finished is kept; run it again.",
    ]


@pytest.mark.parametrize("command", [*READERS, ("chunks", "quarry_harness")], ids=" ".join)
def test_a_reader_that_has_had_enough_is_no_error(demo_workspace: Path, command: tuple[str, ...]) -> None:
    # sleep: the reader is gone before the first line comes.
    done = shell('q "$@" | exec <&-; exit ${PIPESTATUS[0]}', *in_workspace(command, demo_workspace))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_closed_output_is_no_error(demo_workspace: Path, command: tuple[str, ...]) -> None:
    done = shell('q "$@" >&-', *in_workspace(command, demo_workspace))
    assert (done.returncode, done.stderr) == (0, "")


def test_nobody_reading_the_progress_stops_no_work(demo_workspace: Path) -> None:
    done = shell('q eval -w "$1" 2>/dev/full', demo_workspace)
    assert done.returncode == 0
    assert "recall@5" in done.stdout


def test_a_kept_sql_statement_that_is_interrupted_is_an_interrupt(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from quarry_harness.store.database import Database\n"
        "database = Database(Path(sys.argv[1]))\n"
        "print('open', flush=True)\n"
        "try:\n"
        "    with database.transaction():\n"
        "        database.rows('SELECT count(*) FROM range(100000000) a, range(1000) b WHERE a.range % 7 = b.range')\n"
        "except KeyboardInterrupt:\n"
        "    print(database.rows('SELECT 1'))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "x.duckdb")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == b"[(1,)]\n"
    assert process.returncode == 0


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory, quarry: Quarry) -> Path:
    """A workspace with the demo fetched and nothing more; not to be changed."""
    workspace = tmp_path_factory.mktemp("fetched") / "workspace"
    assert quarry("fetch", "--release", "demo", "-w", workspace).code == 0
    return workspace


@pytest.mark.parametrize(("jobs", "stop"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGTERM)])
def test_an_interruption_at_any_moment_is_one_line_and_130(
    fetched: Path, tmp_path: Path, jobs: int, stop: signal.Signals
) -> None:
    # Said when the interpreter is up: what comes before is Python's own to end.
    program = "import sys; from quarry_harness.cli import main; print('up', file=sys.stderr, flush=True); main()"
    ends = set()
    for attempt, wait_s in enumerate((0.1, 0.5, 1.0, 1.6)):
        workspace = tmp_path / str(attempt)
        shutil.copytree(fetched, workspace)
        command = [sys.executable, "-c", program, "run", "-q", "-w", str(workspace), "-j", str(jobs)]
        # A group of its own, all of which gets the signal, as from a terminal.
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stderr is not None
        assert process.stderr.readline() == "up\n"
        time.sleep(wait_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, stop)
        error = process.communicate(timeout=60)[1]
        # When all is done and Python is ending, the signal ends it without a word.
        ends.add((0 if (process.returncode, error) == (-stop, "") else process.returncode, error.strip()))
    assert ends <= {(130, "interrupted; what was finished is kept, the same command goes on"), (0, "")}


def test_an_interruption_in_a_finalizer_is_still_one() -> None:
    program = (
        "import os, signal, time; from quarry_harness import cli\n"
        "class Last:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT); time.sleep(9)\n"
        "def status(**_):\n"
        "    Last()\n"
        "    time.sleep(9)\n"
        "cli.status.callback = status\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", program, "status"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (
        130,
        "interrupted; what was finished is kept, the same command goes on",
    )


def test_an_interruption_that_a_library_makes_an_error_of_is_still_one() -> None:
    program = (
        "import os, signal, sys; from quarry_harness import cli\n"
        "def status(**_):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT); __import__('time').sleep(9)\n"
        "    except KeyboardInterrupt as error:\n"
        "        raise ImportError('initialization failed: KeyboardInterrupt') from error\n"
        "cli.status.callback = status; sys.argv = ['quarry', 'status']; cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1), done.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_closed_standard_error_keeps_no_stage_from_its_work(fetched: Path, tmp_path: Path, jobs: int) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(fetched, workspace)
    command = f"exec {sys.executable} -m quarry_harness chunk --json -w {workspace} -j {jobs} 2>&-"
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["parsed"] > 0


def workers_of(pid: int) -> Iterator[int]:
    """The processes whose parent is the one named, as Linux tells."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(folder.name)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_chunk_stage_leaves_no_worker_behind(fetched: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(fetched, workspace)
    command = [sys.executable, "-m", "quarry_harness", "chunk", "-q", "-w", str(workspace), "-j", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers: set[int] = set()
    end = time.monotonic() + 20
    while len(workers) < 2 and process.poll() is None and time.monotonic() < end:
        workers |= set(workers_of(process.pid))
    process.kill()
    process.wait()
    assert workers, "the stage ended before a worker was seen"
    end = time.monotonic() + 20
    while (left := {pid for pid in workers if Path(f"/proc/{pid}").exists()}) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("name", ["run-12:30:00", "~", "~/here", "a b", "a#b", "a%20b", "[a]*", "-w"])
def test_a_folder_of_any_name_is_that_folder(quarry: Quarry, tmp_path: Path, name: str) -> None:
    done = quarry("run", "--release", "demo", "-q", "--language", "go", "--workspace", name, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / name / "quarry.duckdb").is_file()
    assert list((tmp_path / name / "runs").glob("*/per_query.parquet"))
    assert quarry("verify", "--workspace", name, cwd=tmp_path).code == 0


@pytest.mark.parametrize("name", ["a?b", "a\\b", "a\nb", os.fsdecode(b"caf\xe9")])
def test_a_folder_that_the_database_cannot_lie_in_is_refused(quarry: Quarry, tmp_path: Path, name: str) -> None:
    done = quarry("run", "--release", "demo", "-w", name, cwd=tmp_path)
    assert done.code == 2
    assert "a workspace cannot lie at a path with" in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_entered_is_no_fault_of_ours(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    # In a process that root's rights do not carry past the permissions; what it needs is loaded before.
    program = (
        "import os, sys; from pathlib import Path; from quarry_harness.store import Store\n"
        "if os.geteuid() == 0:\n"
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    Store.open(Path(sys.argv[1]))\n"
        "except Exception as error:\n"
        "    print(error.exit_code, error)\n"
    )
    command = [sys.executable, "-c", program, str(closed / "inside")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith(f"4 {closed / 'inside'}: Permission denied."), done.stderr


def test_a_read_only_file_system_is_told_and_no_advice_to_delete(tmp_path: Path, quarry: Quarry) -> None:
    place = tmp_path / "read-only"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place], capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    try:
        made = quarry("fetch", "--release", "demo", "-w", place)
        inside = quarry("fetch", "--release", "demo", "-w", place / "workspace")
    finally:
        subprocess.run(["umount", place], check=True)
    assert (made.code, inside.code) == (4, 4)
    for done in (made, inside):
        assert "read-only" in done.err.lower()
        assert "delete" not in done.err


def test_a_workspace_on_a_read_only_file_system_can_be_looked_at(workspace: Path, quarry: Quarry) -> None:
    bound = subprocess.run(["mount", "--bind", workspace, workspace], capture_output=True, check=False)
    if bound.returncode:
        pytest.skip("may not mount a file system here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", workspace], check=True, capture_output=True)
        looked = [quarry(command, "-w", workspace) for command in ("status", "verify")]
        refused = quarry("eval", "-w", workspace)
    finally:
        subprocess.run(["umount", workspace], check=True)
    assert [done.code for done in looked] == [0, 0], looked[0].err
    assert refused.code == 4, refused.err
    assert "the file system is read-only" in refused.err


def test_the_mirror_is_remembered_with_the_workspace(quarry: Quarry, demo_workspace: Path, tmp_path: Path) -> None:
    template = (demo_workspace / "demo-mirror").as_uri() + "/{owner}/{name}.git"
    workspace = tmp_path / "workspace"
    from quarry_harness.demo import release_folder

    first = quarry("fetch", "--release", release_folder(), "--mirror", template, "--language", "go", "-w", workspace)
    assert first.code == 0, first.err
    with Store.open(workspace) as store:
        assert store.meta("mirror") == template
    shutil.rmtree(workspace / "repos")
    again = quarry("fetch", "-w", workspace)
    assert again.code == 0, again.err
    assert again.out.startswith("fetch: 2 revisions of 1 repositories")
    assert template in quarry("status", "-w", workspace).out


def test_verify_of_a_mistyped_workspace_is_a_usage_error(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("verify", "-w", tmp_path / "typo")
    assert done.code == 2
    assert f"{tmp_path / 'typo'}: there is no workspace here" in done.err


def test_verify_of_a_release_says_that_there_was_no_workspace(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("verify", "--release", "demo", "-w", tmp_path / "typo")
    assert done.code == 0
    assert f"?      workspace: there is none at {tmp_path / 'typo'}" in done.out


def test_runs_outlive_a_lost_database_and_are_named(quarry: Quarry, workspace: Path) -> None:
    run_id = next((workspace / "runs").iterdir()).name
    (workspace / "quarry.duckdb").unlink()
    assert quarry("fetch", "--release", "demo", "-w", workspace).code == 0
    assert f"run           {run_id} (no record of it in this database)" in quarry("status", "-w", workspace).out
    assert f"?      run {run_id}: this database has no record of it" in quarry("verify", "-w", workspace).out


def test_a_damaged_database_says_how_it_is_made_again(quarry: Quarry, workspace: Path) -> None:
    (workspace / "quarry.duckdb").write_bytes(b"no database at all" * 500)
    done = quarry("status", "-w", workspace)
    assert done.code == 3
    assert "`quarry run --release REF` again" in done.err


def test_the_next_command_is_written_out_with_its_options(quarry: Quarry, workspace: Path) -> None:
    done = quarry("eval", "--profile", "all", "-w", workspace)
    assert done.code == 2
    command = f"quarry canonicalize --image preimage --profile all --workspace {workspace}"
    assert f"First run: {command}" in done.err
    assert quarry(*command.split()[1:]).code == 0
    done = quarry("eval", "--profile", "all", "-w", workspace)
    assert done.code == 0
    assert "preimage, profile all: strict all-gold" in done.out
    assert "bm25-preimage-all-" in quarry("status", "-w", workspace).out


def test_a_selection_is_named_where_its_numbers_are(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("run", "--release", "demo", "--language", "go", "--limit", 2, "-q", "-w", tmp_path / "w")
    assert "(a selection of languages go; the first 2: the release has 42 tasks)" in done.out
    assert "of languages go; the first 2" in quarry("status", "-w", tmp_path / "w").out


def test_chunks_of_a_file_that_is_no_source_says_so(quarry: Quarry, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("def f(): pass\n")
    os.mkfifo(tmp_path / "pipe.py")
    done = quarry("chunks", text, tmp_path / "pipe.py")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        f"{text}: skipped: not a source of the eleven languages, by its name",
        f"{tmp_path / 'pipe.py'}: skipped: not a regular file",
    ]


def test_a_refused_selection_leaves_no_workspace(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("fetch", "--release", "demo", "--repo", "nobody/nothing", "-w", tmp_path / "w")
    assert done.code == 2
    assert not (tmp_path / "w").exists()


def test_an_empty_workspace_name_is_not_the_current_folder(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("run", "--release", "demo", "-w", "", cwd=tmp_path)
    assert done.code == 2
    assert "The name is empty" in done.err
    assert not list(tmp_path.iterdir())
