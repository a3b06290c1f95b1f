"""`quarry fetch` as its user runs it, against a real server: tokens, moves, re-runs, estimates, kills, locks, disks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Ended
from git_repos import git, make_repository, write_object
from releases import write_release
from smart_http import SmartServer

from quarry_harness.fetching import FetchPolicy
from quarry_harness.stages.fetch import Selection
from quarry_harness.stages.fetch import fetch as fetch_stage
from quarry_harness.stages.repositories import Source

Quarry = Callable[..., Ended]
IS_ROOT = os.geteuid() == 0
# A host that asks for more patience than there is is given up at once, so that the tests do not wait.
PATIENCE = "100000"


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


def make_host(folder: Path, repositories: int, revisions: int = 3) -> dict[str, list[str]]:
    """Repositories o/r0, o/r1, ... below folder/host; returns o__r0 -> commit ids."""
    return {
        f"o__r{number}": make_repository(
            folder / "host" / "o" / f"r{number}.git",
            [
                {f"f{i}.py": b"def f():\n    return %d\n" % (i * (1 + (i == revision)) + number) for i in range(8)}
                for revision in range(revisions)
            ],
        )
        for number in range(repositories)
    }


@pytest.fixture
def pins(tmp_path: Path) -> dict[str, list[str]]:
    return make_host(tmp_path, 3)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SmartServer]:
    (tmp_path / "host").mkdir(exist_ok=True)
    with SmartServer(tmp_path / "host") as running:
        yield running


@pytest.fixture
def fetch(quarry: Quarry, tmp_path: Path, pins: dict[str, list[str]], server: SmartServer) -> Callable[..., Ended]:
    """The command on the release of all pins; into tmp_path/w where no other workspace is given."""
    release = write_release(tmp_path / "release", pins)

    def run(*arguments: object, w: str = "w", template: str = server.template, **options: Any) -> Ended:
        place = ("--release", release, "--mirror", template, "-w", tmp_path / w)
        return quarry("fetch", *place, "--json", *arguments, **options)

    return run


def asked(server: SmartServer) -> set[str]:
    return {"__".join(seen.path.split("/")[1:3]).removesuffix(".git") for seen in server.seen}


def everything_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def contents(workspace: Path) -> dict[str, Any]:
    """What a workspace holds of every repository: pins, absent blobs, and the objects below the pins."""
    held = {}
    for repo in sorted((workspace / "repos").glob("*.git")):
        refs = git(repo, "for-each-ref", "--format=%(objectname) %(refname)")
        objects = git(repo, "rev-list", "--objects", "--no-walk", "--stdin", stdin=_column(refs).encode())
        held[repo.name] = (refs, sorted(objects.splitlines()), (repo / "quarry-absent.jsonl").read_bytes())
    return held


def _column(refs: str) -> str:
    return "".join(f"{line.split()[0]}\n" for line in refs.splitlines())


def leftovers(workspace: Path) -> list[str]:
    found = [*(workspace / "repos").glob("*.part-*"), *(workspace / "repos").rglob("tmp_*")]
    return [str(place) for place in found]


# -- signing in -------------------------------------------------------------------------------------------------------


def test_token_from_a_variable_signs_in_and_is_kept_nowhere(
    fetch: Callable[..., Ended], server: SmartServer, tmp_path: Path
) -> None:
    server.require_password("x-access-token", "s3cret-token")
    refused = fetch()
    assert refused.code == 4
    assert {row["status"] for row in refused.json["missing"]} == {"repository_gone"}
    done = fetch("--token-env", "MY_TOKEN", env={"MY_TOKEN": "s3cret-token"})
    assert done.code == 0, done.err
    assert done.json["fetched"] == 9
    for words in (done.out.encode(), done.err.encode(), everything_below(tmp_path / "w")):
        assert b"s3cret" not in words
        assert server.authorization.removeprefix("Basic ").encode() not in words


def test_the_variables_name_can_come_from_the_environment(fetch: Callable[..., Ended], server: SmartServer) -> None:
    server.require_password("x-access-token", "s3cret-token")
    done = fetch(env={"QUARRY_TOKEN_ENV": "MY_TOKEN", "MY_TOKEN": "s3cret-token"})
    assert done.code == 0, done.err
    # What is there needs no token.
    assert fetch(env={"QUARRY_TOKEN_ENV": "NOT_SET"}).code == 0


def test_helper_that_the_user_names_signs_in(fetch: Callable[..., Ended], server: SmartServer, tmp_path: Path) -> None:
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\ncat > /dev/null\necho username=me; echo password=s3cret-password\n")
    helper.chmod(0o755)
    server.require_password("me", "s3cret-password")
    done = fetch("--credential-helper", helper)
    assert done.code == 0, done.err
    assert b"s3cret" not in everything_below(tmp_path / "w") + done.out.encode() + done.err.encode()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--token-env", "NO_SUCH_TOKEN"], 4, "NO_SUCH_TOKEN holds no token"),
        (["--token-env", "ghp_pasted"], 4, "that was named holds no token"),
        (["--token-env", "PATH", "--credential-helper", "store"], 2, "Name one"),
    ],
)
def test_unusable_credentials_are_told_once_before_any_request(
    arguments: list[str], code: int, words: str, fetch: Callable[..., Ended], server: SmartServer
) -> None:
    done = fetch(*arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert "ghp_pasted" not in done.err
    assert server.seen == []


# -- accounts and re-runs ---------------------------------------------------------------------------------------------


def test_a_renamed_repository_is_noted_and_remembered(
    fetch: Callable[..., Ended], quarry: Quarry, server: SmartServer, tmp_path: Path
) -> None:
    (tmp_path / "host" / "o" / "r1.git").rename(tmp_path / "host" / "o" / "new.git")
    server.renamed = {"/o/r1.git": "/o/new.git"}
    done = fetch()
    assert done.code == 0, done.err
    (moved,) = done.json["renamed"]
    assert moved["repo"] == "o__r1"
    assert moved["url"].endswith("/o/new.git")
    assert quarry("status", "-w", tmp_path / "w", "--json").json["renamed"] == [moved]


def test_a_rerun_tries_only_what_another_try_may_bring(
    quarry: Quarry, server: SmartServer, tmp_path: Path, pins: dict[str, list[str]]
) -> None:
    gone = "0123456789" * 4
    release = write_release(tmp_path / "release", {**pins, "o__r0": [*pins["o__r0"], gone], "o__no": [gone]})
    place = ("--release", release, "--mirror", server.template, "-w", tmp_path / "w", "--json")
    server.fail("503", under="/o/r2.git", Retry_After=PATIENCE)
    first = quarry("fetch", *place)
    assert first.code == 4
    assert {row["repo"]: (row["status"], row["retry"]) for row in first.json["missing"]} == {
        "o__no": ("repository_gone", False),
        "o__r0": ("revision_gone", False),
        "o__r2": ("unreachable", True),
    }
    assert first.json["outcomes"] == {"fetched": 6, "repository_gone": 1, "revision_gone": 1, "unreachable": 3}
    server.recover()
    server.seen.clear()
    dry = quarry("fetch", *place, "--dry-run").json
    assert (dry["present"], dry["to_fetch"], dry["known_missing"], dry["repositories_to_ask"]) == (6, 3, 2, 1)
    again = quarry("fetch", *place)
    assert again.code == 1, again.err
    assert asked(server) == {"o__r2"}
    assert (again.json["fetched"], again.json["known_missing"], len(again.json["missing"])) == (3, 2, 2)
    server.seen.clear()
    assert quarry("fetch", *place).code == 1
    assert server.seen == []
    kept = quarry("status", "-w", tmp_path / "w", "--json").json["images"]["preimage"]["missing"]
    assert [(row["repo"], row["revision"], row["status"]) for row in kept] == [
        ("o__no", gone, "repository_gone"),
        ("o__r0", gone, "revision_gone"),
    ]
    assert all(row["reason"] for row in kept)
    assert quarry("fetch", *place, "--retry-missing").code == 1
    assert asked(server) == {"o__r0", "o__no"}


def test_another_place_is_asked_for_what_the_first_one_lacks(
    quarry: Quarry, server: SmartServer, tmp_path: Path, pins: dict[str, list[str]]
) -> None:
    release = write_release(tmp_path / "release", pins)
    shutil.move(tmp_path / "host" / "o" / "r1.git", tmp_path / "elsewhere" / "o" / "r1.git")
    place = ("--release", release, "-w", tmp_path / "w", "--json")
    assert quarry("fetch", *place, "--mirror", server.template).code == 1
    other = f"file://{tmp_path}/elsewhere/{{owner}}/{{name}}.git"
    done = quarry("fetch", *place, "--mirror", other)
    assert done.code == 0, done.err
    assert (done.json["fetched"], done.json["present"]) == (3, 6)


def test_a_host_in_trouble_is_left_alone_after_five_repositories(
    server: SmartServer, tmp_path: Path, quarry: Quarry
) -> None:
    pins = make_host(tmp_path, 12, 1)
    release = write_release(tmp_path / "release", pins)
    server.fail("429")
    quick = Source(server.template, policy=FetchPolicy(tries=2, backoff_s=0.001))

    def fetch() -> dict[str, Any]:
        return fetch_stage(tmp_path / "w", str(release), Selection(), "preimage", quick, 1, lambda *_: None)

    document = fetch()
    assert document["outcomes"] == {"rate_limited": 12}
    assert len(server.seen) == 10  # two tries for each of five
    assert sum("not tried" in row["reason"] for row in document["missing"]) == 7
    server.recover()
    assert fetch()["fetched"] == 12


def test_a_folder_that_is_no_repository_costs_no_other(
    fetch: Callable[..., Ended], tmp_path: Path, pins: dict[str, list[str]]
) -> None:
    (tmp_path / "w" / "repos" / "o__r1.git").mkdir(parents=True)
    (tmp_path / "w" / "repos" / "o__r1.git" / "letter.txt").write_text("dear reader")
    done = fetch()
    assert done.code == 4
    assert {row["repo"] for row in done.json["missing"]} == {"o__r1"}
    assert "o__r1.git" in done.json["missing"][0]["reason"]
    shutil.rmtree(tmp_path / "w" / "repos" / "o__r1.git")
    assert fetch().json["fetched"] == 3


def test_sources_too_large_are_listed(quarry: Quarry, server: SmartServer, tmp_path: Path) -> None:
    pins = make_repository(
        tmp_path / "host" / "o" / "big.git",
        [{"a.py": b"x = 1\n", "big.py": bytes(17_000_000), "big.png": bytes(300_000)}],
    )
    release = write_release(tmp_path / "release", {"o__big": pins})
    done = quarry("fetch", "--release", release, "--mirror", server.template, "-w", tmp_path / "w", "--json")
    assert done.code == 0, done.err
    assert [(row["path"], row["bytes"]) for row in done.json["left_out"]] == [("big.py", 17_000_000)]
    assert quarry("status", "-w", tmp_path / "w", "--json").json["left_out"] == done.json["left_out"]


# -- estimates --------------------------------------------------------------------------------------------------------


def test_estimate_for_a_folder_is_what_the_revisions_take_there(
    quarry: Quarry, tmp_path: Path, pins: dict[str, list[str]]
) -> None:
    noise = random.Random(7)  # noqa: S311
    big = make_repository(
        tmp_path / "host" / "o" / "big.git", [{f"{i}.py": noise.randbytes(20_000) for i in range(20)} for _ in range(4)]
    )
    release = write_release(tmp_path / "release", {**pins, "o__big": [big[0], big[2]]})
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
    place = ("--release", release, "--mirror", template, "-w", tmp_path / "w", "--json")
    estimate = quarry("fetch", *place, "--dry-run").json["disk"]
    assert not (tmp_path / "w").exists()
    assert quarry("fetch", *place).code == 0
    real = sum(file.stat().st_size for file in (tmp_path / "w" / "repos").rglob("*.pack"))
    assert 0.8 < estimate["bytes"] / real < 1.25
    assert "mirror's packs" in estimate["basis"]
    assert quarry("fetch", *place, "--dry-run").json["disk"]["bytes"] == 0


def test_estimate_for_a_host_is_scaled_or_there_is_none(quarry: Quarry, server: SmartServer, tmp_path: Path) -> None:
    pins = make_host(tmp_path, 8)
    some = write_release(tmp_path / "some", {repo: shas for repo, shas in pins.items() if repo < "o__r5"})
    every = write_release(tmp_path / "every", pins)
    place = ("--mirror", server.template, "-w", tmp_path / "w", "--json")
    none = quarry("fetch", "--release", every, *place, "--dry-run").json["disk"]
    assert none["bytes"] is None
    assert "does not tell" in none["basis"]
    assert quarry("fetch", "--release", some, *place).code == 0
    scaled = quarry("fetch", "--release", every, *place, "--dry-run").json
    assert scaled["to_fetch"] == 9
    assert "scaled from the 5 repositories" in scaled["disk"]["basis"]
    text = quarry("fetch", "--release", every, *place[:-1], "--dry-run").out
    assert "would fetch 9 of 24 revisions" in text
    assert "disk: about" in text


# -- kills, locks, disks, clocks --------------------------------------------------------------------------------------


@contextmanager
def started(*arguments: object, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "quarry_harness", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | env) as process:
        try:
            yield process
        finally:
            process.kill()


def test_killed_at_ten_random_moments_ends_as_an_undisturbed_fetch(
    quarry: Quarry, server: SmartServer, tmp_path: Path
) -> None:
    pins = make_host(tmp_path, 20)
    release = write_release(tmp_path / "release", pins)
    place = ("--release", release, "--mirror", server.template, "-j", 4, "--json")
    begun = time.monotonic()
    assert quarry("fetch", *place, "-w", tmp_path / "calm").json["fetched"] == 60
    whole_s = time.monotonic() - begun
    expected = contents(tmp_path / "calm")
    dice = random.Random(4)  # noqa: S311
    for turn in range(5):
        workspace = tmp_path / f"w{turn}"
        kills = 0
        while kills < 2:
            with started("fetch", *place, "-w", workspace) as process:
                time.sleep(dice.uniform(0.1, 0.7) * whole_s)
                process.kill()
                if process.wait() == -signal.SIGKILL:
                    kills += 1
                else:  # it was faster: from the start
                    kills = 0
                    shutil.rmtree(workspace)
        done = quarry("fetch", *place, "-w", workspace)
        assert done.code == 0, done.err
        assert done.json["missing"] == []
        assert contents(workspace) == expected
        assert leftovers(workspace) == []
    assert quarry("verify", "-w", workspace).out.count("all there") == 20


def test_two_at_once_and_the_second_names_the_first(
    fetch: Callable[..., Ended], server: SmartServer, tmp_path: Path
) -> None:
    server.gate.clear()
    place = ("--release", tmp_path / "release", "--mirror", server.template, "-w", tmp_path / "w")
    with started("fetch", *place) as first:
        while not server.seen:
            time.sleep(0.01)
        second = fetch()
        assert second.code == 4
        assert f"in use by process {first.pid}" in second.err
        server.gate.set()
        assert first.wait(timeout=60) == 0
    assert fetch().json["present"] == 9


def test_interrupted_it_ends_at_once_and_goes_on_later(
    fetch: Callable[..., Ended], server: SmartServer, tmp_path: Path
) -> None:
    server.gate.clear()
    place = ("--release", tmp_path / "release", "--mirror", server.template, "-w", tmp_path / "w")
    with started("fetch", *place) as process:
        while not server.seen:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
    server.gate.set()
    assert fetch().json["fetched"] == 9
    assert leftovers(tmp_path / "w") == []


@pytest.mark.skipif(not IS_ROOT, reason="mounts a small file system")
def test_full_disk_is_told_and_room_heals_it(quarry: Quarry, server: SmartServer, tmp_path: Path) -> None:
    noise = random.Random(3)  # noqa: S311
    pins = {
        f"o__n{n}": make_repository(tmp_path / "host" / "o" / f"n{n}.git", [{"a.py": noise.randbytes(2_500_000)}])
        for n in range(4)
    }
    release = write_release(tmp_path / "release", pins)
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let it mount a file system")
    try:
        arguments = ("fetch", "--release", release, "--mirror", server.template, "-w", place / "w", "-j", 1)
        done = quarry(*arguments)
        assert done.code == 4, done.err
        assert "disk is full" in done.err + done.out
        assert "Traceback" not in done.err
        subprocess.run(["mount", "-o", "remount,size=60m", str(place)], check=True)
        done = quarry(*arguments, "--json")
        assert done.code == 0, done.err
        assert leftovers(place / "w") == []
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_clocks_and_locales_change_nothing(quarry: Quarry, server: SmartServer, tmp_path: Path) -> None:
    repo = tmp_path / "host" / "o" / "old.git"
    base = make_repository(repo, [{"a.py": b"x = 1\n", "\u00fc\u0131.py": b"y = 2\n"}])
    tree = git(repo, "rev-parse", f"{base[0]}^{{tree}}")
    pins = [
        write_object(
            repo,
            "commit",
            f"tree {tree}\nauthor A <a@example.org> {when}\ncommitter A <a@example.org> {when}\n\nw\n".encode(),
        )
        for when in ("0 +0000", "1 -1200", "4102444800 +1400", "9999999999 +0000")
    ]
    release = write_release(tmp_path / "release", {"o__old": [*base, *pins]})
    seen = []
    for number, env in enumerate(
        (
            {"LC_ALL": "C", "TZ": "UTC"},
            {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "Pacific/Kiritimati"},
            {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
        )
    ):
        workspace = tmp_path / f"w{number}"
        place = ("--release", release, "--mirror", server.template, "-w", workspace, "--json")
        done = quarry("fetch", *place, env=env)
        assert done.code == 0, done.err
        seen.append(contents(workspace))
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]["o__old.git"][0].splitlines()) == 5
    absent = ("--release", release, "--mirror", f"{server.template}x", "-w", tmp_path / "none", "--json")
    done = quarry("fetch", *absent, env={"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"})
    assert done.json["outcomes"] == {"repository_gone": 5}


# -- what cannot be had, and the stages after -------------------------------------------------------------------------


def test_a_revision_that_cannot_be_had_now_stops_the_measuring_until_it_is_accepted(
    quarry: Quarry, server: SmartServer, pins: dict[str, list[str]], tmp_path: Path
) -> None:
    release = write_release(tmp_path / "release", pins)
    server.fail("403", under="/o/r1.git", times=1000)
    place = ("-w", tmp_path / "w")
    command = ("run", "--release", release, "--mirror", server.template, *place, "--json")
    stopped = quarry(*command)
    assert stopped.code == 4
    assert "access_denied" in quarry("status", *place, "--json").out
    assert "--accept-missing" in stopped.err
    assert quarry("chunk", *place).code == 1
    assert quarry("canonicalize", *place).code == 4
    accepted = quarry(*command, "--accept-missing")
    assert accepted.code == 1, accepted.err
    assert accepted.json["eval"]["revisions_missing"] == 3


def test_one_revision_that_fails_costs_no_other_its_number(
    quarry: Quarry, server: SmartServer, pins: dict[str, list[str]], tmp_path: Path
) -> None:
    host = tmp_path / "host" / "o" / "r1.git"
    # 10 ** 7 files, when it is unfolded.
    blob = git(host, "hash-object", "-w", "--stdin", stdin=b"x")
    lines = "".join(f"100644 blob {blob}\t{n}.py\n" for n in range(10))
    tree = git(host, "mktree", stdin=lines.encode())
    for _ in range(6):
        lines = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
        tree = git(host, "mktree", stdin=lines.encode())
    who = "A Tester <tester@example.org> 1700000000 +0000"
    bomb = write_object(host, "commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nw\n".encode())
    release = write_release(tmp_path / "release", pins | {"o__r1": [*pins["o__r1"], bomb]})
    done = quarry("run", "--release", release, "--mirror", server.template, "-w", tmp_path / "w", "--json")
    assert done.code == 1, done.err
    (missing,) = done.json["fetch"]["missing"]
    assert (missing["revision"], missing["status"]) == (bomb, "failed")
    assert ".part-" not in missing["reason"]
    assert done.json["eval"]["revisions_missing"] == 1


@pytest.mark.parametrize("template", ["http://[::1/{owner}/{name}", "https://host/{owner}/{name}.git?token=s3cret"])
def test_a_template_that_is_no_url_or_holds_a_secret_is_refused_without_showing_it(
    quarry: Quarry, pins: dict[str, list[str]], tmp_path: Path, template: str
) -> None:
    release = write_release(tmp_path / "release", pins)
    done = quarry("fetch", "--release", release, "--mirror", template, "-w", tmp_path / "w")
    assert done.code == 2
    assert "s3cret" not in done.err + done.out
    assert "Traceback" not in done.err
    assert not (tmp_path / "w").exists()


def test_filters_in_another_order_are_the_same_selection(quarry: Quarry, tmp_path: Path) -> None:
    seen = []
    for number, languages in enumerate((("go", "rust"), ("rust", "go"))):
        filters = [word for language in languages for word in ("--language", language)]
        done = quarry("run", "--release", "demo", *filters, "-q", "-w", tmp_path / str(number))
        assert done.code == 0, done.err
        (result,) = (tmp_path / str(number) / "runs").glob("*/result.json")
        seen.append((result.parent.name, result.read_bytes()))
    assert seen[0] == seen[1]
