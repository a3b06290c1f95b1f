"""Bringing pins: what it costs, what it leaves out, and what a second call does."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_repos import KILL_AT_STEP, Content, commit_tree, git, make_repository, write_object
from smart_http import SmartServer

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.fetching import FetchPolicy, FetchReport, absent_blobs, fetch_pins
from quarry_harness.git import has_revision, list_tree, pinned_revisions, read_blobs

QUICK = FetchPolicy(blob_limit_bytes=1000, max_blob_bytes=100_000, tries=2, backoff_s=0.01)


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311


@pytest.fixture
def pins(tmp_path: Path) -> list[str]:
    """Six commits: small sources, a large source, a huge one, a large picture; every commit changes a little."""
    common: dict[str, Content] = {f"src/{i}.py": b"def f():\n    return %d\n" % i for i in range(50)}
    large: dict[str, Content] = {
        "large.py": noise(1, 5000),
        "huge.py": noise(2, 200_000),
        "picture.png": noise(3, 3000),
    }
    return make_repository(
        tmp_path / "host" / "a" / "b.git", [{**common, **large, "src/0.py": noise(i, 500)} for i in range(6)]
    )


@pytest.fixture
def server(tmp_path: Path, pins: list[str]) -> Iterator[SmartServer]:
    with SmartServer(tmp_path / "host") as running:
        yield running


def is_python(path: str) -> bool:
    return path.endswith(".py")


def fetch(server: SmartServer, pins: list[str], into: Path, policy: FetchPolicy = QUICK) -> FetchReport:
    return fetch_pins("a__b", pins, into / "a__b.git", server.template, is_python, policy=policy)


def statuses(report: FetchReport) -> list[str]:
    return [outcome.status for outcome in report.outcomes]


def content(repo: Path, revision: str) -> dict[str, int | bytes]:
    """path -> bytes, or the size where they are not given."""
    oids = {entry.path: entry.oid for entry in list_tree(repo, revision)}
    read = {oid: size if data is None else data for oid, size, data in read_blobs(repo, oids.values(), 1_000_000)}
    return {path: read[oid] for path, oid in oids.items()}


def state(repo: Path) -> dict[str, object]:
    """Everything that a reader can see of a repository."""
    refs = git(repo, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    return {"refs": refs, "absent": absent_blobs(repo), **{line[:40]: content(repo, line[:40]) for line in refs}}


def leftovers(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if ".part" in file.name or file.name.endswith(".new"))


def test_all_pins_come_in_two_requests_and_two_for_large_sources(
    server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    report = fetch(server, pins, tmp_path)
    repo = tmp_path / "a__b.git"
    assert statuses(report) == ["fetched"] * 6
    assert [outcome.revision for outcome in report.outcomes] == pins
    assert report.requests == len(server.seen) == 4
    # All that is neither pack nor sideband: the abilities and the packet lines.
    assert report.bytes <= server.sent_bytes <= report.bytes * 1.02 + 2000
    files = content(repo, pins[3])
    assert files["src/0.py"] == noise(3, 500)
    assert files["large.py"] == noise(1, 5000)
    assert files["huge.py"] == files["picture.png"] == -1
    assert [(blob.path, blob.size_bytes) for blob in report.left_out] == [("huge.py", 200_000)]
    assert [(blob.path, blob.size_bytes) for blob in absent_blobs(repo)] == [
        ("huge.py", 200_000),
        ("picture.png", None),
    ]
    assert sum(file.stat().st_size for file in repo.rglob("*.pack")) < 100_000
    assert leftovers(tmp_path) == []
    assert "promisor" not in (repo / "config").read_text()
    assert list(repo.rglob("*.promisor")) == []


def test_repository_whose_only_large_source_is_too_large(server: SmartServer, tmp_path: Path) -> None:
    [revision] = make_repository(tmp_path / "host" / "c" / "d.git", [{"huge.py": noise(2, 200_000)}])
    report = fetch_pins("c__d", [revision], tmp_path / "c__d.git", server.template, is_python, policy=QUICK)
    assert (statuses(report), len(report.left_out)) == (["fetched"], 1)
    assert content(tmp_path / "c__d.git", revision) == {"huge.py": -1}


def test_where_no_source_is_large_two_requests_do(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    report = fetch_pins("a__b", pins, tmp_path / "a__b.git", server.template, lambda path: path.startswith("src/"))
    assert statuses(report) == ["fetched"] * 6
    assert report.requests == len(server.seen) == 2
    assert report.left_out == ()


def test_what_is_there_needs_no_network(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    fetch(server, pins, tmp_path)
    seen = len(server.seen)
    report = fetch(server, [*pins, pins[0]], tmp_path)
    assert statuses(report) == ["present"] * 6
    assert (report.requests, report.bytes, len(server.seen)) == (0, 0, seen)
    assert [blob.path for blob in report.left_out] == ["huge.py"]


def test_new_pins_join_old_ones_without_fetching_them_again(
    server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    repo = tmp_path / "a__b.git"
    first = fetch(server, pins[:3], tmp_path)
    packs = {file: file.stat().st_mtime_ns for file in repo.rglob("*.pack")}
    before = server.sent_bytes
    second = fetch(server, pins, tmp_path)
    assert statuses(second) == ["present"] * 3 + ["fetched"] * 3
    assert second.requests <= 3
    assert second.bytes < first.bytes / 2
    assert second.bytes <= server.sent_bytes - before <= second.bytes * 1.1 + 6000
    assert packs.items() <= {file: file.stat().st_mtime_ns for file in repo.rglob("*.pack")}.items()
    fetch(server, pins, tmp_path / "at-once")
    assert state(repo) == state(tmp_path / "at-once" / "a__b.git")
    assert not (repo / "objects" / "info" / "alternates").exists()


def test_one_by_one_equals_all_at_once(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    for number in range(6):
        assert statuses(fetch(server, pins[: number + 1], tmp_path))[-1] == "fetched"
    fetch(server, pins, tmp_path / "at-once")
    assert state(tmp_path / "a__b.git") == state(tmp_path / "at-once" / "a__b.git")
    assert len(git(tmp_path / "a__b.git", "rev-list", "--all").split()) == 6


def test_other_paths_and_other_limits_bring_what_was_left_out(
    server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    repo = tmp_path / "a__b.git"
    fetch(server, pins[:2], tmp_path)
    everything = fetch_pins("a__b", pins[:2], repo, server.template, policy=QUICK)
    assert statuses(everything) == ["present"] * 2
    assert everything.requests == 2
    assert content(repo, pins[1])["picture.png"] == noise(3, 3000)
    generous = fetch(server, pins[:2], tmp_path, FetchPolicy())
    assert content(repo, pins[0])["huge.py"] == noise(2, 200_000)
    assert (generous.left_out, absent_blobs(repo)) == ((), [])
    assert fetch(server, pins[:2], tmp_path, FetchPolicy()).requests == 0


def test_server_that_does_not_filter_works_too(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.allow_filter = False
    report = fetch(server, pins[:4], tmp_path)
    assert statuses(report) == ["fetched"] * 4
    assert report.requests == 2
    assert content(tmp_path / "a__b.git", pins[0])["picture.png"] == noise(3, 3000)
    assert statuses(fetch(server, pins, tmp_path))[4:] == ["fetched"] * 2


@pytest.mark.parametrize("refuses", [False, True])
def test_folder_filters_where_it_does_not_refuse(refuses: bool, pins: list[str], tmp_path: Path) -> None:
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
    if refuses:
        git(tmp_path / "host" / "a" / "b.git", "config", "uploadpack.allowFilter", "false")
    for some in (pins[:4], pins):
        report = fetch_pins("a__b", some, tmp_path / "a__b.git", template, is_python, policy=QUICK)
        assert set(statuses(report)) <= {"present", "fetched"}
        assert report.requests == 0
    files = content(tmp_path / "a__b.git", pins[5])
    assert files["large.py"] == noise(1, 5000)
    assert files["picture.png"] == (noise(3, 3000) if refuses else -1)


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_host_that_lacks_an_unwanted_blob_gives_the_rest(
    kind: str, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    lost = git(host, "rev-parse", f"{pins[3]}:picture.png")
    (host / "objects" / lost[:2] / lost[2:]).unlink()
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git" if kind == "folder" else server.template
    report = fetch_pins("a__b", pins, tmp_path / "a__b.git", template, is_python, policy=QUICK)
    assert statuses(report) == ["fetched"] * 6
    assert content(tmp_path / "a__b.git", pins[3])["large.py"] == noise(1, 5000)
    assert content(tmp_path / "a__b.git", pins[3])["picture.png"] == -1


@pytest.mark.parametrize(("absent", "requests"), [(1, 4), (2, 8), (60, 8)])
def test_absent_revisions_cost_eight_requests_at_most(
    absent: int, requests: int, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    gone = [f"{number:040x}" for number in range(1, absent + 1)]
    report = fetch_pins(
        "a__b", [*gone, *pins], tmp_path / "a__b.git", server.template, lambda path: path.startswith("src/")
    )
    assert statuses(report) == ["revision_gone"] * absent + ["fetched"] * 6
    assert report.requests == len(server.seen) == requests
    assert pinned_revisions(tmp_path / "a__b.git", [*gone, *pins]) == set(pins)


def test_nothing_is_left_where_no_revision_came(server: SmartServer, tmp_path: Path) -> None:
    report = fetch(server, [f"{number:040x}" for number in range(1, 5)], tmp_path)
    assert statuses(report) == ["revision_gone"] * 4
    assert len(server.seen) <= 8
    assert not (tmp_path / "a__b.git").exists()
    assert leftovers(tmp_path) == []


def test_folder_mirror_names_absent_revisions_too(pins: list[str], tmp_path: Path) -> None:
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
    report = fetch_pins("a__b", ["1" * 40, "2" * 40, "3" * 40, *pins], tmp_path / "a__b.git", template)
    assert statuses(report) == ["revision_gone"] * 3 + ["fetched"] * 6


def test_ids_of_other_things_are_not_commits(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    tag = f"object {pins[0]}\ntype commit\ntag v1\ntagger A Tester <tester@example.org> 1700000000 +0000\n\nv1\n"
    others = [
        git(host, "rev-parse", f"{pins[0]}^{{tree}}"),
        git(host, "rev-parse", f"{pins[0]}:src/1.py"),
        write_object(host, "tag", tag.encode()),
    ]
    report = fetch(server, [*others, *pins[1:]], tmp_path)
    assert statuses(report) == ["not_a_commit"] * 3 + ["fetched"] * 5
    assert [outcome.reason for outcome in report.outcomes[:3]] == [
        f"it names a {kind}" for kind in ("tree", "blob", "tag")
    ]
    assert not any(has_revision(tmp_path / "a__b.git", other) for other in others)


def test_tree_bomb_fails_alone(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    entries = b"100644 f\0" + bytes.fromhex(git(host, "rev-parse", f"{pins[0]}:src/1.py"))
    for _ in range(8):
        tree = write_object(host, "tree", entries)
        entries = b"".join(b"40000 d%d\0" % i + bytes.fromhex(tree) for i in range(10))
    bomb = commit_tree(host, tree)
    report = fetch(server, [bomb, *pins], tmp_path, FetchPolicy(max_entries=2000))
    assert statuses(report) == ["failed"] + ["fetched"] * 6
    assert "more than 2000 entries" in report.outcomes[0].reason
    assert not has_revision(tmp_path / "a__b.git", bomb)


def test_pack_that_builds_on_a_blob_left_out_earlier(server: SmartServer, tmp_path: Path) -> None:
    # The host may send the second text as a difference to the first, which the filter kept away.
    text = b"".join(b"line %d of a long text\n" % number for number in range(100))
    two = make_repository(tmp_path / "host" / "c" / "d.git", [{"t.txt": text}, {"t.txt": text[:900]}])
    for number in (1, 2):
        report = fetch_pins("c__d", two[:number], tmp_path / "c__d.git", server.template, is_python, policy=QUICK)
        assert statuses(report)[-1] == "fetched"
    assert content(tmp_path / "c__d.git", two[1])["t.txt"] == text[:900]
    assert content(tmp_path / "c__d.git", two[0])["t.txt"] == -1


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_revision_that_the_host_cannot_pack_costs_no_other(
    kind: str, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    lost = git(host, "rev-parse", f"{pins[3]}:src")
    (host / "objects" / lost[:2] / lost[2:]).unlink()
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git" if kind == "folder" else server.template
    report = fetch_pins("a__b", pins, tmp_path / "a__b.git", template, is_python, policy=QUICK)
    assert statuses(report) == ["fetched"] * 3 + ["failed"] + ["fetched"] * 2
    assert "damaged" in report.outcomes[3].reason
    assert lost in report.outcomes[3].reason


def test_old_server_gives_tips_only(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.protocol_v0 = True
    report = fetch_pins("a__b", pins, tmp_path / "a__b.git", server.template, lambda path: path.startswith("src/"))
    assert statuses(report) == ["failed"] * 5 + ["fetched"]
    assert "branch tips only" in report.outcomes[0].reason


def test_damaged_repository_takes_new_pins_and_heals(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    repo = tmp_path / "a__b.git"
    fetch(server, pins[:2], tmp_path)
    for file in (repo / "objects" / "pack").iterdir():
        file.unlink()
    assert not has_revision(repo, pins[0])
    assert statuses(fetch(server, pins[:3], tmp_path)) == ["fetched"] * 3
    assert content(repo, pins[0])["large.py"] == noise(1, 5000)


def test_folder_that_is_no_repository_is_named(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    (tmp_path / "a__b.git").mkdir()
    with pytest.raises(InvalidInputError, match=r"a__b\.git"):
        fetch(server, pins, tmp_path)
    assert server.seen == []


def test_unwritable_place_is_the_environments_fault(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="file"):
        fetch(server, pins, tmp_path / "file")


@pytest.mark.parametrize("revision", ["main", "--upload-pack=touch x", "1" * 39, "A" * 40])
def test_malformed_revisions_never_reach_git(revision: str, server: SmartServer, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not a revision"):
        fetch(server, [revision], tmp_path)
    assert server.seen == []


def test_two_at_once_fetch_once(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    reports: list[FetchReport] = []
    threads = [threading.Thread(target=lambda: reports.append(fetch(server, pins, tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses(report)[0] for report in reports) == ["fetched", "present", "present", "present"]
    assert len(server.seen) == 4


def test_lock_that_is_held_too_long_is_named(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.fail("stall", method="POST")
    slow = FetchPolicy(tries=1, timeout_s=2)
    thread = threading.Thread(target=fetch, args=(server, pins, tmp_path, slow))
    thread.start()
    while not server.seen:
        pass
    with pytest.raises(EnvironmentProblem, match="another process"):
        fetch(server, pins, tmp_path, FetchPolicy(lock_s=0.1))
    thread.join()


KILLED = f"""
from quarry_harness.fetching import FetchPolicy, fetch_pins
{KILL_AT_STEP}
policy = FetchPolicy(blob_limit_bytes=1000, max_blob_bytes=100_000)
fetch_pins("a__b", sys.argv[4:], Path(sys.argv[2]), sys.argv[3], lambda path: path.endswith(".py"), policy=policy)
"""


@pytest.mark.parametrize("adding", [False, True], ids=["new", "adding"])
def test_killed_at_any_step_and_run_again_equals_undisturbed(
    adding: bool, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    fetch(server, pins[:3], tmp_path / "base")
    fetch(server, pins, tmp_path / "undisturbed")
    expected = state(tmp_path / "undisturbed" / "a__b.git")
    old = state(tmp_path / "base" / "a__b.git")
    base = [tmp_path / "base" / "a__b.git"] if adding else []
    place = tmp_path / "killed"
    for step in range(1, 200, 2):
        shutil.rmtree(place, ignore_errors=True)
        for repo in base:
            shutil.copytree(repo, place / repo.name)
        command = [sys.executable, "-c", KILLED, str(step), str(place / "a__b.git"), server.template, *pins]
        code = subprocess.run(
            command, check=False, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        ).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        # What a reader sees in between is the old state or the new one.
        if (place / "a__b.git").exists():
            between = state(place / "a__b.git")
            assert between["refs"] in (old["refs"], expected["refs"])
            assert all(between[line[:40]] == expected[line[:40]] for line in between["refs"])  # type: ignore[attr-defined]
        fetch(server, pins, place)
        assert state(place / "a__b.git") == expected
        assert leftovers(place) == []
    assert step > 10
    assert state(place / "a__b.git") == expected
