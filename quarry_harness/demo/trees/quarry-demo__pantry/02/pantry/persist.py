"""Snapshots of a store on disk."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pantry.store import LruStore

FORMAT = 1


class SnapshotError(Exception):
    """The file is not a snapshot this version can read."""


def dump(store: LruStore, path: Path) -> int:
    """Write all string-keyed entries; a crash leaves either the old file or the new one."""
    rows = [[key, value] for key, value in store.items() if isinstance(key, str)]
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"format": FORMAT, "rows": rows}, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(rows)


def load(store: LruStore, path: Path) -> int:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SnapshotError(f"{path}: not JSON: {error}") from error
    if document.get("format") != FORMAT:
        raise SnapshotError(f"{path}: format {document.get('format')!r}, expected {FORMAT}")
    for key, value in document["rows"]:
        store.put(key, value)
    return len(document["rows"])
