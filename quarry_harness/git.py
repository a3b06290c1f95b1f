"""Plain git, shut off from its surroundings: the process environment, and reading of bare repositories.

Repositories come from strangers and the machine's own git settings are nobody's business here, so every git process
starts from an empty environment. Reading is `ls-tree -r -z` and one pipelined `cat-file --batch`: never a checkout
and never `git archive`, which both rewrite files on the way.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, cast

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, QuarryError
from quarry_harness.types import TreeEntry

# GIT_CONFIG_GLOBAL, which shuts out the user's own settings, came with 2.32.
OLDEST_GIT = (2, 32)

REVISION = re.compile(r"[0-9a-f]{40}")
# What a tree lists besides files: mode -> word.
NOT_FILES = {"120000": "symlink", "160000": "submodule"}
MAX_TREE_ENTRIES = 1_000_000
_MAX_ENTRY_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
# How long a git is waited for that has closed its output.
_LAST_BREATH_S = 2.0
_BATCH = 512  # object ids on their way to cat-file at a time; two batches are in flight
# A git that has read a few hundred megabytes holds 300 MB otherwise, which makes it a tenth faster.
_LITTLE_MEMORY = (
    ("core.deltaBaseCacheLimit", "24m"),
    ("core.packedGitLimit", "32m"),
    ("core.packedGitWindowSize", "1m"),
)

_KEPT_VARIABLES = (
    "PATH",
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    "TMPDIR",
)
_FIXED_VARIABLES = {
    # A path below a file cannot exist, whatever anybody creates: no .gitconfig, no .netrc.
    "HOME": "/dev/null/home",
    "XDG_CONFIG_HOME": "/dev/null/config",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
}
_FIXED_CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("credential.helper", ""),  # the empty value clears the list of helpers
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


def git_environment(
    *, protocols: str = "none", config: Sequence[tuple[str, str]] = (), global_config: str = "/dev/null"
) -> dict[str, str]:
    """The whole environment of a git process.

    `protocols` is what GIT_ALLOW_PROTOCOL gets ("none" is no protocol). `config` is passed in the environment, not in
    the arguments, which every user of the machine can read.
    """
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    environment.update(_FIXED_VARIABLES, GIT_CONFIG_GLOBAL=global_config, GIT_ALLOW_PROTOCOL=protocols)
    pairs = (*_FIXED_CONFIG, *config)
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for index, (key, value) in enumerate(pairs):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return environment


def limit_reached(fact: str) -> EnvironmentProblem:
    """The error where the account's limits leave no room for a process or a thread; `fact` says for which."""
    return EnvironmentProblem(fact, "Run it with fewer --jobs, or raise the limits of this account (ulimit -a).")


def git_missing() -> EnvironmentProblem:
    """The error for a machine without git."""
    wanted = ".".join(map(str, OLDEST_GIT))
    return EnvironmentProblem("git is not on the PATH.", f"Install git {wanted} or newer.")


def run_git(
    arguments: Sequence[str],
    *,
    git_dir: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a short local git command to its end; the caller looks at the return code. Raises EnvironmentProblem."""
    command = ["git", *([] if git_dir is None else [f"--git-dir={git_dir}"]), *arguments]
    env = git_environment() if env is None else env
    try:
        return subprocess.run(command, input=stdin, capture_output=True, env=env, check=False, timeout=timeout_s)
    except FileNotFoundError:
        raise git_missing() from None
    except subprocess.TimeoutExpired:
        raise EnvironmentProblem(f"git {arguments[0]} did not end within {timeout_s} s.") from None


def damaged_packs(git_dir: Path) -> list[str]:
    """The names of a repository's packs whose bytes are not what their checksums say; reads all of them."""
    packs = sorted((git_dir / "objects" / "pack").glob("*.idx"))
    return [pack.stem for pack in packs if run_git(["verify-pack", str(pack.absolute())], git_dir=git_dir).returncode]


def require_git() -> str:
    """The version of git, such as "2.39.5". Raises EnvironmentProblem where git is absent or too old."""
    words = run_git(["version"]).stdout.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)[.\d]*", words)
    if not found:
        raise EnvironmentProblem(f"`git version` says {words[:100]!r}.", "Put a working git on the PATH.")
    if (int(found[1]), int(found[2])) < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        raise EnvironmentProblem(f"git {found[0]} is too old.", f"Install git {wanted} or newer.")
    return found[0].rstrip(".")


def check_revision(revision: str) -> str:
    """The revision itself, when it is a full commit id; raises InvalidInputError for anything else."""
    if not REVISION.fullmatch(revision):
        raise InvalidInputError(
            f"{revision[:80]!r} is not a revision.", "A revision is a full commit id: 40 characters of 0-9a-f."
        )
    return revision


