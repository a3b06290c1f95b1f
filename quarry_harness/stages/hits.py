"""The top of a run's rankings, with the source of what they hold."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from quarry_harness.errors import InvalidInputError
from quarry_harness.languages import PROFILES
from quarry_harness.store import Store, is_workspace

# A document's id, decoded: `path:name:start-end`, and which one of several that are alike.
_DOCUMENT = re.compile(r"(?P<place>.*):(?P<start>\d+)-(?P<end>\d+)(?:~(?P<nth>\d+))?", re.DOTALL)
_UNRESOLVED = re.compile(r"unresolved:\d+")  # what qrels have for a unit that nobody can retrieve
_LINE = 2**31  # lines are 32 bits wide in the store


class Hit(NamedTuple):
    """One result of a ranking."""

    rank: int  # 1-based
    document: str  # decoded
    score: str  # as the run file has it


class Place(NamedTuple):
    """Where a document lies in its revision."""

    path: str
    name: str
    start_line: int  # 0 where the id does not say
    end_line: int
    text: str | None = None  # its source, None where the workspace does not have it


Document = tuple[str, str, str]  # repository, revision, document


def top_hits(
    folder: Path, depth: int, only: Collection[str] | None = None, also: Mapping[str, Collection[int]] | None = None
) -> dict[str, list[Hit]]:
    """Returns query id -> its best results, from the run.trec of a run folder, best first.

    only: the queries that are wanted. also: query id -> ranks that are wanted beyond the depth. Raises
    InvalidInputError where the file cannot be read.
    """
    path = folder / "run.trec"
    hits: dict[str, list[Hit]] = defaultdict(list)
    further = also or {}
    number = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                number += 1
                query, _, document, rank, score, _ = line.split()
                place = int(rank)
                if place > depth and not further:
                    continue
                query = unquote(query)
                if (only is None or query in only) and (place <= depth or place in further.get(query, ())):
                    hits[query].append(Hit(place, unquote(document), score))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}:{number}: not a TREC run ({error}).", "Run quarry eval again.") from error
    return {query: sorted(ranked) for query, ranked in hits.items()}


def gold_chunks(folder: Path) -> dict[str, list[str]]:
    """Returns query id -> the documents that its resolved gold units are, from the qrels.trec of a run folder.

    Raises InvalidInputError where the file cannot be read.
    """
    path = folder / "qrels.trec"
    found: dict[str, list[str]] = defaultdict(list)
    try:
        for line in path.read_text("utf-8").splitlines():
            query, _, document, _ = line.split()
            if not _UNRESOLVED.fullmatch(document):
                found[unquote(query)].append(unquote(document))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: not TREC qrels ({error}).", "Run quarry eval again.") from error
    return found


def places(workspace: Path, wanted: Iterable[Document], profile: str) -> dict[Document, Place]:
    """Returns where each document lies, with its source as far as the workspace has it.

    A revision pins the source, so what is found is what was ranked, whatever the workspace has become since. Raises
    what Store.open raises where there is a workspace and its database cannot be opened.
    """
    documents = list(dict.fromkeys(wanted))
    found = {document: readings(document[2])[0] for document in documents}
    if not is_workspace(workspace):
        return found
    rows = [
        (number, _nth(document), repo, revision, *reading[:4])
        for number, (repo, revision, document) in enumerate(documents)
        for reading in readings(document)
        if 0 < max(reading.start_line, reading.end_line) < _LINE
    ]
    with Store.open(workspace, read_only=True) as store:
        for number, path, name, text in store.sources(rows, PROFILES.get(profile)):
            found[documents[number]] = found[documents[number]]._replace(path=path, name=name, text=text)
    return found


def readings(document: str) -> list[Place]:
    """Returns the places that a document's id may mean, the likeliest first: a path or a name may hold a colon."""
    parts = _DOCUMENT.fullmatch(document)
    if not parts or ":" not in parts["place"]:
        return [Place(document, "", 0, 0)]
    words = parts["place"].split(":")
    return [
        Place(":".join(words[:i]), ":".join(words[i:]), int(parts["start"]), int(parts["end"]))
        for i in range(1, len(words))
    ]


def _nth(document: str) -> int:
    parts = _DOCUMENT.fullmatch(document)
    return min(int(parts["nth"] or 1), _LINE) if parts else 1
