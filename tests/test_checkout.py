"""`quarry checkout`: the blobs' bytes in a folder, and nothing that a tree could make it do besides."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Ended
from git_repos import Content, commit_tree, git, make_repository, write_object
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.fetching import FetchPolicy, fetch_pins
from quarry_harness.stages import checkout as stage
from quarry_harness.stages.checkout import checkout, is_unsafe
from quarry_harness.types import Progress

Quarry = Callable[..., Ended]


def silent(done: int, total: int, words: str) -> None:
    """Hears of progress and says nothing."""


QUIET: Progress = silent


def workspace_of(tmp_path: Path, files: list[dict[str, Content]], policy: FetchPolicy | None = None) -> list[str]:
    """tmp_path/w with a__b at these revisions, fetched from a folder."""
    return take(tmp_path, make_repository(tmp_path / "host" / "a" / "b.git", files), policy)


def take(tmp_path: Path, pins: list[str], policy: FetchPolicy | None = None) -> list[str]:
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
    place = tmp_path / "w" / "repos" / "a__b.git"
    report = fetch_pins("a__b", pins, place, template, lambda path: path.endswith(".py"), policy=policy)
    assert {outcome.status for outcome in report.outcomes} == {"fetched"}, report
    return pins


def written(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def reasons(document: dict) -> dict[str, str]:
    return {row["path"]: row["reason"] for row in document["not_written"]}


def test_files_are_the_blobs_whatever_attributes_say(quarry: Quarry, tmp_path: Path) -> None:
    files: dict[str, Content] = {
        ".gitattributes": b"* text eol=crlf ident\n*.py export-ignore\nversion export-subst filter=lfs\n",
        "a.py": b"x = 1\r\ny = 2\n# $Id$\n",
        "version": b"$Format:%H$\n",
        "deep/er/b.py": b"\x00\xff",
        "run.sh": ("100755", b"#!/bin/sh\n"),
        "big.bin": b"version https://git-lfs.github.com/spec/v1\n",
        "empty": b"",
    }
    old, new = workspace_of(tmp_path, [{"a.py": b"old\n"}, files])
    out = tmp_path / "out"
    done = quarry("checkout", f"a/b@{new[:8]}", out, "-w", tmp_path / "w", "--json")
    assert done.code == 0, done.err
    assert done.json["files"] == 7
    assert done.json["revision"] == new
    assert written(out) == {name: data[1] if isinstance(data, tuple) else data for name, data in files.items()}
    assert (out / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (out / "a.py").stat().st_mode & stat.S_IXUSR
    assert quarry("checkout", f"a__b@{old}", tmp_path / "out2", "-w", tmp_path / "w").out.startswith(
        "checkout: 1 files"
    )
    assert sorted(place.name for place in tmp_path.iterdir()) == ["host", "out", "out2", "w"]


def test_links_and_submodules_are_told_and_not_made(quarry: Quarry, tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "a.py": b"x\n",
        "link": ("120000", b"/etc/passwd"),
        "dir": ("120000", b"/tmp"),
        "sub": ("160000", b"1" * 40),
    }
    [pin] = workspace_of(tmp_path, [files])
    done = quarry("checkout", f"a/b@{pin}", tmp_path / "out", "-w", tmp_path / "w", "--json")
    assert done.code == 0, done.err
    assert reasons(done.json) == {"dir": "symlink", "link": "symlink", "sub": "submodule"}
    assert [place.name for place in (tmp_path / "out").iterdir()] == ["a.py"]


def test_what_the_fetch_left_out_ends_with_1(quarry: Quarry, tmp_path: Path) -> None:
    [pin] = workspace_of(
        tmp_path,
        [{"a.py": b"x\n", "pic.png": os.urandom(5000), "huge.py": os.urandom(9000)}],
        FetchPolicy(blob_limit_bytes=1000, max_blob_bytes=6000),
    )
    done = quarry("checkout", f"a/b@{pin}", tmp_path / "out", "-w", tmp_path / "w", "--json")
    assert done.code == 1
    assert done.json["not_written"] == [
        {"path": "huge.py", "reason": "absent", "bytes": 9000},
        {"path": "pic.png", "reason": "absent", "bytes": None},
    ]
    assert written(tmp_path / "out") == {"a.py": b"x\n"}


# A tree as git itself would never write it: (mode, name, what it holds), where a dictionary is a subtree.
HOSTILE = {
    "..": ("40000", b"..", {b"escaped": b"!"}),
    "../escaped": ("100644", b"../escaped", b"!"),
    "absolute": ("100644", b"/tmp/quarry-escaped", b"!"),
    "backslash": ("100644", b"..\\escaped", b"!"),
    "backslashes inside": ("100644", b"a\\..\\..\\escaped", b"!"),
    ".git": ("40000", b".git", {b"config": b"[core]\n"}),
    ".GIT": ("40000", b".GIT", {b"config": b"[core]\n"}),
    "short name": ("40000", b"GIT~1", {b"config": b"[core]\n"}),
    "trailing dot": ("40000", b".git. ", {b"config": b"[core]\n"}),
    "ignored letter": ("40000", ".g\u200cit".encode(), {b"config": b"[core]\n"}),
    "stream": ("40000", b".git::$INDEX_ALLOCATION", {b"config": b"[core]\n"}),
    "dot": ("40000", b".", {b"here": b"!"}),
    "nested ..": ("40000", b"ok", {b"..": {b"..": {b"escaped": b"!"}}}),
}


def raw_tree(repo: Path, entries: list[tuple[str, bytes, object]]) -> str:
    data = b""
    for mode, name, content in entries:
        if isinstance(content, dict):
            inner = [("40000" if isinstance(c, dict) else "100644", n, c) for n, c in content.items()]
            oid = raw_tree(repo, inner)
        else:
            assert isinstance(content, bytes)
            oid = write_object(repo, "blob", content)
        data += mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid)
    return write_object(repo, "tree", data)


def hostile_workspace(tmp_path: Path, entries: list[tuple[str, bytes, object]]) -> str:
    """A repository that holds the tree without having fetched it: a check of git's own must not be what saves us."""
    repo = tmp_path / "w" / "repos" / "a__b.git"
    make_repository(repo, [{"a": b"a"}])
    pin = commit_tree(repo, raw_tree(repo, entries))
    git(repo, "update-ref", f"refs/pins/{pin}", pin)
    return pin


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_path_leaves_the_folder(kind: str, tmp_path: Path) -> None:
    pin = hostile_workspace(tmp_path, [HOSTILE[kind], ("100644", b"z.py", b"fine\n")])
    before = sorted(place.name for place in tmp_path.iterdir())
    document = checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "deep" / "out", QUIET)
    assert set(reasons(document).values()) == {"unsafe_path"}
    assert written(tmp_path / "deep") == {"out/z.py": b"fine\n"}
    assert sorted(place.name for place in tmp_path.iterdir()) == sorted([*before, "deep"])
    assert not Path("/tmp/quarry-escaped").exists()


