"""Makes the demo's release files from queries.toml and trees/.

The labels are anchored by the text of their first and last line, written by hand: no parser of this project has a
say in where a unit begins and ends, so the demo can find that parser wrong.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarry_harness.demo import MANIFEST, TREES, revision_trees, tree_files, write_repository
from quarry_harness.errors import InvalidInputError

SOURCE = TREES.parent / "queries.toml"
NAME = "demo"
VERSION = "1"
_REASON = "written by hand"


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a unit is, in the words of queries.toml, which explains the fields."""

    path: str
    fqmn: str
    first: str
    last: str = "}"
    nth: int = 1
    relevance: str = "ESSENTIAL"

    @property
    def symbol(self) -> str:
        """The unit's simple name."""
        return self.fqmn.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Revision:
    """One source tree and its commit."""

    sha: str
    files: Mapping[str, bytes]


def release_files(source: Path = SOURCE, trees: Path = TREES) -> dict[str, bytes]:
    """File name -> content of the whole release, RELEASE_MANIFEST.json and four files below data/.

    Raises InvalidInputError, naming the query, for an anchor that fits no line.
    """
    tasks = tomllib.loads(source.read_text(encoding="utf-8"))["task"]
    history = {repo: _history(trees / repo) for repo in sorted({task["repo"] for task in tasks})}
    rows: dict[str, list[dict[str, Any]]] = {"tasks": [], "queries": [], "gold-preimage": [], "gold-postimage": []}
    numbers: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        _add_task(rows, task, history[task["repo"]], numbers)
    files = {f"data/{name}.jsonl": _jsonl(lines) for name, lines in rows.items()}
    manifest = {
        "name": NAME,
        "version": VERSION,
        "license": "Apache-2.0",
        "files": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "rows": content.count(b"\n")}
            for name, content in files.items()
        },
        "revisions": {repo: [revision.sha for revision in revisions] for repo, revisions in history.items()},
    }
    return {MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode(), **files}


def _history(source: Path) -> list[Revision]:
    trees = [tree_files(tree) for tree in revision_trees(source)]
    with tempfile.TemporaryDirectory() as folder:
        shas = write_repository(source, Path(folder))
    return [Revision(sha, files) for sha, files in zip(shas, trees, strict=True)]


def _add_task(
    rows: Mapping[str, list[dict[str, Any]]],
    task: Mapping[str, Any],
    history: list[Revision],
    numbers: Counter[tuple[str, str]],
) -> None:
    repo, number = task["repo"], task["revision"]
    before = history[number - 1]
    after = history[number] if number < len(history) else None
    # As in the real release, a task is named after the commit that makes the change, where there is one.
    commit = before.sha if after is None else after.sha
    numbers[repo, commit] += 1
    ids = {"repo": repo, "task_id": f"{commit}-{numbers[repo, commit]}"}
    query_ids = [f"{ids['task_id']}::q{index + 1}" for index in range(len(task["query"]))]
    rows["tasks"].append(
        {
            **ids,
            "language": task["language"],
            "revision": before.sha,
            "postimage_revision": None if after is None else after.sha,
            "query_ids": query_ids,
        }
    )
    for query_id, query in zip(query_ids, task["query"], strict=True):
        key = {**ids, "query_id": query_id}
        rows["queries"].append({**key, "query": query["text"], "revision": before.sha})
        try:
            pre = _units(query["gold"], before, "preimage")
            post = [] if after is None else _units(_moved(query["gold"]), after, "postimage")
        except InvalidInputError as error:
            raise InvalidInputError(f"{repo}, {query['text']!r}: {error.message}", error.hint) from error
        rows["gold-preimage"].append({**key, "image_stage": "preimage", "positive_units": pre})
        rows["gold-postimage"].append({**key, "image_stage": "postimage", "positive_units": post})


def _moved(gold: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**unit, **unit.get("after", {})} for unit in gold if unit.get("after") != "gone"]


def _units(gold: Iterable[Mapping[str, Any]], revision: Revision, stage: str) -> list[dict[str, Any]]:
    anchors = [Anchor(**{name: value for name, value in unit.items() if name != "after"}) for unit in gold]
    return [_unit(anchor, revision, stage) for anchor in anchors]


def _unit(anchor: Anchor, revision: Revision, stage: str) -> dict[str, Any]:
    start, end, first = locate(anchor, revision.files)
    return {
        "end_line": end,
        "fqmn": anchor.fqmn,
        "image_stage": stage,
        "path": anchor.path,
        "reason": _REASON,
        "relevance": anchor.relevance,
        "revision": revision.sha,
        "signature": f"{first} ... }}" if first.endswith("{") else first,
        "start_line": start,
        "symbol": anchor.symbol,
        "target_type": "function",
        "unit_key": f"{stage}:{revision.sha}:{anchor.path}:{anchor.symbol}:{start}-{end}",
    }


def locate(anchor: Anchor, files: Mapping[str, bytes]) -> tuple[int, int, str]:
    """(start line, end line, text of the first line), 1-based and inclusive. Raises InvalidInputError."""
    if anchor.path not in files:
        raise InvalidInputError(f"there is no {anchor.path}.", "Correct `path`, or give `after`.")
    # Only "\n" ends a line here, as for the parser; a "\r" before it is no part of the text.
    lines = [line.rstrip() for line in files[anchor.path].decode("utf-8").split("\n")]
    starts = [index for index, line in enumerate(lines) if line.strip() == anchor.first]
    if not 1 <= anchor.nth <= len(starts):
        raise InvalidInputError(
            f"{anchor.path} has {anchor.first!r} {len(starts)} times, asked for number {anchor.nth}.",
            "Copy the line into `first`, and count in `nth` from 1.",
        )
    start = starts[anchor.nth - 1]
    if not anchor.last:
        return start + 1, start + 1, anchor.first
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    ends = [index for index in range(start + 1, len(lines)) if lines[index] == indent + anchor.last]
    if not ends:
        raise InvalidInputError(f"{anchor.path}: {anchor.first!r} does not end.", "Copy its last line into `last`.")
    return start + 1, ends[0] + 1, anchor.first


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def outdated(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """The names of the files below `folder` that are missing, left over or differ from `files`."""
    present = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return sorted(name for name in present.keys() | files.keys() if present.get(name) != files.get(name))
