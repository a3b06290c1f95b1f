"""Looking at chunks without a workspace: files and folders in, one row a chunk out."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quarry_harness.languages import PROFILES, dialect_of_path, reads_headers_as_cpp
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.stages.workspace import shown_path
from quarry_harness.workers import Isolated, worker

_VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})


@contextmanager
def looking(profile: str) -> Iterator[Callable[[Path], Iterator[dict[str, Any]]]]:
    """Gives `chunks_of` for one path after the other, in one process that parses. Raises as `workers.worker` does."""
    with worker() as cut:
        yield lambda path: chunks_of(path, profile, cut)


def chunks_of(path: Path, profile: str, cut: Isolated) -> Iterator[dict[str, Any]]:
    """Yields the chunks below a path in path order, and {"path", "skipped"} for a source file that has none to give.

    A folder's paths are relative to it; a file keeps the name it was given. Links and version-control folders are not
    followed. A file that is named itself and is no source is told of too. Raises OSError where the path itself cannot
    be read, and as `cut` does.
    """
    kinds = PROFILES[profile]
    if not path.is_dir() and (reason := _no_source(path)):
        yield {"path": shown_path(path.as_posix()), "skipped": reason}
        return
    cpp_headers = _cpp_headers(path)
    unreadable: list[OSError] = []
    for name, file in _sources(path, unreadable.append):
        dialect = dialect_of_path(name, cpp_headers)
        if dialect is None:
            continue
        reason, rows = _chunk_file(file, dialect, cut)
        shown = shown_path(name)
        if reason != "parsed":
            yield {"path": shown, "skipped": reason}
        for row in rows:
            if kinds is None or row["kind"] in kinds:
                yield {"path": shown, **row}
    for error in unreadable:
        yield {"path": str(error.filename), "skipped": f"unreadable: {error.strerror}"}


def _cpp_headers(path: Path) -> bool:
    """A header's language: by the other files of the folder given, or of the folder that the file lies in."""
    if path.is_dir():
        return reads_headers_as_cpp(name for name, _ in _walk(path))
    return path.suffix == ".h" and reads_headers_as_cpp(sibling.name for sibling in path.parent.iterdir())


def _no_source(path: Path) -> str:
    """Why a file that the user named cannot have chunks; "" where it can."""
    if not stat.S_ISREG(path.stat().st_mode):
        return "not a regular file"
    return "" if dialect_of_path(path.as_posix(), True) else "not a source of the eleven languages, by its name"


def _sources(path: Path, refused: Callable[[OSError], None]) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        with path.open("rb"):
            yield path.as_posix(), path
        return
    yield from sorted(_walk(path, refused))


def _walk(folder: Path, refused: Callable[[OSError], None] | None = None) -> Iterator[tuple[str, Path]]:
    for directory, subdirectories, files in os.walk(folder, onerror=refused):
        subdirectories[:] = [name for name in subdirectories if name not in _VERSION_CONTROL]
        for name in files:
            file = Path(directory, name)
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(folder).as_posix(), file


def _chunk_file(file: Path, dialect: str, cut: Isolated) -> tuple[str, Sequence[dict[str, Any]]]:
    """Returns "parsed" or why not, and the rows of the file's chunks."""
    try:
        if file.stat().st_size > MAX_BLOB_BYTES:
            return "too_large", ()
        data = file.read_bytes()
    except OSError as error:
        return f"unreadable: {error.strerror}", ()
    parsed = cut(data, dialect, shown_path(str(file)))
    return parsed.status, [
        {
            "language": c.language,
            "name": c.name,
            "kind": c.kind,
            "container": c.container,
            "start_line": c.start_line,
            "end_line": c.end_line,
        }
        for c in parsed.chunks
    ]
