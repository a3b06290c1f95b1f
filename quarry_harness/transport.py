"""One conversation with a git host: where it is, how to sign in, how long to wait, and what its answer means.

The host is a stranger. It may redirect, stall, send without end, or answer with text made for terminals; none of that
may run a command, reach another protocol, fill the disk, or get the token of another host.
"""

from __future__ import annotations

import base64
import errno
import math
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote, urljoin, urlsplit

from quarry_harness.git import git_environment, git_missing, one_line
from quarry_harness.mirrors import PROTOCOLS, Credentials, authorization

MIRROR_CONFIG = "quarry-mirror.gitconfig"  # lies in the repository while it is fetched
GONE = "the host does not have it"
_TRACE_LINE = re.compile(r"\d\d:\d\d:\d\d\.\d+ \S+:\d+ +(?:=>|<=|==) (.*)")
_RECEIVED = re.compile(r"Receiving objects: 100% \(\d+/\d+\), ([\d.]+) (bytes|KiB|MiB|GiB) \|")
_UNITS = {"bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_MAX_HOPS = 5


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """The bounds of a fetch of one repository."""

    blob_limit_bytes: int = 256 * 1024  # larger blobs come only when their path is wanted
    max_blob_bytes: int = 16 * 1024 * 1024  # larger ones are left out, wanted or not
    max_entries: int = 1_000_000  # of one revision's tree
    max_pack_bytes: int = 8 * 1024**3  # received for one repository
    tries: int = 4  # of one fetch, the first included
    backoff_s: float = 2.0  # before the second try; doubled each time, plus up to half as jitter
    max_wait_s: float = 300.0  # a host that asks for more patience than this is given up
    timeout_s: float = 3600.0  # of one git process, whatever it does
    low_speed_bytes_s: int = 1000  # slower than this for `low_speed_s` is a stall
    low_speed_s: int = 60
    lock_s: float = 7200.0  # to wait for another process that works on the same repository


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a fetch did not succeed: the status of `FetchOutcome`, words for people, and what may be done next."""

    status: str
    reason: str
    again: bool = False  # whether another try can help
    wait_s: float = 0.0  # what the host asked for
    revisions: tuple[str, ...] = ()  # the ones at fault, where the host names them
    fresh: bool = False  # whether a fetch that does not build on what is here may help
    apart: bool = False  # whether one of the revisions, which the host does not name, may be the reason


@dataclass(slots=True)
class Remote:
    """A repository at its host, and what the talk with it has cost so far."""

    url: str  # the final one, after redirects
    policy: FetchPolicy
    stop: threading.Event = field(default_factory=threading.Event)  # when set, git ends within a moment
    note: str = ""
    requests: int = 0  # HTTP requests; 0 for a folder
    received_bytes: int = 0  # of packs, as they lie on the disk
    header: str = field(default="", repr=False)  # the value of Authorization
    first_url: str = ""

    def __post_init__(self) -> None:
        """Remembers where it began."""
        self.first_url = self.url

    def sign_in(self, credentials: Credentials | None) -> None:
        """Gets the secret, where there is one to get; raises like `mirrors.authorization`."""
        if credentials is not None:
            self.header = authorization(self.url, credentials)

    def fetch(self, git_dir: Path, refspecs: Sequence[str], blobs: str = "") -> Failure | None:
        """Fetches into the bare repository, with retries; None is success.

        `blobs` is a filter for commits, such as "blob:limit=1000". Without it single blobs are fetched: then the host
        is not told what is here, since it would take a commit that is here for a promise that its blobs are here,
        too. Two HTTP requests where all goes well, three where commits that are here have something in common with
        the new ones.
        """
        hops = 0
        attempt = 1
        while True:
            failure, location = self._try(git_dir, refspecs, blobs)
            if failure is None or not failure.again:
                if location and failure and hops < _MAX_HOPS and self._follow(location):
                    hops += 1
                    continue
                return failure
            wait_s = self.policy.backoff_s * 2 ** (attempt - 1) * random.uniform(1.0, 1.5)  # noqa: S311 - jitter
            wait_s = max(wait_s, failure.wait_s)
            if self.stop.is_set() or attempt >= self.policy.tries or wait_s > self.policy.max_wait_s:
                tried = f"{attempt} tries" if attempt > 1 else "1 try"
                asks = f", and the host asks to wait {failure.wait_s:.0f} s" if failure.wait_s else ""
                return replace(failure, reason=f"{failure.reason} ({tried}{asks})")
            self.stop.wait(wait_s)
            attempt += 1

    def _try(self, git_dir: Path, refspecs: Sequence[str], blobs: str) -> tuple[Failure | None, str]:
        pack_folder = git_dir / "objects" / "pack"
        before = _pack_bytes(pack_folder)
        limit = [f"--filter={blobs}"] if blobs else []
        # What is here makes the pack smaller than the room it takes; then git has to say what it received.
        talk = "--progress" if (git_dir / "packed-refs").exists() else "-q"
        arguments = ["fetch", talk, "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]
        # The depth also shuts out the dumb protocol, in which a host could point at other hosts.
        arguments += ["--recurse-submodules=no", "--depth=1", *limit, "--stdin", "origin"]
        stdin = "".join(f"{refspec}\n" for refspec in refspecs).encode()
        ended = _run_watched(arguments, git_dir, stdin, self._environment(git_dir, blobs), self.policy, self.stop)
        self.requests += ended.requests
        grown = _pack_bytes(pack_folder) - before
        self.received_bytes += max(0, min(grown, ended.received_bytes) if ended.received_bytes else grown)
        for left in (*pack_folder.glob("tmp_*"), *git_dir.glob("*.lock")):
            left.unlink(missing_ok=True)
        if ended.code == 0:
            self._note_redirect(ended.location)
            return None, ""
        failure = _meaning(ended, signed_in=bool(self.header))
        if failure.status in ("failed", "unreachable") and not _has_room(git_dir):
            failure = Failure("disk_full", "the disk is full")  # git does not always say why it cannot write
        return self._without_secrets(failure), ended.location

    def which_are_there(self, git_dir: Path, revisions: Sequence[str]) -> frozenset[str] | None:
        """The revisions that the host has, found in two HTTP requests; None where it cannot be asked.

        A failed fetch names one absent commit only. Protocol v2 (gitprotocol-v2, `have` and `wait-for-done`)
        acknowledges every object of a list that the host has, and sends none.
        """
        scheme = urlsplit(self.url).scheme
        if scheme == "file":
            return None
        ended = _Ended()
        command = ["git", f"--git-dir={git_dir}", f"remote-{scheme}", "origin", self.url]
        with _session(command, self._environment(git_dir, ""), ended, subprocess.PIPE, subprocess.PIPE) as process:
            timer = threading.Timer(self.policy.timeout_s, _end, [process])
            timer.start()
            try:
                return _acknowledged(cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout), revisions)
            except (OSError, ValueError):
                return None
            finally:
                timer.cancel()
                _end(process)
                self.requests += ended.requests

    def _environment(self, git_dir: Path, blobs: str) -> dict[str, str]:
        parts = urlsplit(self.url)
        config = [
            ("remote.origin.url", self.url),
            ("protocol.version", "2"),
            ("fetch.unpackLimit", "1"),  # a pack stays a pack: it is counted, and moved as one
            ("fetch.writeCommitGraph", "false"),
            ("fetch.negotiationAlgorithm", "consecutive" if blobs else "noop"),
            # git checks every pin of the repository that lends its objects, and knows nothing of its filter.
            ("core.alternateRefsPrefixes", "refs/none/"),
            ("http.lowSpeedLimit", str(self.policy.low_speed_bytes_s)),
            ("http.lowSpeedTime", str(self.policy.low_speed_s)),
        ]
        if self.header:
            # git would send an extra header to wherever it is redirected: redirects are followed here instead.
            config.append((f"http.{parts.scheme}://{parts.netloc}/.extraHeader", f"Authorization: {self.header}"))
            config.append(("http.followRedirects", "false"))
        global_config = _mirror_config(git_dir, self.url) if parts.scheme == "file" else "/dev/null"
        env = git_environment(protocols=PROTOCOLS[parts.scheme], config=config, global_config=global_config)
        # Headers only, secrets redacted by git; they are counted and dropped.
        env.update(GIT_TRACE_CURL="1", GIT_TRACE_CURL_NO_DATA="1", GIT_TRACE_REDACT="1")
        return env

    def _follow(self, location: str) -> bool:
        target = _repository_of(self.url, location)
        if not target or target == self.url or urlsplit(target)[:2] != urlsplit(self.url)[:2]:
            return False
        self._note_redirect(location)
        return True

    def _note_redirect(self, location: str) -> None:
        target = _repository_of(self.url, location)
        if target and target != self.url:
            self.note = f"renamed: {self.first_url} is now {target}"
            self.url = target

    def _without_secrets(self, failure: Failure) -> Failure:
        # The host has seen the secret and may say it, as it is or decoded.
        reason = failure.reason
        given = self.header.partition(" ")[2]
        plain = base64.b64decode(given).decode().partition(":")[2] if self.header.startswith("Basic ") else ""
        for secret in filter(None, (given, plain)):
            reason = reason.replace(secret, "***")
        return replace(failure, reason=reason)


def _repository_of(url: str, location: str) -> str:
    """The repository that a redirect of `URL/info/refs?..` points at, "" where it points at something else."""
    if not location:
        return ""
    target, separator, _ = urljoin(f"{url.rstrip('/')}/info/refs", location).partition("/info/refs")
    parts = urlsplit(target)
    clean = re.fullmatch(r"[\x21-\x7e]{1,500}", target) and "@" not in parts.netloc
    return target if separator and clean and parts.scheme in ("http", "https") else ""


def _mirror_config(git_dir: Path, url: str) -> str:
    """A git configuration for the mirror's end: trust for this one folder, whoever owns it, and leave to filter."""
    path = unquote(urlsplit(url).path)
    places = {path, os.path.realpath(path)}
    quoted = [
        place.replace("\\", "\\\\").replace('"', '\\"') for root in sorted(places) for place in (root, f"{root}/.git")
    ]
    file = git_dir.absolute() / MIRROR_CONFIG
    trusted = "".join(f'\tdirectory = "{place}"\n' for place in quoted)
    file.write_text(f"[uploadpack]\n\tallowFilter = true\n[safe]\n{trusted}", encoding="utf-8")
    return str(file)


def _pack_bytes(folder: Path) -> int:
    total = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".pack") or entry.name.startswith("tmp_pack"):
                with suppress(FileNotFoundError):
                    total += entry.stat().st_size
    return total