def pinned_revisions(repo_path: Path, revisions: Iterable[str]) -> frozenset[str]:
    """Which of the revisions are whole in the repository: fetched, checked, and marked by a ref. One git process.

    A repository that does not exist has none. Raises InvalidInputError for a malformed revision and
    EnvironmentProblem for a folder that is no repository.
    """
    asked = [check_revision(revision) for revision in revisions]
    if not asked or not repo_path.exists():
        return frozenset()
    lines = "".join(f"refs/pins/{revision}^{{tree}}\n" for revision in asked)
    result = run_git(["cat-file", "--batch-check"], git_dir=repo_path, stdin=lines.encode())
    answers = result.stdout.decode("ascii", "replace").splitlines()
    if result.returncode != 0 or len(answers) != len(asked):
        raise _unreadable(repo_path, result.stderr)
    return frozenset(revision for revision, answer in zip(asked, answers, strict=True) if answer[40:46] == " tree ")


def has_revision(repo_path: Path, sha: str) -> bool:
    """Whether the revision is whole in the repository. For many revisions ask `pinned_revisions` once."""
    return sha in pinned_revisions(repo_path, [sha])


def list_tree(repo_path: Path, revision: str, max_entries: int = MAX_TREE_ENTRIES) -> Iterator[TreeEntry]:
    """Every file, link and submodule of a revision, in git's order, as it is read.

    Links (120000) and submodules (160000) come with their mode; what to do with them is the caller's decision.
    Raises InvalidInputError past `max_entries` (ten small trees can list ten million files), for a tree that is
    broken or missing, and for a malformed revision.
    """
    check_revision(revision)
    count = 0
    with _reader(repo_path, ["ls-tree", "-r", "-z", "--full-tree", revision]) as (process, stdout, stderr):
        for record in _nul_records(stdout, f"{repo_path}@{revision}"):
            count += 1
            if count > max_entries:
                raise InvalidInputError(
                    f"{repo_path}@{revision}: the tree has more than {max_entries} entries.",
                    "Raise the limit, or leave this revision out.",
                )
            head, _, path = record.partition(b"\t")
            mode, _, oid = head.decode("ascii").split(" ")
            yield TreeEntry(mode, oid, path.decode("utf-8", "surrogateescape"))
        if process.wait() != 0:
            raise _failed(process, repo_path, _start_of(stderr), revision)


def _nul_records(stream: IO[bytes], place: str) -> Iterator[bytes]:
    rest = b""
    while piece := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]  # Popen's pipes are BufferedReaders
        *records, rest = (rest + piece).split(b"\0")
        if max(map(len, (rest, *records))) > _MAX_ENTRY_BYTES:
            raise InvalidInputError(f"{place}: a path is longer than {_MAX_ENTRY_BYTES} bytes.")
        yield from records


def read_blobs(repo_path: Path, oids: Iterable[str], max_bytes: int) -> Iterator[tuple[str, int, bytes | None]]:
    """Yields what `BlobReader.read` does; raises that, and EnvironmentProblem where git cannot be started."""
    with closing(BlobReader(repo_path)) as reader:
        yield from reader.read(oids, max_bytes)


