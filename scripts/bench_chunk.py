"""What chunking costs beside parsing alone and beside Universal Ctags: scripts/bench chunk DIR [DIR...]

For each language of the folders: MB/s of parsing alone (the files in memory, one parser), of our whole chunk stage
(one worker: read from git, parse, extract, store), and of Universal Ctags on the same files, and the ratios; and how
many percent of the stage go into chunks (what is parsed, and guards, the walk, error counts), into the worker's rows
(reading from git, texts, columns), and into the rest (listing, storing, and what a stage costs whatever its size, which
is measured on a repository of one small file); and chunks beside the bare parse of whole files, which is more than the
stage parses of some languages. Then the stage on everything with one worker and with two, and the processor time of
each: no two cores are faster than half of it. One worker keeps more than one core busy, since git reads and the
database stores beside it; so it is measured on a single core, too (NaN but on Linux), against which two workers are
two cores against one. Repetitions are interleaved and the medians are printed, so that a noisy machine hits all
columns alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from tree_sitter import Parser

from quarry_harness.chunking import chunk_blob
from quarry_harness.git import list_tree, run_git
from quarry_harness.languages import LANGUAGE_OF_DIALECT, dialect_of_path, reads_headers_as_cpp
from quarry_harness.parsing import Batch, Blob, parse_batch
from quarry_harness.stages.chunk import HAND_BACK_BYTES, chunk
from quarry_harness.stages.workspace import repository_folder
from quarry_harness.store import Store
from quarry_harness.trees import grammar
from quarry_harness.types import LANGUAGES, GoldRow, Query, Release, Task

CTAGS = {"csharp": "C#", "cpp": "C++", "c": "C", "javascript": "JavaScript", "typescript": "TypeScript", "php": "PHP"}
TAG = "a" * 40


def sources(folders: list[Path]) -> dict[str, list[tuple[str, Path, str]]]:
    """Language -> (path, file, dialect)."""
    found: dict[str, list[tuple[str, Path, str]]] = defaultdict(list)
    for folder in folders:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
        cpp_headers = reads_headers_as_cpp(str(path) for path in files)
        for file in files:
            dialect = dialect_of_path(str(file), cpp_headers)
            if dialect and not file.is_symlink():
                name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
                found[LANGUAGE_OF_DIALECT[dialect]].append((name, file, dialect))
    return dict(found)


def make_workspace(workspace: Path, files: list[tuple[str, Path, str]]) -> None:
    """A workspace whose one repository has these files at one revision, ready to be chunked."""
    repository = repository_folder(workspace, "bench__bench")
    repository.mkdir(parents=True)
    run_git(["init", "--bare", "--template=", "-q", str(repository)])
    stream = [b"commit refs/heads/main\ncommitter b <b@bench.invalid> 0 +0000\ndata 0\n"]
    for name, file, _ in files:
        data = file.read_bytes()
        quoted = b'"' + b"".join(b"\\%03o" % byte for byte in os.fsencode(name)) + b'"'
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (quoted, len(data), data))
    done = run_git(["fast-import", "--quiet"], git_dir=repository, stdin=b"".join(stream))
    if done.returncode:
        sys.exit(done.stderr.decode("utf-8", "replace"))
    sha = revision(workspace)
    run_git(["repack", "-adq"], git_dir=repository)
    task = Task("bench__bench", "t", "go")
    query = Query("bench__bench", "t", "t::q1", "?", sha)
    gold = GoldRow("bench__bench", "t", "t::q1", "preimage", ())
    release = Release("bench", "0", {"queries.jsonl": TAG}, (task,), (query,), (gold,))
    with Store.open(workspace, create=True) as store:
        store.import_release(release, {("preimage", "t::q1"): sha})
        store.record_revisions([("bench__bench", sha, "fetched", "")])


def revision(workspace: Path) -> str:
    """The workspace's only revision."""
    git_dir = repository_folder(workspace, "bench__bench")
    return run_git(["rev-parse", "refs/heads/main"], git_dir=git_dir).stdout.decode().strip()


def stage_seconds(workspace: Path, jobs: int) -> tuple[float, int]:
    """Seconds of one whole chunk stage on a fresh copy of the workspace's database, and its chunks."""
    kept = workspace / "quarry.duckdb.kept"
    if not kept.exists():
        shutil.copy(workspace / "quarry.duckdb", kept)
    shutil.copy(kept, workspace / "quarry.duckdb")
    started = time.perf_counter()
    document = chunk(workspace, "preimage", jobs, lambda _done, _total, _words: None)
    return time.perf_counter() - started, document["chunks"]


def parse_seconds(files: list[tuple[bytes, str]]) -> float:
    """Seconds of the bare parser on the files, in memory."""
    parsers = {d: Parser(grammar(d)) for _, d in files}
    started = time.perf_counter()
    for data, dialect in files:
        parsers[dialect].parse(data)
    return time.perf_counter() - started


def chunk_seconds(files: list[tuple[bytes, str]]) -> float:
    """Seconds of parsing and extracting, in memory."""
    started = time.perf_counter()
    for data, dialect in files:
        chunk_blob(data, dialect)
    return time.perf_counter() - started


def worker_seconds(workspace: Path, files: list[tuple[str, Path, str]]) -> float:
    """Seconds of all that a worker does: reading from git, parsing, extracting, making columns."""
    folder = repository_folder(workspace, "bench__bench")
    dialects = {name: dialect for name, _, dialect in files}
    tree = sorted(list_tree(folder, revision(workspace)), key=lambda entry: entry.path)
    blobs = [Blob(i, entry.oid, dialects[entry.path]) for i, entry in enumerate(tree)]
    rules = dict.fromkeys(dialects.values(), "0" * 16)
    started = time.perf_counter()
    for _ in parse_batch(Batch(folder, blobs, rules, frozenset(), HAND_BACK_BYTES)):
        pass
    return time.perf_counter() - started


