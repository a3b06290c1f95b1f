"""What fetching pinned revisions costs, over smart HTTP on loopback: scripts/bench fetch [--repo DIR] [--revisions N]

Bytes and requests are counted by the server, seconds by the clock, all from one run: our fetch, the git command that
it stands on (one fetch of all revisions, depth 1, blob limit; then one of the larger sources), a full bare clone, and
one depth-1 fetch a revision. The repository is one made here, or --repo.

scripts/bench fetch --synthetic makes a release of 300 repositories x 12 revisions, fetches it with `quarry fetch`,
fetches it again, and chunks it; --repositories and --revisions change its size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from git_repos import make_repository  # noqa: E402
from releases import write_release  # noqa: E402
from smart_http import SmartServer  # noqa: E402

from quarry_harness.fetching import fetch_pins  # noqa: E402
from quarry_harness.git import blob_sizes, git_environment, list_tree, run_git  # noqa: E402
from quarry_harness.languages import dialect_of_path  # noqa: E402

LIMIT = "blob:limit=256k"


def made_files(dice: random.Random, count: int) -> dict[str, bytes]:
    """Python sources whose text differs, so that they compress as sources do and no better."""
    return {f"pkg{i % 7}/mod{i}.py": made_module(dice, i) for i in range(count)}


def made_module(dice: random.Random, number: int) -> bytes:
    words = [f"w{dice.randrange(5000)}" for _ in range(60)]
    parts = [
        f"def {words[i]}_{number}({words[i + 1]}, {words[i + 2]}):\n"
        f"    {words[i + 3]} = {words[i + 1]} * {dice.randrange(1000)} + {words[i + 2]}\n"
        f"    return {words[i + 3]} - {dice.randrange(1000)}\n"
        for i in range(0, 56, 7)
    ]
    return "\n\n".join(parts).encode()


def made_history(dice: random.Random, files: int, commits: int, changed: int) -> list[dict[str, bytes]]:
    """Commit after commit, each with some files rewritten and one picture that only grows the history."""
    tree = made_files(dice, files)
    history = []
    for number in range(commits):
        for path in dice.sample(sorted(tree), min(changed, len(tree))):
            tree[path] = made_module(dice, number * 1000 + dice.randrange(1000))
        tree["picture.png"] = dice.randbytes(2000)
        history.append(dict(tree))
    return history


def spread(git_dir: Path, count: int) -> list[str]:
    history = run_git(["rev-list", "--first-parent", "--reverse", "HEAD"], git_dir=git_dir).stdout.decode().split()
    if len(history) < count:
        sys.exit(f"{git_dir}: HEAD has {len(history)} revisions, {count} are asked for")
    step = (len(history) - 1) / max(1, count - 1)
    return [history[round(i * step)] for i in range(count)]


def git(*arguments: str, git_dir: Path | None = None, stdin: str = "") -> None:
    command = ["git", *([f"--git-dir={git_dir}"] if git_dir else []), *arguments]
    env = git_environment(protocols="http")
    subprocess.run(command, input=stdin.encode(), env=env, check=True, capture_output=True)


def wanted(path: str) -> bool:
    return dialect_of_path(path, True) is not None


def bare_command(url: str, pins: list[str], into: Path) -> None:
    """The method by hand: one fetch of all, and one of the sources over the limit."""
    git("init", "-q", "--bare", "--template=", str(into))
    git("remote", "add", "origin", url, git_dir=into)
    fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--depth=1"]
    git(
        *fetch,
        f"--filter={LIMIT}",
        "--stdin",
        "origin",
        git_dir=into,
        stdin="".join(f"+{p}:refs/pins/{p}\n" for p in pins),
    )
    for name in ("remote.origin.promisor", "remote.origin.partialclonefilter", "extensions.partialClone"):
        run_git(["config", "--unset", name], git_dir=into)
    blobs = {e.oid: e.path for pin in pins for e in list_tree(into, pin) if e.mode != "160000"}
    large = [oid for oid, size in blob_sizes(into, blobs) if size < 0 and wanted(blobs[oid])]
    if large:
        noop = ["-c", "fetch.negotiationAlgorithm=noop"]
        git(*noop, *fetch, "--stdin", "origin", git_dir=into, stdin="".join(f"{oid}\n" for oid in large))


def one_by_one(url: str, pins: list[str], into: Path) -> None:
    git("init", "-q", "--bare", "--template=", str(into))
    for pin in pins:
        git("fetch", "-q", "--no-tags", "--depth=1", url, f"+{pin}:refs/pins/{pin}", git_dir=into)


def compare(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        host = Path(temporary, "host", "bench", "repo.git")
        if options.repo:
            host.parent.mkdir(parents=True)
            given = options.repo.resolve()
            host.symlink_to(given / ".git" if (given / ".git").is_dir() else given)
        else:
            make_repository(host, made_history(random.Random(1), 400, 200, 6))
            run_git(["repack", "-adq"], git_dir=host)
        pins = spread(host, options.revisions)
        measure(Path(temporary), pins)


def measure(folder: Path, pins: list[str]) -> None:
    with SmartServer(folder / "host") as server:
        url = server.template.replace("{owner}", "bench").replace("{name}", "repo")
        methods: dict[str, Callable[[Path], object]] = {
            "quarry": lambda into: fetch_pins("bench__repo", pins, into, server.template, wanted),
            "git by hand, the same way": lambda into: bare_command(url, pins, into),
            "full bare clone": lambda into: git("clone", "-q", "--bare", url, str(into)),
            "one fetch a revision": lambda into: one_by_one(url, pins, into),
        }
        print(f"{len(pins)} revisions, {os.cpu_count()} cores; ratios to the first row\n")
        print(f"{'method':<28}{'MiB':>9}{'requests':>10}{'s':>8}{'bytes':>9}{'time':>7}")
        first: tuple[float, float] | None = None
        for number, (name, method) in enumerate(methods.items()):
            server.seen.clear()
            server.sent_bytes = 0
            started = time.perf_counter()
            method(folder / f"into-{number}.git")
            seconds = time.perf_counter() - started
            first = first or (server.sent_bytes, seconds)
            ratios = f"{server.sent_bytes / first[0]:>8.2f}x{seconds / first[1]:>6.1f}x"
            print(
                f"{name:<28}{server.sent_bytes / 2**20:>9.2f}{len(server.seen):>10}{seconds:>8.2f}{ratios}", flush=True
            )


def synthetic(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        started = time.perf_counter()
        pins = {}
        for number in range(options.repositories):
            history = made_history(random.Random(number), 40, options.revisions, 4)
            pins[f"made__r{number:03}"] = make_repository(folder / "host" / "made" / f"r{number:03}.git", history)
        release = write_release(folder / "release", pins)
        print(f"made {len(pins)} repositories x {options.revisions} revisions in {time.perf_counter() - started:.1f} s")
        with SmartServer(folder / "host") as server:
            place = ["--mirror", server.template, "--release", str(release)]
            stage(server, "fetch", ["fetch", *place], folder, options.jobs)
            stage(server, "fetch again", ["fetch", *place], folder, options.jobs)
            stage(server, "dry run", ["fetch", "--dry-run", *place], folder, options.jobs)
            stage(server, "chunk", ["chunk"], folder, options.jobs)


def stage(server: SmartServer, name: str, arguments: list[str], folder: Path, jobs: int) -> None:
    """Runs one command as a user would, and prints its time, what the server saw, and what the command says."""
    server.seen.clear()
    server.sent_bytes = 0
    command = [sys.executable, "-m", "quarry_harness", *arguments, "-q", "--json", "-j", str(jobs)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "no_proxy": "127.0.0.1"}
    started = time.perf_counter()
    done = subprocess.run([*command, "-w", str(folder / "w")], env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(done.stderr)
    said = json.loads(done.stdout)
    words = ("revisions", "fetched", "present", "to_fetch", "files", "blobs", "chunks")
    counts = ", ".join(f"{said[word]} {word}" for word in words if word in said)
    print(
        f"{name:<12}{seconds:>7.1f} s, {len(server.seen)} requests, {server.sent_bytes / 2**20:.1f} MiB: {counts}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, help="a git repository on this machine, instead of a made one")
    parser.add_argument("--revisions", type=int, help="revisions to pin (30; with --synthetic 12 a repository)")
    parser.add_argument("--synthetic", action="store_true", help="a whole release, through the commands")
    parser.add_argument("--repositories", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    options.revisions = options.revisions or (12 if options.synthetic else 30)
    os.environ["no_proxy"] = "127.0.0.1"
    (synthetic if options.synthetic else compare)(options)


if __name__ == "__main__":
    main()
