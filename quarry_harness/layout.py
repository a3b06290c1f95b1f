"""What lies in one of our bare repositories beside git's own objects, and how it is written so that a kill is harmless.

A pin is a ref below refs/pins/ that bears its own commit's name; all pins stand in one `packed-refs`, which is replaced
in one step. `quarry-absent.jsonl` names the blobs of pinned trees that were left out.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from quarry_harness.errors import InvalidInputError
from quarry_harness.git import run_git

ABSENT_FILE = "quarry-absent.jsonl"
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"


@dataclass(frozen=True, slots=True)
class AbsentBlob:
    """A blob of a fetched revision that is not in the repository: over the limit, or large and not wanted."""

    oid: str
    path: str
    size_bytes: int | None  # None where it was never looked at


def absent_blobs(repo_path: Path) -> list[AbsentBlob]:
    """The blobs of the repository's pins that were left out, as `fetch_pins` recorded them."""
    try:
        lines = (repo_path / ABSENT_FILE).read_text(encoding="ascii").splitlines()
        return [AbsentBlob(**json.loads(line)) for line in lines]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"{repo_path / ABSENT_FILE}: it is damaged.", "Delete the repository's folder and run quarry fetch."
        ) from None


def parts(repo_path: Path) -> list[Path]:
    """The PART folders beside a repository: of a fetch at work, or left by a killed one."""
    return list(repo_path.parent.glob(f"{glob.escape(repo_path.name)}.part-*"))


def sweep(repo_path: Path) -> None:
    """Removes what killed processes left beside a repository. The caller holds its lock."""
    for part in parts(repo_path):
        shutil.rmtree(part, ignore_errors=True)


def pins(repo_path: Path) -> list[str]:
    """Every revision that the repository has a pin for, sorted; empty where there is no repository."""
    if not repo_path.exists():
        return []
    refs = run_git(["for-each-ref", "--format=%(objectname)", "refs/pins/"], git_dir=repo_path)
    return sorted(refs.stdout.decode("ascii").split())


def shallow_roots(repo_path: Path) -> set[str]:
    """The commits whose parents are not here on purpose."""
    file = repo_path / "shallow"
    return set(file.read_text(encoding="ascii").split()) if file.exists() else set()


def write_shallow(repo_path: Path, roots: Iterable[str]) -> None:
    """Replaces the list of commits whose parents are not here on purpose."""
    write_file(repo_path / "shallow", "".join(f"{root}\n" for root in sorted(roots)).encode("ascii"))


def write_pins(repo_path: Path, revisions: Iterable[str]) -> None:
    """Makes these revisions the repository's pins, in one step."""
    lines = "".join(f"{revision} refs/pins/{revision}\n" for revision in sorted(revisions))
    write_file(repo_path / "packed-refs", f"# pack-refs with: peeled fully-peeled sorted \n{lines}".encode("ascii"))


def write_absent(repo_path: Path, blobs: Collection[AbsentBlob]) -> None:
    """Makes these the repository's absent blobs, in one step."""
    sizes = {blob.oid: blob.size_bytes for blob in blobs if blob.size_bytes is not None}
    lines = (
        json.dumps({"oid": oid, "path": path, "size_bytes": sizes.get(oid)}) + "\n"
        for path, oid in sorted({(blob.path, blob.oid) for blob in blobs})
    )
    write_file(repo_path / ABSENT_FILE, "".join(lines).encode("ascii"))


def write_file(file: Path, content: bytes) -> None:
    """Replaces a file in one step that outlasts a power cut."""
    fresh = file.with_name(f"{file.name}.new")
    with fresh.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(file)
    sync(file.parent)


def sync(folder: Path) -> None:
    """Makes the names in a folder outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