def _has_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(1 << 20))
            probe.flush()
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)
    return True


@dataclass(slots=True)
class _Ended:
    """What is left of a git process: its words, and what its HTTP headers told."""

    code: int = 0
    stopped: Failure | None = None  # ended here, and why
    requests: int = 0
    received_bytes: int = 0  # of a pack, rounded up as git's progress line rounds; 0 where it does not say
    http_status: int = 0
    retry_after_s: float = 0.0
    location: str = ""
    host_said: str = ""  # its last complaint
    cannot_pack: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=200))

    def hear(self, line: str) -> None:
        header = _TRACE_LINE.fullmatch(line)
        if not header:
            # What the host itself says, and may say for ever, is kept out of the judgement.
            if found := _RECEIVED.search(line):
                unit = _UNITS[found[2]]
                self.received_bytes = math.ceil((float(found[1]) + 0.01) * unit)
            elif line.startswith(("remote: fatal: ", "remote: error: ")):
                self.host_said = line[15:300]
            elif not line.startswith(("remote: ", "Receiving objects: ", "Resolving deltas: ")):
                self.lines.append(line[:2000])
            self.cannot_pack |= "possible repository corruption on the remote side" in line
            return
        words = header[1]
        if words.startswith(("Send header: GET ", "Send header: POST ")):
            self.requests += 1
        elif found := re.match(r"Recv header: HTTP/[\d.]+ (\d{3})", words):
            self.http_status = int(found[1])
        elif found := re.match(r"Recv header: (?i:retry-after): *(\d{1,6})\b", words):
            self.retry_after_s = float(found[1])
        elif 300 <= self.http_status < 400 and (found := re.match(r"Recv header: (?i:location): *(\S+)", words)):
            self.location = found[1]


