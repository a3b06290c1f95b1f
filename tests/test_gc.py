"""`quarry gc`: says first, frees what the release no longer needs, and leaves everything else whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ended
from filelock import FileLock
from git_repos import KILL_AT_STEP, git, make_repository
from releases import write_release

from quarry_harness.fetching import FetchPolicy, absent_blobs, fetch_pins
from quarry_harness.git import list_tree, pinned_revisions, read_blobs
from quarry_harness.layout import pins
from quarry_harness.pruning import prunable_bytes, prune

Quarry = Callable[..., Ended]


@pytest.fixture
def host(tmp_path: Path) -> dict[str, list[str]]:
    """Two repositories of four revisions, each with a large file of its own."""
    return {
        f"o__r{number}": make_repository(
            tmp_path / "host" / "o" / f"r{number}.git",
            [
                {
                    "a.py": b"def f():\n    return 1\n",
                    f"b{i}.py": b"def g():\n    return '%s'\n" % os.urandom(20_000).hex().encode(),
                }
                for i in range(4)
            ],
        )
        for number in range(2)
    }


def template(tmp_path: Path) -> str:
    return f"file://{tmp_path}/host/{{owner}}/{{name}}.git"


def fetched(quarry: Quarry, tmp_path: Path, name: str, pinned: dict[str, list[str]]) -> None:
    """Makes the workspace hold the release `name` of these revisions, fetched and chunked."""
    release = write_release(tmp_path / name, pinned)
    done = quarry("fetch", "--release", release, "--mirror", template(tmp_path), "-w", tmp_path / "w")
    assert done.code == 0, done.err
    assert quarry("chunk", "-w", tmp_path / "w").code == 0


def content(repo: Path, revision: str) -> dict[str, bytes | None]:
    oids = {entry.path: entry.oid for entry in list_tree(repo, revision)}
    read = {oid: data for oid, _, data in read_blobs(repo, oids.values(), 10**6)}
    return {path: read[oid] for path, oid in oids.items()}


def test_nothing_to_free_is_said(quarry: Quarry, workspace: Path) -> None:
    done = quarry("gc", "-w", workspace)
    assert (done.code, done.out, done.err) == (0, "gc: freed 0.0 MB\n", "gc: nothing to free\n")


def test_only_what_the_release_needs_stays(quarry: Quarry, tmp_path: Path, host: dict[str, list[str]]) -> None:
    fetched(quarry, tmp_path, "all", host)
    fetched(quarry, tmp_path, "fewer", {"o__r0": host["o__r0"][:2]})
    repos = tmp_path / "w" / "repos"
    before = content(repos / "o__r0.git", host["o__r0"][1])
    dry = quarry("gc", "--dry-run", "-w", tmp_path / "w", "--json")
    assert [row["repo"] for row in dry.json["repositories"]] == ["o__r1"]
    assert [(row["repo"], row["revisions"]) for row in dry.json["pins"]] == [("o__r0", 2)]
    assert dry.json["rows"] == {"revision": 6, "entry": 12, "blob": 6, "chunk": 6}
    assert dry.json["freed_bytes"] == 0
    assert pins(repos / "o__r0.git") == sorted(host["o__r0"])
    done = quarry("gc", "-w", tmp_path / "w", "--json")
    assert done.code == 0, done.err
    assert "repository o__r1" in done.err
    assert 0.8 < dry.json["bytes"] / done.json["freed_bytes"] < 1.2
    assert not (repos / "o__r1.git").exists()
    assert pins(repos / "o__r0.git") == sorted(host["o__r0"][:2])
    assert content(repos / "o__r0.git", host["o__r0"][1]) == before
    assert git(repos / "o__r0.git", "count-objects", "-v").splitlines()[3] == "packs: 1"
    assert quarry("gc", "--dry-run", "-w", tmp_path / "w", "--json").json["bytes"] == 0
    assert "chunk: nothing to do" in quarry("chunk", "-w", tmp_path / "w").out
    # And back again: what was freed is fetched, the rest is not.
    fetched(quarry, tmp_path, "all", host)
    assert content(repos / "o__r1.git", host["o__r1"][3])["a.py"] == b"def f():\n    return 1\n"


def test_what_a_selection_leaves_out_is_still_needed(
    quarry: Quarry, tmp_path: Path, host: dict[str, list[str]]
) -> None:
    fetched(quarry, tmp_path, "all", host)
    place = ("--release", tmp_path / "all", "--mirror", template(tmp_path), "-w", tmp_path / "w")
    assert quarry("fetch", *place, "--repo", "o/r0").code == 0
    assert quarry("gc", "-w", tmp_path / "w", "--json").json["bytes"] == 0


def test_runs_and_strangers_are_never_touched(quarry: Quarry, workspace: Path, tmp_path: Path, host: dict) -> None:
    runs = {str(file): file.read_bytes() for file in (workspace / "runs").rglob("*") if file.is_file()}
    assert runs
    (workspace / "repos" / "notes").mkdir()
    (workspace / "repos" / "notes" / "mine.txt").write_text("mine")
    (workspace / "repos" / "x__y.git").symlink_to(tmp_path / "host")
    release = write_release(tmp_path / "r", host)
    assert quarry("fetch", "--release", release, "--mirror", template(tmp_path), "-w", workspace).code == 0
    done = quarry("gc", "-w", workspace, "--json")
    assert len(done.json["repositories"]) == 11
    assert done.json["demo_mirror_bytes"] > 0
    assert not (workspace / "demo-mirror").exists()
    assert {str(file): file.read_bytes() for file in (workspace / "runs").rglob("*") if file.is_file()} == runs
    assert (workspace / "repos" / "notes" / "mine.txt").exists()
    assert (workspace / "repos" / "x__y.git").is_symlink()
    assert len(list((tmp_path / "host").rglob("*.git"))) == 2


def test_a_repository_that_is_being_fetched_is_left(quarry: Quarry, tmp_path: Path, host: dict[str, list[str]]) -> None:
    fetched(quarry, tmp_path, "all", host)
    fetched(quarry, tmp_path, "fewer", {"o__r0": host["o__r0"][:2]})
    with FileLock(tmp_path / "w" / "repos" / "o__r1.git.lock"):
        done = quarry("gc", "-w", tmp_path / "w", "--json")
    assert done.json["in_use"] == ["o__r1"]
    assert (tmp_path / "w" / "repos" / "o__r1.git").exists()
    assert quarry("gc", "-w", tmp_path / "w", "--json").json["in_use"] == []
    assert not (tmp_path / "w" / "repos" / "o__r1.git").exists()


def test_what_a_killed_fetch_left_is_freed(quarry: Quarry, workspace: Path) -> None:
    left = workspace / "repos" / "quarry-demo__till.git.part-0badcafe" / "objects"
    left.mkdir(parents=True)
    (left / "tmp_pack_x").write_bytes(bytes(5000))
    done = quarry("gc", "-w", workspace, "--json")
    assert (done.json["leftovers"], done.json["freed_bytes"]) == ([{"repo": "quarry-demo__till", "bytes": 5000}], 5000)
    assert not left.parent.exists()


def test_without_a_release_nothing_is_freed(quarry: Quarry, tmp_path: Path) -> None:
    (tmp_path / "w" / "repos" / "a__b.git").mkdir(parents=True)
    done = quarry("gc", "-w", tmp_path / "w")
    assert done.code == 2
    assert (tmp_path / "w" / "repos" / "a__b.git").exists()


def test_pruning_keeps_the_account_of_absent_blobs(tmp_path: Path) -> None:
    host = make_repository(
        tmp_path / "host" / "o" / "r.git",
        [{"a.py": b"x = 1\n", "one.png": os.urandom(4000)}, {"a.py": b"x = 2\n", "two.png": os.urandom(4000)}],
    )
    repo = tmp_path / "o__r.git"
    fetch_pins(
        "o__r", host, repo, template(tmp_path), lambda p: p.endswith(".py"), policy=FetchPolicy(blob_limit_bytes=1000)
    )
    prune(repo, [host[1]])
    assert [blob.path for blob in absent_blobs(repo)] == ["two.png"]
    assert content(repo, host[1]) == {"a.py": b"x = 2\n", "two.png": None}
    assert prunable_bytes(repo, [host[1]]) < 100
    fetch_pins(
        "o__r", host, repo, template(tmp_path), lambda p: p.endswith(".py"), policy=FetchPolicy(blob_limit_bytes=1000)
    )
    assert content(repo, host[0]) == {"a.py": b"x = 1\n", "one.png": None}


KILLED = f"""
from quarry_harness.pruning import prune
{KILL_AT_STEP}
prune(Path(sys.argv[2]), sys.argv[3:])
"""


def test_killed_at_any_step_every_kept_revision_is_whole(tmp_path: Path, host: dict[str, list[str]]) -> None:
    all_pins = host["o__r0"]
    keep = all_pins[1:3]
    step = 0
    while True:
        step += 1
        repo = tmp_path / f"{step}" / "o__r0.git"
        fetch_pins("o__r0", all_pins[:2], repo, template(tmp_path))
        fetch_pins("o__r0", all_pins, repo, template(tmp_path))
        before = {pin: content(repo, pin) for pin in keep}
        command = [sys.executable, "-c", KILLED, str(step), str(repo), *keep]
        code = subprocess.run(
            command, check=False, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        ).returncode
        assert pinned_revisions(repo, keep) == set(keep)
        assert {pin: content(repo, pin) for pin in keep} == before
        if code == 0:
            break
        assert code == -signal.SIGKILL
        prune(repo, keep)
        assert {pin: content(repo, pin) for pin in keep} == before
        assert pins(repo) == sorted(keep)
        assert len(list((repo / "objects" / "pack").glob("*.pack"))) == 1
        assert not (repo / "quarry-pruning").exists()
    assert step > 5
