"""The checkout stage: one revision's files in a folder, for other tools; the bytes of the blobs and nothing else.

A tree is made by a stranger. Files are written into a fresh folder beside the one that was asked for, each directory
of a path opened on its own and never through a link, and the folder gets its name when it is whole. Links and
submodules are not made: they are in the account.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.git import MAX_TREE_ENTRIES, NOT_FILES, blob_sizes, list_tree, read_blobs, write_blob
from quarry_harness.layout import absent_blobs, pins
from quarry_harness.mirrors import repository_url
from quarry_harness.stages.workspace import repository_folder, shown_path
from quarry_harness.types import Progress, TreeEntry

# Larger blobs are copied in pieces instead of being held.
_HELD_BYTES = 16 * 1024 * 1024
MAX_FILES = MAX_TREE_ENTRIES
# What a tree may hold without anything being wrong.
HARMLESS = frozenset(NOT_FILES.values())
# Letters that some file systems take for nothing (Apple's TN1150): ".g<U+200C>it" is .git there.
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def checkout(workspace: Path, what: str, directory: Path, progress: Progress) -> dict[str, Any]:
    """Writes the files of `REPO@REVISION` into a folder that does not exist yet or is empty.

    REPO is owner/name or owner__name, REVISION a pinned revision of the workspace or its beginning. Returns repo,
    revision, directory, files, bytes and not_written [{path, reason, bytes}]: reason is symlink, submodule, absent (the
    blob was left out), unsafe_path, exists (another entry has the name, or one that differs in case only where the file
    system does not tell them apart) or unwritable with the system's words. The executable bit is kept, nothing else of
    a mode.

    Raises UsageError for a revision that is not here or a folder that is not empty, InvalidInputError for a tree that
    cannot be read or lists a million files, EnvironmentProblem where there is no room.
    """
    repo, revision, folder = _pinned(workspace, what)
    directory = _empty_place(directory)
    count, size = _measure(folder, revision)
    free = shutil.disk_usage(directory.parent).free
    if size > free:
        raise EnvironmentProblem(
            f"{directory}: the files take {size} bytes, and the disk has {free} left.", "Name a folder on another disk."
        )
    part = directory.with_name(f"{directory.name}.part-{secrets.token_hex(4)}")
    try:
        part.mkdir()
        root = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
        try:
            files, written, skipped = _write_all(folder, revision, root, count, progress)
        finally:
            os.close(root)
        part.rename(directory)
    except OSError as error:
        raise EnvironmentProblem(
            f"{directory}: the files cannot be written: {error.strerror or error}.", "Name another folder."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return {
        "repo": repo,
        "revision": revision,
        "directory": str(directory),
        "files": files,
        "bytes": written,
        "not_written": skipped,
    }


def _pinned(workspace: Path, what: str) -> tuple[str, str, Path]:
    name, _, start = what.rpartition("@")
    if not name or not re.fullmatch("[0-9a-fA-F]{4,40}", start):
        raise UsageError(
            f"{shown_path(what)!r} is not REPO@REVISION.",
            "As in owner/name@1a2b3c4d: at least four characters of the revision.",
        )
    repo = name.replace("/", "__", 1)
    repository_url(repo)
    folder = repository_folder(workspace, repo)
    if not folder.parent.is_dir():
        raise UsageError(f"{workspace}: there is no workspace here.", "Name one with --workspace.")
    found = [pin for pin in pins(folder) if pin.startswith(start.lower())]
    if len(found) != 1:
        fact = f"means {len(found)} pinned revisions: {', '.join(found[:5])}" if found else "is not pinned here"
        fix = (
            "Give more of it."
            if found
            else "quarry fetch brings the revisions of a release; quarry status counts them."
        )
        raise UsageError(f"{workspace}: {name}@{start} {fact}.", fix)
    return repo, found[0], folder


def _empty_place(directory: Path) -> Path:
    place = directory.expanduser().resolve()
    try:
        if place.is_dir() and any(place.iterdir()):
            raise UsageError(f"{directory}: the folder is not empty.", "Name an empty or a new one.")
        if place.exists() and not place.is_dir():
            raise UsageError(f"{directory}: this is a file.", "Name an empty or a new folder.")
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"{directory}: {error.strerror or error}.", "Name another folder.") from error
    return place


def _measure(folder: Path, revision: str) -> tuple[int, int]:
    """How many files there are to write, and their bytes; so that a tree made to fill the disk writes nothing."""
    count = size = 0
    for _, length in blob_sizes(
        folder, (entry.oid for entry in list_tree(folder, revision, MAX_FILES) if _is_file(entry))
    ):
        count += 1
        size += max(length, 0)
    return count, size


def _is_file(entry: TreeEntry) -> bool:
    return entry.mode not in NOT_FILES


def _write_all(
    folder: Path, revision: str, root: int, count: int, progress: Progress
) -> tuple[int, int, list[dict[str, Any]]]:
    files = written = 0
    known = {blob.oid: blob.size_bytes for blob in absent_blobs(folder)}
    skipped: list[dict[str, Any]] = []
    waiting: deque[TreeEntry] = deque()

    def leave_out(entry: TreeEntry, reason: str, size: int | None) -> None:
        skipped.append({"path": shown_path(entry.path), "reason": reason, "bytes": size})

    def oids() -> Iterator[str]:
        for entry in list_tree(folder, revision, MAX_FILES):
            if not _is_file(entry):
                leave_out(entry, NOT_FILES[entry.mode], None)
            elif is_unsafe(entry.path):
                leave_out(entry, "unsafe_path", None)
            else:
                waiting.append(entry)
                yield entry.oid

    for oid, size, data in read_blobs(folder, oids(), _HELD_BYTES):
        entry = waiting.popleft()
        progress(files, count, entry.path)
        if size < 0:
            leave_out(entry, "absent", known.get(oid))
            continue
        try:
            _write(folder, root, entry, data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            leave_out(entry, _why(error), size)
            continue
        files += 1
        written += size
    progress(count, count, "files written")
    return files, written, sorted(skipped, key=lambda row: row["path"])


def is_unsafe(path: str) -> bool:
    """Whether a tree's path could mean another place on some system: empty, "." and ".." parts, \\\\, any .git."""
    return any(_is_unsafe_name(name) for name in path.split("/"))


def _is_unsafe_name(name: str) -> bool:
    # Windows drops dots and spaces at the end, reads "\\" as "/", and ":" as the start of a stream.
    plain = _IGNORED.sub("", name).lower().partition(":")[0].rstrip(". ")
    return plain == "" or "\\" in name or "\0" in name or plain == ".git" or bool(re.fullmatch(r"git~\d+", plain))


def _why(error: OSError) -> str:
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.EISDIR):
        return "exists"
    return f"unwritable: {error.strerror}"


def _write(folder: Path, root: int, entry: TreeEntry, data: bytes | None) -> None:
    handle = _create(root, os.fsencode(entry.path).split(b"/"), 0o777 if entry.mode == "100755" else 0o666)
    with os.fdopen(handle, "wb") as stream:
        if data is None:
            write_blob(folder, entry.oid, stream)
        else:
            stream.write(data)


def _create(root: int, names: list[bytes], mode: int) -> int:
    """Opens a new file below an open folder; no component may be a link, and the file may not be there."""
    folder = os.dup(root)
    try:
        for name in names[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(names[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    finally:
        os.close(folder)
