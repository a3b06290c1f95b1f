"""Reading bare repositories, and what of its surroundings a git process may see."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tracemalloc
from collections.abc import Iterator
from hashlib import sha1
from itertools import islice
from pathlib import Path

import pytest
from git_repos import Content, commit_tree, git, make_repository, write_object
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing_workers import needs_proc

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.git import (
    BlobReader,
    blob_sizes,
    git_environment,
    has_revision,
    list_tree,
    one_line,
    pinned_revisions,
    read_blobs,
    require_git,
)

ABSENT = "1" * 40


def blob_id(data: bytes) -> str:
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def children() -> list[str]:
    pids = []
    for task in Path("/proc/self/task").iterdir():
        # A thread may end while its siblings are looked at.
        with contextlib.suppress(OSError):
            pids += (task / "children").read_text().split()
    return pids


def test_every_kind_of_entry_comes_with_its_mode_and_exact_path(tmp_path: Path) -> None:
    names: list[str | bytes] = [
        "a.go",
        "-rf",
        "with space",
        "new\nline",
        "tab\there",
        'quo"te',
        "日本/ä.py",
        b"latin\xe9.c",
        ".git2/x",
    ]
    special: dict[str | bytes, Content] = {
        "run.sh": ("100755", b"#!/bin/sh\n"),
        "link": ("120000", b"/etc/passwd"),
        "sub": ("160000", ABSENT.encode()),
    }
    files: dict[str | bytes, Content] = {**dict.fromkeys(names, b"x"), **special}
    [revision] = make_repository(tmp_path / "r.git", [files])
    entries = {os.fsencode(entry.path): entry for entry in list_tree(tmp_path / "r.git", revision)}
    assert set(entries) == {name if isinstance(name, bytes) else name.encode() for name in files}
    assert entries[b"a.go"].mode == "100644"
    assert entries[b"run.sh"].mode == "100755"
    assert entries[b"link"].mode == "120000"
    assert entries[b"link"].oid == blob_id(b"/etc/passwd")
    assert (entries[b"sub"].mode, entries[b"sub"].oid) == ("160000", ABSENT)
    assert entries[b"latin\xe9.c"].path == "latin\udce9.c"


def test_old_file_mode_is_listed_as_git_reads_it(tmp_path: Path) -> None:
    make_repository(tmp_path / "r.git", [{"a": b"x"}])
    tree = write_object(tmp_path / "r.git", "tree", b"100664 old.c\0" + bytes.fromhex(blob_id(b"x")))
    [entry] = list_tree(tmp_path / "r.git", commit_tree(tmp_path / "r.git", tree))
    assert (entry.mode, entry.path, entry.oid) == ("100644", "old.c", blob_id(b"x"))


def test_tree_bomb_ends_at_the_cap(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    make_repository(repo, [{"a": b"x"}])
    entries = b"".join(b"100644 f%d\0" % i + bytes.fromhex(blob_id(b"x")) for i in range(10))
    for _ in range(7):
        tree = write_object(repo, "tree", entries)
        entries = b"".join(b"40000 d%d\0" % i + bytes.fromhex(tree) for i in range(10))
    revision = commit_tree(repo, tree)
    with pytest.raises(InvalidInputError, match="more than 5000 entries"):
        list(list_tree(repo, revision, max_entries=5000))
    assert len(list(islice(list_tree(repo, revision), 12000))) == 12000


def test_endless_path_is_refused(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    make_repository(repo, [{"a": b"x"}])
    tree = write_object(repo, "tree", b"100644 " + b"n" * 100_000 + b"\0" + bytes.fromhex(blob_id(b"x")))
    with pytest.raises(InvalidInputError, match="longer than"):
        list(list_tree(repo, commit_tree(repo, tree)))


@pytest.mark.parametrize("words", ["HEAD", "main", "", "--upload-pack=touch x", "A" * 40, "1" * 39, "1" * 40 + "\n"])
def test_only_full_commit_ids_reach_git(tmp_path: Path, words: str) -> None:
    make_repository(tmp_path / "r.git", [{"a": b"x"}])
    for read in (list_tree, has_revision):
        with pytest.raises(InvalidInputError, match="not a revision"):
            list(read(tmp_path / "r.git", words))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="not an object id"):
        list(read_blobs(tmp_path / "r.git", [words], 10))


def test_missing_and_broken_trees_are_named(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    make_repository(repo, [{"a": b"x"}])
    lost = write_object(repo, "tree", b"40000 d\0" + bytes.fromhex(ABSENT))
    for revision in (ABSENT, commit_tree(repo, ABSENT), commit_tree(repo, lost), blob_id(b"x")):
        with pytest.raises(InvalidInputError, match=revision) as caught:
            list(list_tree(repo, revision))
        assert "quarry fetch" in caught.value.hint


def test_blobs_come_in_order_whatever_they_are(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    contents = [b"", b"\0\n\0", b"12345", b"123456", b"a\n" * 5000]
    [revision] = make_repository(repo, [{str(i): data for i, data in enumerate(contents)}])
    tree = git(repo, "rev-parse", f"{revision}^{{tree}}")
    oids = [*map(blob_id, contents), ABSENT, tree, revision, blob_id(b"12345"), blob_id(b"")]
    sizes = [0, 3, 5, 6, 10000, -1, -1, -1, 5, 0]
    data = [b"", b"\0\n\0", b"12345", None, None, None, None, None, b"12345", b""]
    assert list(read_blobs(repo, oids, 5)) == list(zip(oids, sizes, data, strict=True))
    assert list(blob_sizes(repo, oids)) == list(zip(oids, sizes, strict=True))
    assert list(read_blobs(repo, [], 5)) == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    repo = tmp_path_factory.mktemp("many") / "r.git"
    contents = {blob_id(data): data for data in (b"%d\n" % i * (i % 97) for i in range(3000))}
    make_repository(repo, [contents])
    return repo, contents


def begun_reading(repo: Path, contents: dict[str, bytes]) -> Iterator[tuple[str, int, bytes | None]]:
    """More blobs than git has on its way at a time, the first one read."""
    reader = read_blobs(repo, (oid for _ in range(100) for oid in contents), 1000)
    next(reader)
    return reader


@settings(max_examples=25, deadline=None)
@given(picks=st.lists(st.integers(0, 4000), max_size=2000), limit=st.integers(0, 500))
def test_reading_agrees_with_what_was_written(
    many: tuple[Path, dict[str, bytes]], picks: list[int], limit: int
) -> None:
    repo, contents = many
    known = sorted(contents)
    oids = [known[pick] if pick < len(known) else f"{pick:040x}" for pick in picks]
    expected = [
        (
            oid,
            len(contents[oid]) if oid in contents else -1,
            data if (data := contents.get(oid)) is not None and len(data) <= limit else None,
        )
        for oid in oids
    ]
    assert list(read_blobs(repo, iter(oids), limit)) == expected


def test_answers_to_an_earlier_question_are_no_answers_to_the_next(many: tuple[Path, dict[str, bytes]]) -> None:
    repo, contents = many
    oids = sorted(contents)
    with contextlib.closing(BlobReader(repo)) as reader:
        with pytest.raises(InvalidInputError, match="not an object id"):
            list(reader.read([*oids[:700], "no id"], 10_000))
        with pytest.raises(RuntimeError, match="were not taken"):
            list(reader.read(oids[1000:1002], 10_000))


@needs_proc
def test_one_git_answers_again_and_again(many: tuple[Path, dict[str, bytes]]) -> None:
    repo, contents = many
    before = children()
    with contextlib.closing(BlobReader(repo)) as reader:
        started = children()
        oids = sorted(contents)
        for start in range(0, len(oids), 700):
            asked = [*oids[start : start + 700], ABSENT, oids[start]]
            expected = [(oid, len(contents[oid]) if oid in contents else -1, contents.get(oid)) for oid in asked]
            assert list(reader.read(asked, 10_000)) == expected
        assert list(reader.read([], 10_000)) == []
        assert children() == started
    assert children() == before


def test_large_blob_is_never_held(tmp_path: Path) -> None:
    [revision] = make_repository(tmp_path / "r.git", [{"big": bytes(50_000_000), "small": b"x"}])
    oids = [entry.oid for entry in list_tree(tmp_path / "r.git", revision)]
    tracemalloc.start()
    answers = list(read_blobs(tmp_path / "r.git", oids, 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(size, data) for _, size, data in answers] == [(50_000_000, None), (1, b"x")]
    assert peak < 5_000_000


@needs_proc
def test_reading_that_stops_early_leaves_no_process(many: tuple[Path, dict[str, bytes]]) -> None:
    before = children()
    reader = begun_reading(*many)
    reader.close()  # type: ignore[attr-defined]
    assert children() == before


@needs_proc
def test_a_git_that_is_killed_is_not_a_damaged_repository(many: tuple[Path, dict[str, bytes]]) -> None:
    before = children()
    reader = begun_reading(*many)
    (process,) = set(children()) - set(before)
    os.kill(int(process), signal.SIGKILL)
    with pytest.raises(EnvironmentProblem, match="git was ended from outside"):
        list(reader)


def test_damaged_pack_is_an_error_and_not_a_short_answer(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    noise = [random.Random(number).randbytes(5000) for number in range(30)]  # noqa: S311
    make_repository(repo, [{str(i): data for i, data in enumerate(noise)}])
    git(repo, "repack", "-adq")
    [pack] = (repo / "objects" / "pack").glob("*.pack")
    whole = pack.read_bytes()
    pack.chmod(0o600)
    pack.write_bytes(whole[:50_000] + bytes(60_000) + whole[110_000:])
    with pytest.raises(InvalidInputError, match=r"r\.git"):
        list(read_blobs(repo, map(blob_id, noise), 10_000))


def test_bytes_are_the_blobs_whatever_attributes_and_replacements_say(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    files = {
        ".gitattributes": b"* export-subst text eol=crlf filter=x\nb export-ignore\n",
        "a": b"$Format:%H$\n",
        "b": b"b",
    }
    [revision] = make_repository(repo, [files])
    git(repo, "replace", blob_id(b"b"), blob_id(b"$Format:%H$\n"))
    oids = {entry.path: entry.oid for entry in list_tree(repo, revision)}
    read = {oid: data for oid, _, data in read_blobs(repo, oids.values(), 1000)}
    assert {path: read[oid] for path, oid in oids.items()} == files


def test_pins_are_what_a_ref_promises(tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    first, second = make_repository(repo, [{"a": b"x"}, {"a": b"y"}])
    git(repo, "update-ref", f"refs/pins/{first}", first)
    assert has_revision(repo, first)
    assert not has_revision(repo, second)
    assert pinned_revisions(repo, [second, ABSENT, first]) == {first}
    assert pinned_revisions(tmp_path / "nowhere.git", [first]) == frozenset()
    (tmp_path / "empty.git").mkdir()
    with pytest.raises(InvalidInputError, match=r"empty\.git"):
        pinned_revisions(tmp_path / "empty.git", [first])


def test_nothing_inherited_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n[alias]\n\tls-tree = !{trap}\n"
    )
    [revision] = make_repository(tmp_path / "r.git", [{"a": b"x"}])
    for name, value in {
        "HOME": str(tmp_path),
        "GIT_DIR": str(tmp_path / "elsewhere.git"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path),
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap),
        "GIT_CONFIG_PARAMETERS": f"'core.pager={trap}'",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_NAMESPACE": "other",
        "LANGUAGE": "de",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    assert [entry.path for entry in list_tree(tmp_path / "r.git", revision)] == ["a"]
    assert [data for _, _, data in read_blobs(tmp_path / "r.git", [blob_id(b"x")], 10)] == [b"x"]
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "trace").exists()


def test_environment_has_nothing_but_what_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("GIT_SSH_COMMAND", "x")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    environment = git_environment()
    assert {"AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "GIT_SSH_COMMAND"}.isdisjoint(environment)
    assert environment["https_proxy"] == "http://proxy.example:3128"
    assert environment["GIT_ALLOW_PROTOCOL"] == "none"
    assert not Path(environment["HOME"]).exists()


def test_git_has_to_be_there_and_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_git()[0].isdigit()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="not on the PATH") as caught:
        require_git()
    assert caught.value.exit_code == 4
    assert "2.32" in caught.value.hint
    for answer, complaint in (("git version 2.25.1", "2.25.1 is too old"), ("hello", "says 'hello'")):
        (tmp_path / "git").write_text(f"#!/bin/sh\necho {answer}\n")
        (tmp_path / "git").chmod(0o755)
        with pytest.raises(EnvironmentProblem, match=complaint):
            require_git()


@given(st.text())
def test_words_of_strangers_cannot_drive_the_terminal(words: str) -> None:
    clean = one_line(words, 50)
    assert len(clean) <= 50
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in clean)
