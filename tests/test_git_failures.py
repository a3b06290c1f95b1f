"""What hosts, networks and disks do, told apart; and what a hostile host or machine cannot make git do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from git_repos import Content, git, make_repository
from smart_http import SmartServer

from quarry_harness.errors import EnvironmentProblem
from quarry_harness.fetching import Credentials, FetchPolicy, FetchReport, fetch_pins
from quarry_harness.git import has_revision

QUICK = FetchPolicy(tries=3, backoff_s=0.01)
IS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
def pins(tmp_path: Path) -> list[str]:
    files: dict[str, Content] = {f"{i}.py": os.urandom(2000) for i in range(20)}
    return make_repository(tmp_path / "host" / "a" / "b.git", [files, {**files, "0.py": b"x = 1\n"}])


@pytest.fixture
def server(tmp_path: Path, pins: list[str]) -> Iterator[SmartServer]:
    with SmartServer(tmp_path / "host") as running:
        yield running


def fetch(
    server: SmartServer,
    pins: list[str],
    tmp_path: Path,
    policy: FetchPolicy = QUICK,
    credentials: Credentials | None = None,
) -> FetchReport:
    return fetch_pins(
        "a__b", pins, tmp_path / "repos" / "a__b.git", server.template, policy=policy, credentials=credentials
    )


def only(report: FetchReport) -> tuple[str, str]:
    """The status and reason that all revisions share."""
    [(status, reason)] = {(outcome.status, outcome.reason) for outcome in report.outcomes}
    return status, reason


def processes(words: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if words in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("kind", "status", "words", "requests"),
    [
        ("401", "repository_gone", "gone or private", 1),
        ("403", "access_denied", "403", 1),
        ("404", "repository_gone", "404", 1),
        ("410", "repository_gone", "410", 1),
        ("429", "rate_limited", "429: too many requests (3 tries)", 3),
        ("500", "unreachable", "500 (3 tries)", 3),
        ("503", "unreachable", "503 (3 tries)", 3),
        ("418", "failed", "418", 1),
        ("dumb", "failed", "dumb", 1),
    ],
)
def test_answers_of_the_host(
    kind: str, status: str, words: str, requests: int, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    server.fail(kind, method="GET")
    report = fetch(server, pins, tmp_path)
    assert only(report)[0] == status
    assert words in only(report)[1]
    assert report.requests == len(server.seen) >= requests
    assert list((tmp_path / "repos").glob("*.git*")) == [tmp_path / "repos" / "a__b.git.lock"]


@pytest.mark.parametrize("kind", ["cut", "truncated", "garbled"])
def test_broken_pack_is_tried_again_and_given_up_in_the_end(
    kind: str, server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    server.fail(kind, times=1, method="POST")
    report = fetch(server, pins, tmp_path)
    assert only(report) == ("fetched", "")
    assert report.requests == 4
    git(tmp_path / "repos" / "a__b.git", "fsck")
    shutil.rmtree(tmp_path / "repos")
    server.fail(kind, method="POST")
    status, reason = only(fetch(server, pins, tmp_path))
    assert (status, reason[-9:]) == ("unreachable", "(3 tries)")
    assert not (tmp_path / "repos" / "a__b.git").exists()


def test_host_that_recovers_is_waited_for(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.fail("503", times=1, Retry_After="1")
    server.fail("429", times=1)
    started = time.monotonic()
    assert only(fetch(server, pins, tmp_path)) == ("fetched", "")
    assert time.monotonic() - started >= 1


def test_host_that_asks_for_too_much_patience_is_given_up_at_once(
    server: SmartServer, pins: list[str], tmp_path: Path
) -> None:
    server.fail("429", Retry_After="3600")
    status, reason = only(fetch(server, pins, tmp_path))
    assert status == "rate_limited"
    assert "wait 3600 s" in reason
    assert len(server.seen) == 1


def test_stall_is_noticed(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.fail("stall", method="POST")
    report = fetch(server, pins, tmp_path, replace(QUICK, tries=1, low_speed_s=1))
    assert only(report) == ("timed_out", "the host stalled (1 try)")


@pytest.mark.parametrize("kind", ["stall", "endless"])
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_time_limit_ends_every_process(kind: str, server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.fail(kind, method="POST")
    started = time.monotonic()
    report = fetch(server, pins, tmp_path, replace(QUICK, timeout_s=1))
    assert only(report)[0] == "timed_out"
    assert time.monotonic() - started < 5
    assert processes(str(tmp_path / "repos")) + processes(f"127.0.0.1:{server.port}") == []


def test_host_that_sends_without_end_is_stopped(server: SmartServer, tmp_path: Path) -> None:
    big = make_repository(tmp_path / "host" / "c" / "d.git", [{"big.bin": os.urandom(20_000_000)}])
    server.allow_filter = False
    server.fail("stall", method="POST")
    policy = replace(QUICK, max_pack_bytes=1_000_000, timeout_s=20)
    report = fetch_pins("c__d", big, tmp_path / "repos" / "c__d.git", server.template, policy=policy)
    assert only(report) == ("failed", "the host sent more than 1000000 bytes")


def test_nobody_listens(pins: list[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        template = f"http://127.0.0.1:{taken.getsockname()[1]}/{{owner}}/{{name}}"
        report = fetch_pins("a__b", pins, tmp_path / "a__b.git", template, policy=QUICK)
    assert only(report)[0] == "unreachable"
    assert "(3 tries)" in only(report)[1]


def test_no_such_repository_behind_a_host_and_in_a_folder(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    for template in (server.template, f"file://{tmp_path}/host/{{owner}}/{{name}}.git"):
        report = fetch_pins("no__thing", pins, tmp_path / "n.git", template, policy=QUICK)
        assert only(report)[0] == "repository_gone"


@pytest.mark.skipif(not IS_ROOT, reason="mounts a small file system")
@pytest.mark.parametrize("size", [8, 16, 28, 60, 200, 1500])
def test_full_disk(size: int, server: SmartServer, tmp_path: Path) -> None:
    big = make_repository(tmp_path / "host" / "c" / "d.git", [{"big.py": os.urandom(1_000_000)}])
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let it mount a file system")
    try:
        if size < 1500:
            report = fetch_pins("c__d", big, place / "c__d.git", server.template, policy=QUICK)
            assert only(report)[0] == "disk_full"
            assert "the disk is full" in only(report)[1]
            assert not (place / "c__d.git").exists()
            subprocess.run(["mount", "-o", "remount,size=3000k", str(place)], check=True)
        assert only(fetch_pins("c__d", big, place / "c__d.git", server.template, policy=QUICK)) == ("fetched", "")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_renamed_repository_is_followed_and_noted(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    (tmp_path / "host" / "new").mkdir()
    (tmp_path / "host" / "a" / "b.git").rename(tmp_path / "host" / "new" / "home.git")
    server.renamed = {"/a/b.git": "/new/home.git"}
    report = fetch(server, pins, tmp_path)
    assert only(report) == ("fetched", "")
    assert report.url == f"http://127.0.0.1:{server.port}/new/home.git"
    assert report.note == f"renamed: http://127.0.0.1:{server.port}/a/b.git is now {report.url}"


@pytest.mark.parametrize("target", ["file:///tmp/x", "ext::sh -c touch% sprung", "ssh://-oProxyCommand=x/a", "//"])
def test_redirect_leads_to_no_other_protocol(target: str, server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.renamed = {"/a/b.git": target}
    report = fetch(server, pins, tmp_path)
    assert only(report)[0] in ("failed", "unreachable")
    assert report.url.startswith("http://127.0.0.1")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    file = tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", file, "-out", tmp_path / "public.pem"], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + (tmp_path / "public.pem").read_bytes())
    return file


def test_certificate_has_to_be_trusted_and_the_users_authorities_count(
    certificate: Path, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    for name in ("GIT_SSL_CAINFO", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with SmartServer(tmp_path / "host", certificate=certificate) as server:
        status, reason = only(fetch(server, pins, tmp_path))
        assert (status, "ertificate" in reason, "tries" in reason) == ("unreachable", True, False)
        monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "public.pem"))
        assert only(fetch(server, pins, tmp_path)) == ("fetched", "")


def test_redirect_from_https_never_leads_to_http(
    certificate: Path, server: SmartServer, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "public.pem"))
    with SmartServer(tmp_path / "host", certificate=certificate) as safe:
        safe.renamed = {"/a/b.git": f"http://127.0.0.1:{server.port}/a/b.git"}
        assert only(fetch(safe, pins, tmp_path))[0] in ("failed", "unreachable")
        assert server.seen == []
        server.renamed = {"/a/b.git": f"https://127.0.0.1:{safe.port}/a/b.git"}
        safe.renamed = {}
        assert only(fetch(server, pins, tmp_path)) == ("fetched", "")


def test_token_signs_in_and_is_seen_nowhere(
    server: SmartServer, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", "t0ken-s3cret")
    credentials = Credentials(token_variable="MIRROR_TOKEN", username="me")
    server.require_password("me", "t0ken-s3cret")
    assert only(fetch(server, pins, tmp_path))[0] == "repository_gone"
    assert only(fetch(server, pins, tmp_path, credentials=credentials)) == ("fetched", "")
    given = server.authorization.removeprefix("Basic ")
    for file in (tmp_path / "repos").rglob("*"):
        if file.is_file():
            assert b"s3cret" not in file.read_bytes()
            assert given.encode() not in file.read_bytes()
    shutil.rmtree(tmp_path / "repos")
    server.require_password("me", "another")
    status, reason = only(fetch(server, pins, tmp_path, credentials=credentials))
    assert status == "access_denied"
    assert "s3cret" not in reason
    assert given not in reason


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_token_is_in_no_argument_and_in_no_file_while_git_runs(
    server: SmartServer, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", "t0ken-s3cret")
    server.require_password("x-access-token", "t0ken-s3cret")
    server.fail("stall", method="POST")
    seen: list[str] = []
    files: list[bytes] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen.extend(processes(f"127.0.0.1:{server.port}") + processes("repos/a__b.git.part"))
            with suppress(FileNotFoundError):
                files.extend(file.read_bytes() for file in (tmp_path / "repos").rglob("*") if file.is_file())

    watcher = threading.Thread(target=watch)
    watcher.start()
    fetch(server, pins, tmp_path, replace(QUICK, timeout_s=1), credentials=Credentials(token_variable="MIRROR_TOKEN"))
    ended.set()
    watcher.join()
    given = server.authorization.removeprefix("Basic ")
    assert any("remote-http" in line for line in seen)
    assert not any("s3cret" in line or given in line for line in seen)
    assert not any(b"s3cret" in data or given.encode() in data for data in files)


def test_token_follows_a_rename_on_its_host_and_no_further(
    server: SmartServer, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_TOKEN", "t0ken-s3cret")
    credentials = Credentials(token_variable="MIRROR_TOKEN", scheme="bearer")
    server.authorization = "Bearer t0ken-s3cret"
    (tmp_path / "host" / "new").mkdir()
    shutil.copytree(tmp_path / "host" / "a" / "b.git", tmp_path / "host" / "new" / "home.git")
    server.renamed = {"/a/b.git": "/new/home.git"}
    report = fetch(server, pins, tmp_path, credentials=credentials)
    assert only(report) == ("fetched", "")
    assert report.note.endswith("/new/home.git")
    shutil.rmtree(tmp_path / "repos")
    with SmartServer(tmp_path / "host") as other:
        for host in (f"127.0.0.1:{other.port}", f"localhost:{other.port}"):
            server.renamed = {"/a/b.git": f"http://{host}/a/b.git"}
            status, reason = only(fetch(server, pins, tmp_path, credentials=credentials))
            assert status == "failed"
            assert "another host" in reason
        assert other.seen == []


def test_helper_signs_in(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    server.require_password("me", "s3cret")
    credentials = Credentials(helper="!printf 'username=me\\npassword=s3cret\\n' #")
    assert only(fetch(server, pins, tmp_path, credentials=credentials)) == ("fetched", "")


def test_missing_token_is_said_before_any_request(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="NO_SUCH_VARIABLE"):
        fetch(server, pins, tmp_path, credentials=Credentials(token_variable="NO_SUCH_VARIABLE"))
    assert server.seen == []


def test_nothing_of_the_machine_runs_or_signs_in(
    server: SmartServer, pins: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    hooks = home / "template" / "hooks"
    hooks.mkdir(parents=True)
    for trap in (home / "trap", hooks / "reference-transaction", hooks / "post-checkout"):
        trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\necho username=x; echo password=y\n")
        trap.chmod(0o755)
    trap = home / "trap"
    (home / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    (home / ".gitconfig").write_text(
        f"[credential]\n\thelper = {trap}\n[core]\n\thooksPath = {hooks}\n\taskPass = {trap}\n"
        f"[init]\n\ttemplateDir = {home}/template\n[http]\n\textraHeader = X-Leak: 1\n"
        f'[url "file:///nowhere/"]\n\tinsteadOf = http://127.0.0.1\n[uploadpack]\n\tpackObjectsHook = {trap}\n'
    )
    for name, value in {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_TEMPLATE_DIR": str(home / "template"),
        "GIT_ASKPASS": str(trap),
        "SSH_ASKPASS": str(trap),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(hooks),
        "GIT_DIR": str(tmp_path / "elsewhere.git"),
        "GIT_TRACE_CURL": str(tmp_path / "trace"),
        "GIT_PROXY_COMMAND": str(trap),
        "GIT_SSL_NO_VERIFY": "1",
        "LC_ALL": "de_DE.UTF-8",
        "LANGUAGE": "de",
    }.items():
        monkeypatch.setenv(name, value)
    server.require_password("me", "s3cret")
    assert only(fetch(server, pins, tmp_path))[0] == "repository_gone"
    assert {seen.authorization for seen in server.seen} == {""}
    server.authorization = ""
    assert only(fetch(server, pins, tmp_path)) == ("fetched", "")
    shutil.rmtree(tmp_path / "repos")
    template = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
    report = fetch_pins("a__b", pins, tmp_path / "repos" / "a__b.git", template)
    assert only(report) == ("fetched", "")
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "repos" / "a__b.git" / "hooks").exists()


def test_hostile_mirror_folder_runs_nothing(pins: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    trap = host / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    (host / "hooks").mkdir(exist_ok=True)
    shutil.copy(trap, host / "hooks" / "post-upload-pack")
    with (host / "config").open("a") as config:
        config.write(
            f"[uploadpack]\n\tpackObjectsHook = {trap}\n[core]\n\tfsmonitor = {trap}\n\talternateRefsCommand = {trap}\n"
        )
    report = fetch_pins("a__b", pins, tmp_path / "a__b.git", f"file://{tmp_path}/host/{{owner}}/{{name}}.git")
    assert only(report) == ("fetched", "")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.skipif(not IS_ROOT, reason="gives a folder to another user")
@pytest.mark.parametrize("bare", [True, False])
def test_mirror_of_another_user_is_trusted_when_named(bare: bool, pins: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host" / "a" / "b.git"
    if not bare:
        (tmp_path / "host" / "c").mkdir()
        host.rename(tmp_path / "host" / "c" / ".git")
        (tmp_path / "host" / "c").rename(host)
        git(host / ".git", "config", "core.bare", "false")
    for place in (host, *host.rglob("*")):
        os.chown(place, 12345, 12345)
    (tmp_path / "host" / "alias").symlink_to(tmp_path / "host" / "a")
    for folder in ("host", "host/alias/.."):
        into = tmp_path / folder.replace("/", "-") / "a__b.git"
        report = fetch_pins("a__b", pins, into, f"file://{tmp_path}/{folder}/{{owner}}/{{name}}.git", policy=QUICK)
        assert only(report) == ("fetched", "")
        assert not (into / "quarry-mirror.gitconfig").exists()


def test_words_of_the_host_are_made_fit_to_print(server: SmartServer, pins: list[str], tmp_path: Path) -> None:
    (tmp_path / "host" / "a" / "b.git" / "HEAD").write_text("broken\n")
    report = fetch(server, pins, tmp_path)
    assert "\n" not in only(report)[1]
    assert not has_revision(tmp_path / "repos" / "a__b.git", pins[0])
