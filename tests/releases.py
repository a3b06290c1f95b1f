"""Small releases for tests and benches: one task and one query for every revision, no labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def write_release(folder: Path, pins: Mapping[str, Sequence[str]], image: str = "preimage") -> Path:
    """A release that needs these revisions: repo (owner__name) -> commit ids. Returns the folder."""
    rows = [(repo, f"{repo}-{sha}", sha) for repo, shas in pins.items() for sha in shas]
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    _write(
        data / "tasks.jsonl",
        ({"repo": repo, "task_id": task, "language": "Python", "revision": sha} for repo, task, sha in rows),
    )
    _write(
        data / "queries.jsonl",
        (
            {"repo": repo, "task_id": task, "query_id": f"{task}::q1", "query": "where is it?", "revision": sha}
            for repo, task, sha in rows
        ),
    )
    _write(
        data / f"gold-{image}.jsonl",
        (
            {"repo": r, "task_id": t, "query_id": f"{t}::q1", "image_stage": image, "positive_units": [], "revision": s}
            for r, t, s in rows
        ),
    )
    return folder


def _write(file: Path, rows: Iterable[Mapping[str, object]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