def _run_watched(
    arguments: Sequence[str],
    git_dir: Path,
    stdin: bytes,
    env: dict[str, str],
    policy: FetchPolicy,
    stop: threading.Event,
) -> _Ended:
    """Runs git, and ends all of it when it takes too long or brings too much."""
    ended = _Ended()
    with tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        with _session(["git", f"--git-dir={git_dir}", *arguments], env, ended, source, subprocess.DEVNULL) as process:
            ended.code = _wait(process, git_dir / "objects" / "pack", policy, ended, stop)
    return ended


@contextmanager
def _session(
    command: Sequence[str], env: dict[str, str], ended: _Ended, stdin: int | IO[bytes], stdout: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, heard by `ended`; nothing of it is left in the end."""
    try:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
    except FileNotFoundError:
        raise git_missing() from None
    listener = threading.Thread(target=_listen, args=(cast("IO[bytes]", process.stderr), ended), daemon=True)
    listener.start()
    try:
        yield process
    finally:
        _end(process)
        process.wait()
        listener.join(timeout=5)
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):
                pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _wait(
    process: subprocess.Popen[bytes], pack_folder: Path, policy: FetchPolicy, ended: _Ended, stop: threading.Event
) -> int:
    deadline = time.monotonic() + policy.timeout_s
    while True:
        try:
            return process.wait(timeout=0.25)
        except subprocess.TimeoutExpired:
            if stop.is_set():
                ended.stopped = Failure("failed", "interrupted")
            elif _pack_bytes(pack_folder) > policy.max_pack_bytes:
                ended.stopped = Failure("failed", f"the host sent more than {policy.max_pack_bytes} bytes")
            elif time.monotonic() > deadline:
                ended.stopped = Failure("timed_out", f"git took longer than {policy.timeout_s:.0f} s")
            else:
                continue
            return -1


def _listen(stderr: IO[bytes], ended: _Ended) -> None:
    with suppress(OSError, ValueError), stderr:
        while line := stderr.readline(1 << 16):
            ended.hear(line.decode("utf-8", "replace").rstrip("\r\n"))


def _acknowledged(to_git: IO[bytes], from_git: IO[bytes], revisions: Sequence[str]) -> frozenset[str] | None:
    """Talks to a remote helper that is joined to the host's upload-pack; ValueError where the talk goes wrong."""
    to_git.write(b"stateless-connect git-upload-pack\n")
    to_git.flush()
    if from_git.readline(100) != b"\n":
        return None
    abilities = list(_packets(from_git, limit=100))
    if not any(line.startswith(b"fetch=") and b"wait-for-done" in line for line in abilities):
        return None
    lines = [b"command=fetch", b"", b"wait-for-done", *(f"have {revision}\n".encode() for revision in revisions)]
    to_git.write(b"".join(b"%04x%s" % (len(line) + 4, line) if line else b"0001" for line in lines) + b"0000")
    to_git.flush()
    answers = [line.split() for line in _packets(from_git, limit=len(revisions) + 10)]
    if answers[:1] != [[b"acknowledgments"]]:
        return None
    return frozenset(words[1].decode("ascii") for words in answers if len(words) == 2 and words[0] == b"ACK")


def _packets(stream: IO[bytes], limit: int) -> Iterator[bytes]:
    """The packet lines up to a flush or the end of the response (gitprotocol-common)."""
    for _ in range(limit):
        size = int(stream.read(4), 16)
        if size in (0, 2):
            return
        if size >= 4:
            yield stream.read(size - 4)
    raise ValueError("too many packets")


# What git says with LC_ALL=C, in the order in which it is believed. "{}" in the reason is git's own last word.
_SAYINGS = (
    (r"No space left on device|[Dd]isk quota exceeded|File too large", Failure("disk_full", "the disk is full")),
    (
        # A blob that the filter left out of an earlier pack can be what a new pack builds on.
        r"unresolved deltas?|lazy fetching disabled",
        Failure("failed", "the pack builds on objects that are not here", fresh=True),
    ),
    (r"dubious ownership", Failure("access_denied", "the mirror belongs to another user, and git does not trust it")),
    (r"[Oo]peration too slow|Operation timed out", Failure("timed_out", "the host stalled", again=True)),
    (
        r"does not appear to be a git repository|Could not find repository"
        r"|remote error: .*([Rr]epository|[Pp]roject|[Rr]epo)\b.*\b(not found|does ?n[o']t exist)",
        Failure("repository_gone", "there is no repository"),
    ),
    (r"insufficient permission|Permission denied", Failure("access_denied", "{}")),
    (r"transport '.*' not allowed|[Pp]rotocol .*(not supported|disabled)", Failure("failed", "{}")),
    (r"dumb http transport", Failure("failed", "the host speaks the old dumb protocol only")),
    (r"[Cc]ertificate|SSL peer|CAfile", Failure("unreachable", "{}")),
    (
        r"Could not resolve|Failed to connect|Couldn't connect|Connection (refused|reset|timed out)|SSL_|TLS",
        Failure("unreachable", "{}", again=True),
    ),
    (
        r"early EOF|unexpected disconnect|hung up|RPC failed|transfer closed|Empty reply|invalid index-pack"
        r"|Recv failure|bad line length|expected flush|unexpected end",
        Failure("unreachable", "the answer broke off or is damaged: {}", again=True),
    ),
    (r"", Failure("failed", "{}", again=True, fresh=True)),
)
_HTTP_STATUS = {
    403: "access_denied",
    407: "access_denied",
    404: "repository_gone",
    410: "repository_gone",
    451: "repository_gone",
}


def _meaning(ended: _Ended, *, signed_in: bool) -> Failure:
    """Which failure this is."""
    if ended.stopped:
        return ended.stopped
    words = "\n".join(ended.lines)
    if absent := re.findall(r"not our ref ([0-9a-f]{40})", words):
        return Failure("revision_gone", GONE, revisions=tuple(absent))
    if hidden := re.findall(r"unadvertised object ([0-9a-f]{40})", words):
        reason = "the host gives out branch tips only, not commits by their id"
        return Failure("failed", reason, revisions=tuple(hidden))
    if ended.cannot_pack:
        said = f": {one_line(ended.host_said)}" if ended.host_said else ""
        return Failure("failed", f"the host cannot send it, its repository is damaged{said}", apart=True)
    if code := _http_code(words):
        return _http_meaning(code, ended.retry_after_s, signed_in)
    said = next((line for line in reversed(ended.lines) if line.startswith(("fatal:", "error:"))), words[-300:])
    said = one_line(said) or f"git ended with code {ended.code}"
    failure = next(failure for pattern, failure in _SAYINGS if re.search(pattern, words))
    return replace(failure, reason=failure.reason.replace("{}", said))


def _http_code(words: str) -> int:
    if re.search(r"could not read (Username|Password)|Authentication failed", words):
        return 401
    if re.search(r"^fatal: repository '.*' not found", words, re.MULTILINE):
        return 404
    found = re.search(r"The requested URL returned error: (\d{3})", words)
    return int(found[1]) if found else 0


def _http_meaning(code: int, retry_after_s: float, signed_in: bool) -> Failure:
    if code == 401 and signed_in:
        return Failure("access_denied", "the host refuses the credentials")
    if code == 401:
        # Hosts answer so for a repository that does not exist, too, in order not to give private ones away.
        return Failure("repository_gone", "gone or private: the host asks for a password")
    if code == 429 or (code == 403 and retry_after_s):
        return Failure("rate_limited", f"the host says {code}: too many requests", True, retry_after_s)
    if 300 <= code < 400:
        return Failure("failed", "the host redirects to another host, and credentials do not travel along")
    if code >= 500 or code == 408:
        return Failure("unreachable", f"the host says {code}", True, retry_after_s)
    return Failure(_HTTP_STATUS.get(code, "failed"), f"the host says {code}")