def ctags_seconds(language: str, files: list[tuple[str, Path, str]]) -> float:
    """Seconds of Universal Ctags on the same files; NaN without it or the language, and where it fails."""
    name = CTAGS.get(language, language.capitalize())
    # ctags takes a list of a file a line.
    if not shutil.which("ctags") or name not in _ctags_languages() or any("\n" in str(file) for _, file, _ in files):
        return float("nan")
    with tempfile.NamedTemporaryFile(suffix=".txt") as listing:
        listing.writelines(os.fsencode(file) + b"\n" for _, file, _ in files)
        listing.flush()
        command = ["ctags", f"--language-force={name}", "--fields=+ne", "-o", "/dev/null", "-L", listing.name]
        started = time.perf_counter()
        done = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        return float("nan") if done.returncode else time.perf_counter() - started


def _ctags_languages() -> set[str]:
    listed = subprocess.run(["ctags", "--list-languages"], capture_output=True, text=True, check=False)
    return set(listed.stdout.split())


def _row(workspace: Path, language: str, files: list[tuple[str, Path, str]], repetitions: int) -> str:
    """One language's line of the table."""
    make_workspace(workspace, files)
    data = [(file.read_bytes(), dialect) for _, file, dialect in files]
    size = sum(len(content) for content, _ in data) / 1e6
    seconds: dict[str, list[float]] = defaultdict(list)
    chunks = 0
    for _ in range(repetitions):
        seconds["parse"].append(parse_seconds(data))
        seconds["chunk"].append(chunk_seconds(data))
        seconds["worker"].append(worker_seconds(workspace, files))
        stage, chunks = stage_seconds(workspace, 1)
        seconds["stage"].append(stage)
        seconds["ctags"].append(ctags_seconds(language, files))
    parse, chunk_, worker, stage, ctags = (median(seconds[column]) for column in seconds)
    line = f"{language:<12}{len(files):>7}{size:>7.1f}{chunks:>8}{size / parse:>7.1f}{size / stage:>7.1f}"
    line += f"{parse / stage:>7.2f}{size / ctags:>7.1f}{ctags / stage:>12.2f}   "
    parts = ", ".join(f"{100 * part / stage:.0f}" for part in (chunk_, worker - chunk_, stage - worker))
    return f"{line}{parts:<12}{chunk_ / parse:.2f}"


def _workers(workspace: Path, files: list[tuple[str, Path, str]], repetitions: int) -> str:
    """The line about one worker and two on all files."""
    make_workspace(workspace, files)
    seconds: dict[str, list[float]] = defaultdict(list)
    work: dict[str, list[float]] = defaultdict(list)
    seconds["core"] = [] if hasattr(os, "sched_setaffinity") else [float("nan")]
    for _ in range(repetitions):
        for title, jobs in (("two", 2), ("one", 1), *[("core", 1)] * hasattr(os, "sched_setaffinity")):
            before = _processor_seconds()
            with _one_core() if title == "core" else nullcontext():
                seconds[title].append(stage_seconds(workspace, jobs)[0])
            work[title].append(_processor_seconds() - before)
    shutil.rmtree(workspace)
    core, one, two = (median(seconds[title]) for title in ("core", "one", "two"))
    return (
        f"everything: one worker {one:.2f} s ({median(work['one']):.2f} s of processor time), two workers {two:.2f} s"
        f" ({median(work['two']):.2f} s), {one / two:.2f} times as fast; on one core one worker {core:.2f} s,"
        f" {core / two:.2f} times"
    )


@contextmanager
def _one_core() -> Iterator[None]:
    """Keeps what this thread starts on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _processor_seconds() -> float:
    """Of this process and those that have ended, so far."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _fixed(folder: Path, repetitions: int) -> float:
    """Seconds of a stage that has next to nothing to do."""
    file = folder / "a.go"
    file.write_text("package a\n", "utf-8")
    make_workspace(folder / "fixed", [("a.go", file, "go")])
    return median(stage_seconds(folder / "fixed", 1)[0] for _ in range(repetitions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--language", action="append", choices=sorted(LANGUAGES))
    options = parser.parse_args()
    found = sources([folder.resolve() for folder in options.folders])
    wanted = {language: files for language, files in found.items() if language in (options.language or found)}
    print(f"{os.cpu_count()} cores, medians of {options.repetitions} interleaved repetitions, MB/s of 1,000,000 bytes")
    with tempfile.TemporaryDirectory() as temporary:
        # First, while this process holds nothing else.
        everything = [file for files in wanted.values() for file in files]
        workers = _workers(Path(temporary, "everything"), everything, options.repetitions)
        header = f"{'language':<12}{'files':>7}{'MB':>7}{'chunks':>8}{'parse':>7}{'stage':>7}{'ratio':>7}{'ctags':>7}"
        print(f"{header}{'stage/ctags':>12}   %: chunks, rows, rest; chunks/parse")
        for language, files in sorted(wanted.items()):
            print(_row(Path(temporary, language), language, files, options.repetitions), flush=True)
            shutil.rmtree(Path(temporary, language))
        print(f"a repository of one small file: {_fixed(Path(temporary), options.repetitions):.3f} s")
        print(workers)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"peak memory of this process {peak:.0f} MB (it holds all files for the bare parser)")


if __name__ == "__main__":
    sys.exit(main())