def test_no_file_is_written_through_a_link_of_the_same_name(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    entries: list[tuple[str, bytes, object]] = [
        ("120000", b"d", str(target).encode()),
        ("40000", b"d", {b"planted": b"!"}),
        ("100644", b"e", b"a file\n"),
        ("40000", b"e", {b"below a file": b"!"}),
        ("100644", b"twice", b"first\n"),
        ("100644", b"twice", b"second\n"),
    ]
    pin = hostile_workspace(tmp_path, entries)
    document = checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    assert list(target.iterdir()) == []
    assert not (tmp_path / "out" / "d").is_symlink()
    assert reasons(document) == {"d": "symlink", "e/below a file": "exists", "twice": "exists"}
    assert (tmp_path / "out" / "twice").read_bytes() == b"first\n"


def test_names_that_differ_in_case_only_keep_their_own_bytes(tmp_path: Path) -> None:
    [pin] = workspace_of(tmp_path, [{"Read.py": b"1\n", "read.py": b"2\n", "READ.py": b"3\n"}])
    document = checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    # A file system that does not tell them apart takes the first one, and the others are told of.
    assert document["files"] + len(document["not_written"]) == 3
    expected = {"READ.py": b"3\n", "Read.py": b"1\n", "read.py": b"2\n"}
    assert written(tmp_path / "out").items() <= expected.items()


def test_names_are_bytes_and_long_ones_are_told(quarry: Quarry, tmp_path: Path) -> None:
    names = {
        b"\xff\xfe.py": b"1\n",
        "\u00fc\n\x1b[31m.py".encode(): b"2\n",
        b"n" * 300 + b".py": b"3\n",
        b"-rf": b"4\n",
    }
    pins = take(tmp_path, make_repository(tmp_path / "host" / "a" / "b.git", [names]))
    done = quarry("checkout", f"a/b@{pins[0]}", tmp_path / "out", "-w", tmp_path / "w")
    assert done.code == 1
    assert "unwritable: File name too long" in done.out
    assert "\x1b" not in done.out
    found = {
        name: (Path(os.fsdecode(tmp_path / "out")) / os.fsdecode(name)).read_bytes() for name in names if len(name) < 99
    }
    assert found == {name: data for name, data in names.items() if len(name) < 99}


@given(st.text(alphabet=".git/\\: ~1aG\u200c", min_size=1, max_size=12))
def test_a_safe_path_stays_below_its_folder_on_every_system(path: str) -> None:
    if not is_unsafe(path):
        assert os.path.normpath(f"/below/{path}") == f"/below/{path}"
        assert "\\" not in path
        assert ".git" not in [name.lower().rstrip(". ") for name in path.split("/")]


def test_a_tree_made_to_fill_the_disk_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "w" / "repos" / "a__b.git"
    make_repository(repo, [{"a": b"a"}])
    blob = write_object(repo, "blob", bytes(10_000_000))
    tree = write_object(repo, "tree", b"".join(b"100644 f%05d\0%s" % (i, bytes.fromhex(blob)) for i in range(100)))
    for name in ("a", "b", "c"):
        tree = write_object(
            repo, "tree", b"".join(b"40000 %s%d\0%s" % (name.encode(), i, bytes.fromhex(tree)) for i in range(4))
        )
    pin = commit_tree(repo, tree)
    git(repo, "update-ref", f"refs/pins/{pin}", pin)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(EnvironmentProblem, match="64000000000 bytes, and the disk has 1000000000 left"):
        checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["w"]


def test_a_tree_bomb_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MAX_FILES", 1000)
    repo = tmp_path / "w" / "repos" / "a__b.git"
    make_repository(repo, [{"a": b"a"}])
    tree = write_object(repo, "blob", b"!")
    mode = b"100644"
    for _ in range(7):
        tree = write_object(repo, "tree", b"".join(b"%s %d\0%s" % (mode, i, bytes.fromhex(tree)) for i in range(10)))
        mode = b"40000"
    pin = commit_tree(repo, tree)
    git(repo, "update-ref", f"refs/pins/{pin}", pin)
    with pytest.raises(InvalidInputError, match="more than 1000 entries"):
        checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["w"]


def test_a_blob_too_large_to_hold_is_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(3_000_000)
    [pin] = workspace_of(tmp_path, [{"a.py": data, "b.py": b"x\n"}])
    monkeypatch.setattr(stage, "_HELD_BYTES", 1000)
    checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    assert written(tmp_path / "out") == {"a.py": data, "b.py": b"x\n"}


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    [pin] = workspace_of(tmp_path, [{"a.py": b"x\n"}])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "full", QUIET)
    with pytest.raises(UsageError, match="is a file"):
        checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "file", QUIET)
    checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "empty", QUIET)
    assert written(tmp_path / "empty") == {"a.py": b"x\n"}
    assert written(tmp_path / "full") == {"mine": b"mine"}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("a/b", "is not REPO@REVISION"),
        ("a/b@main", "is not REPO@REVISION"),
        ("a/b@--upload-pack=x", "is not REPO@REVISION"),
        ("a/b@abc", "is not REPO@REVISION"),
        ("a/c@1234567", "is not pinned here"),
        ("a/b@00000000", "is not pinned here"),
    ],
)
def test_a_revision_has_to_be_pinned(what: str, words: str, quarry: Quarry, tmp_path: Path) -> None:
    workspace_of(tmp_path, [{"a.py": b"x\n"}])
    done = quarry("checkout", what, tmp_path / "out", "-w", tmp_path / "w")
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_names_of_repositories_lead_nowhere_else(tmp_path: Path) -> None:
    workspace_of(tmp_path, [{"a.py": b"x\n"}])
    for name in ("../../w/repos/a__b", "..__x", "a/../b", "-x/y"):
        with pytest.raises((InvalidInputError, UsageError)):
            checkout(tmp_path / "w", f"{name}@12345678", tmp_path / "out", QUIET)


