"""Makes one of our bare repositories smaller: pins that nobody needs go, and the objects that only they needed.

A kill at any moment leaves a repository in which every kept pin is whole. The order sees to it: the new pack is there
before the old pins go, and the old packs go last; a marker file tells the next run that there is more to remove.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection
from pathlib import Path

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.git import list_tree, one_line, run_git
from quarry_harness.layout import (
    absent_blobs,
    pins,
    shallow_roots,
    sync,
    write_absent,
    write_file,
    write_pins,
    write_shallow,
)

_MARKER = "quarry-pruning"


def bytes_below(folder: Path) -> int:
    """Bytes of all files below a folder; links count nothing."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def surplus_pins(repo_path: Path, keep: Collection[str]) -> set[str]:
    """The pins that are not among those to keep."""
    return set(pins(repo_path)) - set(keep)


def is_unfinished(repo_path: Path) -> bool:
    """Whether a killed `prune` has left something to do."""
    return (repo_path / _MARKER).exists()


def prunable_bytes(repo_path: Path, keep: Collection[str]) -> int:
    """About how many bytes `prune` would free: what the packs hold, less what the kept pins' objects take in them."""
    held = sum(file.stat().st_size for file in (repo_path / "objects" / "pack").glob("*.pack"))
    needed = _objects(repo_path, keep, "--disk-usage")
    return max(0, held - int(needed)) if needed.isdigit() else 0


def prune(repo_path: Path, keep: Collection[str]) -> None:
    """Leaves the pins to keep and their objects. The caller holds the repository's lock.

    Raises InvalidInputError where a kept pin is damaged, EnvironmentProblem where git cannot write.
    """
    kept = sorted(set(pins(repo_path)) & set(keep))
    if not kept:
        remove(repo_path)
        return
    write_file(repo_path / _MARKER, b"")
    folder = repo_path / "objects" / "pack"
    before = set(folder.iterdir())
    objects = _objects(repo_path, kept)
    done = run_git(["pack-objects", "-q", str(folder / "pack")], git_dir=repo_path, stdin=objects)
    if done.returncode != 0:
        words = one_line(done.stderr.decode("utf-8", "replace"))
        raise EnvironmentProblem(f"{repo_path}: git cannot repack it: {words}", "Is the disk full?")
    sync(folder)
    write_pins(repo_path, kept)
    write_shallow(repo_path, shallow_roots(repo_path) & set(kept))
    _forget_absent(repo_path, kept)
    new = f"pack-{done.stdout.decode('ascii').strip()}"
    # An index makes its pack visible, so it goes first.
    for file in sorted(before, key=lambda file: file.suffix != ".idx"):
        if file.stem != new:
            file.unlink()
    sync(folder)
    (repo_path / _MARKER).unlink()


def remove(repo_path: Path) -> None:
    """Removes a whole repository: its name is gone at once. The caller holds its lock."""
    part = repo_path.with_name(f"{repo_path.name}.part-{secrets.token_hex(4)}")
    repo_path.rename(part)
    shutil.rmtree(part)


def _objects(repo_path: Path, revisions: Collection[str], *options: str) -> bytes:
    """Ids of everything that the revisions' trees hold here, one a line; no parents."""
    command = ["rev-list", "--objects", "--no-object-names", "--no-walk", "--missing=allow-any", *options, "--stdin"]
    lines = "".join(f"{revision}\n" for revision in revisions).encode("ascii")
    done = run_git(command, git_dir=repo_path, stdin=lines)
    if done.returncode != 0:
        words = one_line(done.stderr.decode("utf-8", "replace"))
        raise InvalidInputError(
            f"{repo_path}: git cannot read it: {words}",
            "Delete this folder and run quarry fetch.",
        )
    return done.stdout.strip()


def _forget_absent(repo_path: Path, kept: Collection[str]) -> None:
    recorded = absent_blobs(repo_path)
    if recorded:
        still = {(entry.oid, entry.path) for revision in kept for entry in list_tree(repo_path, revision)}
        write_absent(repo_path, [blob for blob in recorded if (blob.oid, blob.path) in still])
