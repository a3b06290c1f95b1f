"""Brings pinned revisions of one repository into one bare folder, whole or not at all.

Everything is fetched into a fresh PART folder beside the destination. When every pin is checked, a new repository is
renamed into its place; an existing one takes over the PART's packs first and lists its new pins last, in one atomic
replacement of `packed-refs`. So a kill at any moment leaves either the old state or the new one, and at worst a pack
that nothing refers to.
"""

from __future__ import annotations

import errno
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from filelock import FileLock, Timeout

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.git import blob_sizes, check_revision, list_tree, one_line, pinned_revisions, run_git
from quarry_harness.layout import (
    CONFIG,
    AbsentBlob,
    absent_blobs,
    parts,
    pins,
    shallow_roots,
    sweep,
    sync,
    write_absent,
    write_pins,
    write_shallow,
)
from quarry_harness.mirrors import Credentials, repository_url
from quarry_harness.transport import GONE, MIRROR_CONFIG, Failure, FetchPolicy, Remote

__all__ = [
    "AbsentBlob",
    "Credentials",
    "FetchOutcome",
    "FetchPolicy",
    "FetchReport",
    "absent_blobs",
    "fetch_pins",
    "repository_url",
]

# More are not worth a round: each batch of 16 is one more request.
_MAX_HAVES = 16
_MAX_MISSING = 200_000
_MAX_SPLITS = 8
_MAX_WANTS = 10_000  # half a megabyte: git sends longer requests in pieces, which not every proxy takes


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """What became of one revision.

    `fetched` and `present` are good. `revision_gone`: the host answers and does not have it. `repository_gone`: no
    such repository, or a private one asked for without credentials, which hosts do not tell apart. `access_denied`,
    `unreachable`, `rate_limited`, `timed_out`, `disk_full` are what they say. `not_a_commit`: the id names something
    else. `failed`: anything else, with git's own words.
    """

    revision: str
    status: str
    reason: str = ""  # one line for people, "" where the status says it all


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What became of every revision of a repository, and what it cost."""

    repo: str
    url: str  # where it is now, after redirects
    note: str  # "renamed: .. is now ..", or ""
    outcomes: tuple[FetchOutcome, ...]  # in the order of the revisions asked for, each once
    left_out: tuple[AbsentBlob, ...]  # of all pins in the repository: wanted, and over `max_blob_bytes`
    bytes: int  # of packs received, as they lie on the disk
    requests: int  # HTTP requests, counted from git's own trace; 0 for a mirror in a folder
    seconds: float


def fetch_pins(
    repo: str,
    revisions: Sequence[str],
    destination: Path,
    template: str | None = None,
    wanted: Callable[[str], bool] = bool,  # a path is never empty: all of them
    *,
    policy: FetchPolicy | None = None,
    credentials: Credentials | None = None,
    stop: threading.Event | None = None,
) -> FetchReport:
    """Makes `destination`, a bare repository, hold the revisions with all their trees and wanted blobs.

    All missing revisions come in one fetch of depth 1: two HTTP requests for a new repository, three for one that
    has pins already, two more where a wanted blob is over `blob_limit_bytes`. `wanted` says which paths count. Setting
    `stop` from another thread ends it within a moment.
    What the host, the network or the disk does becomes an outcome of each revision. Raises InvalidInputError and
    UsageError for a malformed name, revision or template, and EnvironmentProblem where git is missing, the token is
    not there, the lock is held too long, or the destination is no repository.
    """
    started = time.monotonic()
    asked = list(dict.fromkeys(check_revision(revision) for revision in revisions))
    policy = policy or FetchPolicy()
    remote = Remote(repository_url(repo, template), policy, stop or threading.Event())
    work = _Work(remote, destination, policy, wanted)
    if work.take_present(asked):
        _sweep_idly(destination)
    else:
        # Only now: what needs no network needs no token, and asks no helper.
        remote.sign_in(credentials)
        _under_lock(work, asked)
    recorded = absent_blobs(destination)
    return FetchReport(
        repo=repo,
        url=remote.url,
        note=remote.note,
        outcomes=tuple(work.outcomes[revision] for revision in asked),
        left_out=tuple(blob for blob in recorded if blob.size_bytes is not None and wanted(blob.path)),
        bytes=remote.received_bytes,
        requests=remote.requests,
        seconds=time.monotonic() - started,
    )


@dataclass(slots=True)
class _Work:
    """One call of `fetch_pins`."""

    remote: Remote
    destination: Path
    policy: FetchPolicy
    wanted: Callable[[str], bool]
    outcomes: dict[str, FetchOutcome] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)  # failed, and what was here already may be the reason

    def settle(self, revisions: Iterable[str], status: str, reason: str = "") -> None:
        # The folder of this try has a name that nobody will find again, and that differs from try to try.
        reason = re.sub(r"\.part-[0-9a-f]{8}\b", "", reason)
        for revision in revisions:
            self.outcomes[revision] = FetchOutcome(revision, status, reason)

    def is_needed(self, blob: AbsentBlob) -> bool:
        """Whether a recorded absent blob has to be fetched after all: other paths are wanted now, or larger ones."""
        return (blob.size_bytes is None or blob.size_bytes <= self.policy.max_blob_bytes) and self.wanted(blob.path)

    def take_present(self, asked: Sequence[str]) -> bool:
        """Settles all revisions as present where nothing is missing; without network and without a lock."""
        if len(pinned_revisions(self.destination, asked)) < len(asked):
            return False
        if any(self.is_needed(blob) for blob in absent_blobs(self.destination)):
            return False
        self.settle(asked, "present")
        return True


def _under_lock(work: _Work, asked: Sequence[str]) -> None:
    try:
        work.destination.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{work.destination}.lock", timeout=work.policy.lock_s):
            _bring(work, asked)
    except Timeout:
        raise EnvironmentProblem(
            f"{work.destination}: another process has worked on it for {work.policy.lock_s:.0f} s.",
            "Wait for it to end, and run quarry fetch again.",
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise EnvironmentProblem(
                f"{error.filename or work.destination}: {error.strerror or error}.", "Make the workspace writable."
            ) from error
        work.settle([revision for revision in asked if revision not in work.outcomes], "disk_full", "the disk is full")


def _bring(work: _Work, asked: Sequence[str]) -> None:
    sweep(work.destination)
    # Another process may have done it all while this one waited.
    if work.take_present(asked):
        return
    if not work.destination.exists():
        _attempt(work, asked, base=None)
        return
    _attempt(work, asked, base=work.destination)
    # A pack may build on a blob that the filter left out here, or on an object that is damaged here. Then what is
    # here is no help, and the new pins are fetched on their own.
    again = [revision for revision in asked if revision in work.doubtful]
    if again:
        for revision in again:
            del work.outcomes[revision]
        _attempt(work, again, base=None)


def _sweep_idly(destination: Path) -> None:
    if parts(destination):
        with suppress(Timeout, OSError), FileLock(f"{destination}.lock", timeout=0):
            sweep(destination)


def _attempt(work: _Work, asked: Sequence[str], base: Path | None) -> None:
    """One fetch into a PART, beside a base whose objects count as here."""
    part = work.destination.with_name(f"{work.destination.name}.part-{secrets.token_hex(4)}")
    present = frozenset() if base is None else pinned_revisions(base, asked)
    recorded = absent_blobs(work.destination)
    doubted = present if any(work.is_needed(blob) for blob in recorded) else frozenset()
    try:
        _open_part(part, base)
        arrived = _fetch_commits(work, part, [revision for revision in asked if revision not in present])
        whole, absent = _complete(work, part, [*sorted(doubted), *arrived], recorded)
        if whole:
            _publish(part, work.destination, whole, absent)
        work.settle([revision for revision in whole if revision not in present], "fetched")
        work.settle([revision for revision in present if revision not in work.outcomes], "present")
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _open_part(part: Path, base: Path | None) -> None:
    """A fresh bare repository; with a base it sees that one's objects and can tell the host what is there already."""
    # What `git init` makes, without its templates; made here, a full disk says so.
    (part / "objects" / "info").mkdir(parents=True)
    (part / "objects" / "pack").mkdir()
    (part / "refs").mkdir()
    (part / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
    (part / "config").write_text(CONFIG, encoding="ascii")
    if base is None:
        return
    (part / "objects" / "info" / "alternates").write_text(f"{base.absolute() / 'objects'}\n", encoding="utf-8")
    with suppress(FileNotFoundError):
        shutil.copyfile(base / "shallow", part / "shallow")
    newest = run_git(
        ["for-each-ref", "--sort=-committerdate", f"--count={_MAX_HAVES}", "--format=%(objectname)", "refs/pins/"],
        git_dir=base,
    )
    write_pins(part, pinned_revisions(base, newest.stdout.decode("ascii").split()))


def _fetch_commits(work: _Work, part: Path, missing: Sequence[str]) -> list[str]:
    """The revisions that came; the others are settled. One bad one never costs the rest.

    However many the host does not have, it takes eight HTTP requests at most: two failures that name one each, one
    question about all of them, and the fetch of the rest. A host that does not know the question (git before 2.32)
    and a mirror in a folder name them one by one. A host whose own repository lacks blobs is asked for the trees
    alone, and for the wanted blobs later; where that does not help, the revisions are told apart by halves, in at
    most `_MAX_SPLITS` fetches that fail.
    """
    blobs = f"blob:limit={work.policy.blob_limit_bytes}"
    groups = [list(missing)] if missing else []
    came: list[str] = []
    absences = splits = 0
    while groups:
        left = groups.pop()
        failure = work.remote.fetch(part, [f"+{oid}:refs/pins/{oid}" for oid in left], blobs)
        if failure is None:
            came += left
            continue
        if failure.apart and blobs != "blob:none":
            blobs = "blob:none"
            groups.append(left)
            continue
        if failure.apart and len(left) > 1 and splits < _MAX_SPLITS:
            splits += 1
            groups += [left[len(left) // 2 :], left[: len(left) // 2]]
            continue
        bad = [revision for revision in left if revision in failure.revisions] or left
        work.settle(bad, failure.status, failure.reason)
        if failure.fresh:
            work.doubtful.update(bad)
        absences += failure.status == "revision_gone"
        if absences == 2:
            _settle_absent(work, part, missing)
        groups = [rest for group in [*groups, left] if (rest := [oid for oid in group if oid not in work.outcomes])]
    return came


def _settle_absent(work: _Work, part: Path, missing: Sequence[str]) -> None:
    asked = [revision for revision in missing if revision not in work.outcomes]
    there = work.remote.which_are_there(part, asked) if asked else None
    if there is not None:
        work.settle([revision for revision in asked if revision not in there], "revision_gone", GONE)


def _complete(
    work: _Work, part: Path, revisions: Sequence[str], recorded: Iterable[AbsentBlob]
) -> tuple[list[str], set[AbsentBlob]]:
    """The revisions that are whole in the end, and their absent blobs; large wanted blobs are fetched on the way."""
    # From here on a missing object is a clean "missing", and never a reason to ask the host.
    (part / "config").write_text(CONFIG, encoding="ascii")
    for promise in (part / "objects" / "pack").glob("*.promisor"):
        promise.unlink()
    missing: dict[str, set[tuple[str, str]]] = {}
    looked_up: dict[str, int] = {}
    for revision in _only_commits(work, part, revisions):
        try:
            missing[revision] = _missing_blobs(part, revision, looked_up, work.policy)
        except InvalidInputError as error:
            work.settle([revision], "failed", error.message)
            work.doubtful.add(revision)
    sizes = {blob.oid: blob.size_bytes for blob in recorded if blob.size_bytes is not None}
    wanted = {oid for oid, path in chain.from_iterable(missing.values()) if work.wanted(path)}
    lacking = {oid for oid in wanted if sizes.get(oid, 0) <= work.policy.max_blob_bytes}
    failure = _top_up(work, part, lacking, sizes) if lacking else None
    why = failure or Failure("failed", "the host does not send it")
    absent: set[AbsentBlob] = set()
    for revision, pairs in list(missing.items()):
        if lost := sorted(oid for oid, path in pairs if oid in lacking and work.wanted(path)):
            work.settle([revision], why.status, f"without blob {lost[0]}: {why.reason}")
            del missing[revision]
        else:
            here = wanted - lacking - sizes.keys()
            absent |= {AbsentBlob(oid, path, sizes.get(oid)) for oid, path in pairs if oid not in here}
    return list(missing), absent


def _only_commits(work: _Work, part: Path, revisions: Sequence[str]) -> list[str]:
    lines = "".join(f"{revision}\n" for revision in revisions).encode()
    answers = run_git(["cat-file", "--batch-check=%(objecttype)"], git_dir=part, stdin=lines).stdout.split(b"\n")
    commits = []
    for revision, kind in zip(revisions, answers, strict=False):
        if kind == b"commit":
            commits.append(revision)
        else:
            work.settle([revision], "not_a_commit", f"it names a {kind.decode('ascii', 'replace')[:60]}")
    return commits


def _missing_blobs(part: Path, revision: str, sizes: dict[str, int], policy: FetchPolicy) -> set[tuple[str, str]]:
    """(blob, path) of the revision's blobs that are not here; `sizes` remembers the ones looked up. Reads the tree."""
    blobs = {
        (entry.oid, entry.path) for entry in list_tree(part, revision, policy.max_entries) if entry.mode != "160000"
    }
    sizes.update(blob_sizes(part, {oid for oid, _ in blobs if oid not in sizes}))
    missing = {(oid, path) for oid, path in blobs if sizes[oid] < 0}
    if len(missing) > _MAX_MISSING:
        raise InvalidInputError(f"{revision}: more than {_MAX_MISSING} of its blobs were not sent.")
    return missing


def _top_up(work: _Work, part: Path, lacking: set[str], sizes: dict[str, int]) -> Failure | None:
    """Fetches blobs by their ids, ten thousand at a time, and takes the ones that came out of `lacking`.

    The ones over `max_blob_bytes` go again; they are no longer lacking, and `sizes` has their size.
    """
    folder = part / "objects" / "pack"
    before = set(folder.iterdir())
    asked = sorted(lacking)
    for start in range(0, len(asked), _MAX_WANTS):
        if failure := _fetch_blobs(work, part, asked[start : start + _MAX_WANTS]):
            return failure
    came = {oid: size for oid, size in blob_sizes(part, asked) if size >= 0}
    too_large = {oid: size for oid, size in came.items() if size > work.policy.max_blob_bytes}
    if too_large:
        fetched = set(folder.iterdir()) - before
        keep = "".join(f"{oid}\n" for oid in came if oid not in too_large).encode()
        result = run_git(["pack-objects", "-q", "--non-empty", str(folder / "pack")], git_dir=part, stdin=keep)
        if result.returncode != 0:
            return Failure("failed", f"git cannot repack: {one_line(result.stderr.decode('utf-8', 'replace'))}")
        for file in fetched:
            file.unlink()
    for oid in came:
        sizes.pop(oid, None)
    sizes.update(too_large)
    lacking.difference_update(came)
    return None


def _fetch_blobs(work: _Work, part: Path, oids: Sequence[str]) -> Failure | None:
    """Fetches what the host has of the blobs; what it lacks is no failure here."""
    left = list(oids)
    absences = 0
    while left and (failure := work.remote.fetch(part, left)):
        if failure.status != "revision_gone":
            return failure
        absences += 1
        there = work.remote.which_are_there(part, left) if absences == 2 else None
        left = [oid for oid in left if oid not in failure.revisions and (there is None or oid in there)]
    return None


def _publish(part: Path, destination: Path, whole: Sequence[str], absent: set[AbsentBlob]) -> None:
    """Puts the PART in its place, or its content into the repository that is there."""
    alone = not (part / "objects" / "info" / "alternates").exists()
    if alone and not destination.exists():
        shutil.rmtree(part / "refs" / "pins", ignore_errors=True)
        (part / MIRROR_CONFIG).unlink(missing_ok=True)
        write_absent(part, absent)
        write_pins(part, whole)
        part.rename(destination)
        sync(destination.parent)
        return
    # The order counts: objects, then what explains them, then the pins that promise them. An index makes its pack
    # visible, so it comes after the pack.
    packs = destination / "objects" / "pack"
    for file in sorted((part / "objects" / "pack").iterdir(), key=lambda file: file.suffix == ".idx"):
        file.replace(packs / file.name)
    sync(packs)
    write_shallow(destination, shallow_roots(destination) | shallow_roots(part))
    recorded = absent_blobs(destination)
    here = {oid for oid, size in blob_sizes(destination, {blob.oid for blob in recorded}) if size >= 0}
    write_absent(destination, [*absent, *(blob for blob in recorded if blob.oid not in here)])
    write_pins(destination, {*pins(destination), *whole})