class BlobReader:
    """Reads blobs of a repository, through one git that stays until it is closed."""

    def __init__(self, repo_path: Path) -> None:
        """Raises EnvironmentProblem where git cannot be started."""
        self._git = _CatFile(repo_path, "--batch")

    def read(self, oids: Iterable[str], max_bytes: int) -> Iterator[tuple[str, int, bytes | None]]:
        """Yields (object id, size in bytes, content) for every id, in the order and number they were given.

        The content is None for a blob over `max_bytes`, which is never held in memory, and for one that is not there,
        whose size is -1; an id that names something other than a blob counts as not there. `oids` is read as the
        answers are taken, about a thousand ids ahead, in the caller's thread; where not all are taken, nothing more can
        be read. Raises InvalidInputError for a malformed id and a repository that cannot be read, EnvironmentProblem
        where git is ended from outside.
        """
        stream = self._git.stdout
        for oid, size in self._git.headers(oids):
            if size < 0:
                yield oid, -1, None
                continue
            data = stream.read(size + 1) if 0 <= size <= max_bytes else b""
            left = size + 1 - len(data)
            while left and (piece := stream.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
            if left:
                raise self._git.failed(oid)
            yield oid, size, data[:-1] if size <= max_bytes else None

    def has_ended(self) -> bool:
        """Whether its git was ended, by whomever."""
        return self._git.has_ended()

    def close(self) -> None:
        """Ends git."""
        self._git.close()


def write_blob(repo_path: Path, oid: str, into: IO[bytes]) -> None:
    """Copies a blob in pieces, so that one of any size can be written. Raises like `read_blobs`."""
    with _reader(repo_path, ["cat-file", "blob", _check_oid(oid)]) as (process, stdout, stderr):
        while piece := stdout.read(_PIECE_BYTES):
            into.write(piece)
        if process.wait() != 0:
            raise _failed(process, repo_path, _start_of(stderr), oid)


def blob_sizes(repo_path: Path, oids: Iterable[str]) -> Iterator[tuple[str, int]]:
    """(object id, size in bytes) for every id, -1 where the blob is not there; raises like `read_blobs`."""
    with closing(_CatFile(repo_path, "--batch-check")) as git:
        yield from git.headers(oids)


class _CatFile:
    """A running cat-file, which is asked for many objects at a time."""

    def __init__(self, repo_path: Path, mode: str) -> None:
        self.repo_path, self.mode = repo_path, mode
        self._running = ExitStack()
        reader = _reader(repo_path, ["cat-file", mode], stdin=subprocess.PIPE, config=_LITTLE_MEMORY)
        self._process, self.stdout, self._stderr = self._running.enter_context(reader)
        self._to_git: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting: deque[str] = deque()
        writer = threading.Thread(target=_feed, args=(self._process.stdin, self._to_git), daemon=True)
        try:
            writer.start()
        except RuntimeError as error:
            self._running.close()
            raise limit_reached(f"git cannot be started ({error}).") from error

    def headers(self, oids: Iterable[str]) -> Iterator[tuple[str, int]]:
        """In the order of the ids; with --batch the consumer reads `size + 1` bytes of git's output after each."""
        source, waiting = iter(oids), self._waiting
        if waiting:
            raise RuntimeError(f"{self.repo_path}: answers of git to an earlier question were not taken")
        while True:
            if len(waiting) <= _BATCH and (batch := [_check_oid(oid) for oid in islice(source, _BATCH)]):
                waiting.extend(batch)
                self._to_git.put("".join(f"{oid}\n" for oid in batch).encode())
            if not waiting:
                break
            oid = waiting.popleft()
            header = self.stdout.readline(200).split()
            if len(header) < 2 or header[0] != oid.encode():
                raise self.failed(oid)
            size = int(header[2]) if len(header) == 3 else -1
            if size >= 0 and header[1] != b"blob":
                if self.mode == "--batch":
                    _skip(self.stdout, size + 1)
                size = -1
            yield oid, size

    def failed(self, oid: str) -> QuarryError:
        """Why it gave less than it should."""
        return _failed(self._process, self.repo_path, _start_of(self._stderr), oid)

    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends it."""
        self._to_git.put(None)
        self._running.close()


def _feed(stdin: IO[bytes] | None, batches: queue.SimpleQueue[bytes | None]) -> None:
    # A thread of its own: git stops reading ids while its answers are not taken, and the reader must not wait for it.
    if stdin is None:
        return
    with suppress(OSError, ValueError):
        while (batch := batches.get()) is not None:
            stdin.write(batch)
            stdin.flush()
    with suppress(OSError, ValueError):
        stdin.close()


def _skip(stream: IO[bytes], count: int) -> None:
    while count and (piece := stream.read(min(count, _PIECE_BYTES))):
        count -= len(piece)


def _check_oid(oid: str) -> str:
    if not REVISION.fullmatch(oid):
        raise InvalidInputError(f"{oid[:80]!r} is not an object id.", "An object id is 40 characters of 0-9a-f.")
    return oid


@contextmanager
def _reader(
    repo_path: Path,
    arguments: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    config: Sequence[tuple[str, str]] = (),
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """(process, its output, its errors): a running git, ended when the reader stops early."""
    # Standard error goes to a file, since nobody drains a pipe while the output is being read.
    with tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                ["git", f"--git-dir={repo_path}", *arguments],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=git_environment(config=config),
                bufsize=_PIECE_BYTES,
            )
        except FileNotFoundError:
            raise git_missing() from None
        except OSError as error:
            raise limit_reached(f"git cannot be started ({error.strerror or error}).") from error
        stdout = cast("IO[bytes]", process.stdout)
        try:
            yield process, stdout, stderr
        finally:
            process.kill()
            process.wait()
            stdout.close()


def _start_of(stderr: IO[bytes]) -> bytes:
    stderr.seek(0)
    return stderr.read(4096)


def _failed(process: subprocess.Popen[bytes], repo_path: Path, stderr: bytes, thing: str) -> QuarryError:
    """Why a git that reads a repository gave less than it should."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_BREATH_S)
    if process.returncode is not None and process.returncode < 0:
        return EnvironmentProblem(f"{repo_path}: git was ended from outside (out of memory?).", "Run it again.")
    return _unreadable(repo_path, stderr, thing)


def _unreadable(repo_path: Path, stderr: bytes, thing: str = "") -> InvalidInputError:
    words = one_line(stderr.decode("utf-8", "replace"))
    place = f"{repo_path}@{thing}" if thing else str(repo_path)
    return InvalidInputError(
        f"{place}: git cannot read it{': ' + words if words else '.'}",
        "If the revision was fetched, the repository is damaged: delete this folder and run quarry fetch.",
    )


def one_line(words: str, limit: int = 300) -> str:
    """Text of a stranger made fit to print: one line, no control characters, at most `limit` characters."""
    return re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]+|\s+", " ", words).strip()[:limit]
