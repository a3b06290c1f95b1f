"""What many revisions of one repository cost to chunk: scripts/bench revisions GIT_DIR [--revisions 30]

Takes revisions spread evenly over the first-parent history of a bare repository, chunks all but the newest of them in
one run, then adds the newest. Prints how many files the revisions list, how many distinct blobs they hold, how many
blobs and bytes were parsed (a counter, not a guess), and the peak memory of the program, and of all its processes at
one moment (those that parse and their gits too, what they share counted once; where there is no /proc, NaN).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from quarry_harness.git import run_git
from quarry_harness.stages.workspace import repository_folder
from quarry_harness.store import Store
from quarry_harness.types import GoldRow, Query, Release, Task

REPO = "bench__bench"
CHUNK = """
import json, os, resource, sys, threading
from pathlib import Path
from quarry_harness.stages.chunk import chunk
together, done = float("nan"), threading.Event()
def processes(first):
    yield first
    for task in Path(f"/proc/{first}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(child)
def look():
    global together
    while not done.wait(0.03):
        shares = 0
        try:
            for process in processes(os.getpid()):
                shares += int(Path(f"/proc/{process}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1e3
        except (OSError, IndexError):
            continue
        together = max(shares, together) if together == together else shares
if Path("/proc/self/smaps_rollup").exists():
    threading.Thread(target=look, daemon=True).start()
document = chunk(Path(sys.argv[1]), "preimage", int(sys.argv[2]), lambda finished, total, words: None)
done.set()
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps(document | {"peak_mb": (own, together)}))
"""


def spread(git_dir: Path, count: int) -> list[str]:
    """Returns revisions of HEAD's first-parent history, oldest first, evenly spread."""
    history = run_git(["rev-list", "--first-parent", "--reverse", "HEAD"], git_dir=git_dir).stdout.decode().split()
    if len(history) < count:
        sys.exit(f"{git_dir}: HEAD has {len(history)} revisions, {count} are asked for")
    step = (len(history) - 1) / (count - 1)
    return [history[round(i * step)] for i in range(count)]


def import_revisions(workspace: Path, revisions: list[str]) -> None:
    """Makes the workspace's release one that needs these revisions."""
    tasks = tuple(Task(REPO, f"t{i}", "go") for i in range(len(revisions)))
    queries = tuple(Query(REPO, f"t{i}", f"t{i}::q1", "?", sha) for i, sha in enumerate(revisions))
    gold = tuple(GoldRow(REPO, f"t{i}", f"t{i}::q1", "preimage", ()) for i in range(len(revisions)))
    release = Release("bench", "0", {"queries.jsonl": str(len(revisions)).rjust(40, "0")}, tasks, queries, gold)
    with Store.open(workspace, create=True) as store:
        known = {row.sha: row.rules for row in store.revisions("preimage")}
        store.import_release(release, {("preimage", q.query_id): q.revision for q in queries})
        store.record_revisions((REPO, sha, "fetched", "") for sha in revisions if sha not in known)


def chunk(workspace: Path, jobs: int) -> dict:
    """Chunks in a process of its own; returns the stage's document with peak_mb (its own, and that of all)."""
    command = [sys.executable, "-c", CHUNK, str(workspace), str(jobs)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("git_dir", type=Path)
    parser.add_argument("--revisions", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    revisions = spread(options.git_dir, options.revisions)
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Path(temporary)
        repository_folder(workspace, REPO).parent.mkdir()
        repository_folder(workspace, REPO).symlink_to(options.git_dir.resolve())
        for title, shas in (("one", revisions[:1]), ("all but the newest", revisions[:-1]), ("the newest", revisions)):
            import_revisions(workspace, shas)
            started = time.perf_counter()
            done = chunk(workspace, options.jobs)
            seconds = time.perf_counter() - started
            print(
                f"{title:>18}: {done['revisions']} revisions, {done['files']} files, {done['blobs']} distinct blobs"
                f" ({done['bytes'] / 1e6:.1f} MB), parsed now {done['parsed']} blobs"
                f" ({done['parsed_bytes'] / 1e6:.1f} MB), {done['chunks']} chunks, {seconds:.1f} s,"
                f" peak {done['peak_mb'][0]:.0f} MB, all processes {done['peak_mb'][1]:.0f} MB"
            )


if __name__ == "__main__":
    main()