def test_a_beginning_that_two_revisions_share_is_ambiguous(tmp_path: Path) -> None:
    repo = tmp_path / "w" / "repos" / "a__b.git"
    make_repository(repo, [{"a": b"a"}])
    tree = git(repo, "rev-parse", "main^{tree}")
    shared: dict[str, str] = {}
    for number in range(2000):  # until four characters are the same, by the birthday of 65,536
        who = f"A <a@example.org> {1700000000 + number} +0000"
        pin = write_object(repo, "commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nw\n".encode())
        if pin[:4] in shared:
            break
        shared[pin[:4]] = pin
    else:
        pytest.skip("no two commits begin alike")
    for one in (pin, shared[pin[:4]]):
        git(repo, "update-ref", f"refs/pins/{one}", one)
    with pytest.raises(UsageError, match="means 2 pinned revisions"):
        checkout(tmp_path / "w", f"a/b@{pin[:4]}", tmp_path / "out", QUIET)


def test_killed_half_way_the_folder_is_not_there(tmp_path: Path) -> None:
    [pin] = workspace_of(tmp_path, [{f"d{i % 9}/{i}.py": b"%d\n" % i for i in range(4000)}])
    command = [
        sys.executable,
        "-m",
        "quarry_harness",
        "checkout",
        f"a/b@{pin}",
        str(tmp_path / "out"),
        "-w",
        str(tmp_path / "w"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("out.part-*")) and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert len(list(tmp_path.glob("out.part-*"))) == 1
    checkout(tmp_path / "w", f"a/b@{pin}", tmp_path / "out", QUIET)
    assert len(written(tmp_path / "out")) == 4000
