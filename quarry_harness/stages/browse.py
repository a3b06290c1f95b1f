"""What a page needs to look at single queries: gold units with their ranks, the best results, their source."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarry_harness.stages.compare import KeptRun, common, units_of
from quarry_harness.stages.hits import Document, Hit, Place, gold_chunks, places, top_hits
from quarry_harness.stages.survey import NO_GOLD, OUTCOMES, outcomes


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the queries goes into a page: a browser must open it."""

    hits: int = 5  # results a query and run
    lines: int = 60  # of one source
    letters: int = 240  # of one line
    query_bytes: int = 24_000_000
    source_bytes: int = 12_000_000


def browse(workspace: Path, runs: Sequence[KeptRun], limits: Limits | None = None) -> dict[str, Any]:
    """Returns the common queries of the runs, by repository and query id, as a document made to be small.

    queries: one object a query. gold: [place, 1 for ESSENTIAL, 1 for resolved, [rank in each run, 0 = none]]; hits: of
    each run the places of its best results; outcomes: of each run a number of `outcomes`. places: [path, name, start
    line, end line, number of its source or -1]. sources: [text, lines that were cut off]. left_out: what did not fit
    (queries, sources) and what the workspace does not have (sources_missing). The place of a gold unit is that of the
    chunk it was resolved to in the first run. Raises what `places` raises.
    """
    limits = limits or Limits()
    tables = common(runs)
    worst = [outcomes(table, units_of(table))[1] for table in tables]
    rows = [table.to_pylist() for table in tables]
    ids = {row["query_id"] for row in rows[0]}
    gold = {row["query_id"]: row["gold_ranks"] for row in rows[0]}
    hits = [top_hits(run.folder, limits.hits, ids, {} if i else gold) for i, run in enumerate(runs)]
    chunks = gold_chunks(runs[0].folder)
    shelf = _Shelf(limits)
    queries: list[dict[str, Any]] = []
    spent = 0
    for several in zip(*rows, strict=True):
        place = len(queries)
        own = chunks.get(several[0]["query_id"], [])
        entry = _entry(several, [column[place] for column in worst], hits, runs, own, shelf, limits.hits)
        spent += len(json.dumps(entry))
        if spent + shelf.bytes > limits.query_bytes:
            break
        queries.append(entry)
    shelf.fill(workspace)
    return {
        "outcomes": [*OUTCOMES, NO_GOLD],
        "hits": limits.hits,
        "lines": limits.lines,
        "queries": queries,
        "places": shelf.rows,
        "sources": shelf.sources,
        "left_out": {
            "queries": len(rows[0]) - len(queries),
            "sources": shelf.left_out,
            "sources_missing": shelf.missing,
        },
    }


def gold_document(unit_key: str) -> str:
    """Returns the part of a gold unit's key that a document's id has too: `path:symbol:start-end`."""
    return unit_key.split(":", 2)[-1]


def _entry(
    rows: Sequence[dict[str, Any]],
    worst: Sequence[str],
    hits: Sequence[dict[str, list[Hit]]],
    runs: Sequence[KeptRun],
    chunks: Collection[str],
    shelf: _Shelf,
    top: int,
) -> dict[str, Any]:
    row = rows[0]
    at = row["repo"], row["revision"]
    ranks = [dict(zip(other["gold_unit_keys"], other["gold_ranks"], strict=True)) for other in rows]
    profiles = [str(run.result.get("profile")) for run in runs]
    found = [ranked.get(row["query_id"], []) for ranked in hits]
    resolved = _resolved(row, found[0], chunks)
    gold = zip(row["gold_unit_keys"], row["gold_relevances"], row["gold_kinds"], strict=True)
    return {
        "id": row["query_id"],
        "repo": row["repo"],
        "language": row["language"],
        "revision": row["revision"],
        "text": row["query"],
        "chunks": [other["corpus_chunks"] for other in rows],
        "gold": [
            [
                shelf.number((*at, resolved.get(key, gold_document(key))), profiles[0], 1, wanted=bool(kind)),
                int(relevance == "ESSENTIAL"),
                int(bool(kind)),
                [own.get(key, 0) for own in ranks],
            ]
            for key, relevance, kind in gold
        ],
        "hits": [
            [
                shelf.number((*at, hit.document), profile, hit.rank if hit.rank == 1 else hit.rank + 1)
                for hit in ranked
                if hit.rank <= top
            ]
            for ranked, profile in zip(found, profiles, strict=True)
        ],
        "outcomes": [[*OUTCOMES, NO_GOLD].index(name) for name in worst],
    }


def _resolved(row: Mapping[str, Any], found: Sequence[Hit], chunks: Collection[str]) -> dict[str, str]:
    """Unit key -> the document it was resolved to in one run, as far as the run's files tell.

    found: the query's results, chunks: the documents of its qrels. What a run has found stands at its rank. Of the
    others a label that is a document's id was resolved to it; one that a weaker tier resolved was resolved to the one
    document of its path and name that is left, or to the only one that is left. Units with one number share a chunk.
    """
    at_rank = {hit.rank: hit.document for hit in found}
    documents: dict[int, str] = {}  # by the number of gold_documents
    labels: dict[int, list[str]] = defaultdict(list)
    columns = (row[f"gold_{name}"] for name in ("unit_keys", "documents", "ranks", "kinds"))
    units = [(key, number, rank) for key, number, rank, kind in zip(*columns, strict=True) if kind]
    for key, number, rank in units:
        labels[number].append(gold_document(key))
        if rank in at_rank:
            documents[number] = at_rank[rank]
        elif labels[number][-1] in chunks:
            documents.setdefault(number, labels[number][-1])
    for number in sorted(labels.keys() - documents.keys()):
        left = [document for document in chunks if document not in documents.values()]
        heads = {label.rpartition(":")[0] for label in labels[number]}
        alike = [document for document in left if document.rpartition(":")[0] in heads]
        if len(alike) == 1 or len(left) == 1:
            documents[number] = (alike or left)[0]
    return {key: documents[number] for key, number, _ in units if number in documents}


class _Shelf:
    """Documents, each once, and the source of as many as fit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._numbers: dict[tuple[Document, str], int] = {}
        self._turns: list[int] = []  # of each document: those of low turns come first where room is short
        self._wanted: set[int] = set()
        self.rows: list[list[Any]] = []
        self.sources: list[list[Any]] = []
        self.bytes = 0  # about what `rows` will take
        self.left_out = 0
        self.missing = 0

    def number(self, document: Document, profile: str, turn: int, *, wanted: bool = True) -> int:
        """Returns the document's number. wanted: is there a chunk whose source could be shown."""
        number = self._numbers.setdefault((document, profile), len(self._numbers))
        if number == len(self._turns):
            self._turns.append(turn)
            self.bytes += len(document[2]) + 20
        self._turns[number] = min(turn, self._turns[number])
        if wanted:
            self._wanted.add(number)
        return number

    def fill(self, workspace: Path) -> None:
        """Looks up every document and keeps the sources that fit."""
        found = self._found(workspace)
        self.rows = [[place.path, place.name, place.start_line, place.end_line, -1] for place in found]
        kept: dict[str, int] = {}
        room = self._limits.source_bytes
        for number in sorted(self._wanted, key=lambda i: (self._turns[i], i)):
            text = found[number].text
            if text is None:
                self.missing += 1
                continue
            if text not in kept:
                cut = list(shortened(text, self._limits.lines, self._limits.letters))
                size = len(json.dumps(cut))
                if size > room:
                    self.left_out += 1
                    continue
                room -= size
                kept[text] = len(self.sources)
                self.sources.append(cut)
            self.rows[number][4] = kept[text]

    def _found(self, workspace: Path) -> list[Place]:
        by_profile: dict[str, list[Document]] = defaultdict(list)
        for document, profile in self._numbers:
            by_profile[profile].append(document)
        found = {profile: places(workspace, wanted, profile) for profile, wanted in sorted(by_profile.items())}
        return [found[profile][document] for document, profile in self._numbers]


def shortened(text: str, lines: int, letters: int) -> tuple[str, int]:
    """Returns the first lines of a source, long ones cut, and how many lines were left out."""
    rows = text.rstrip("\n").split("\n")
    first = "\n".join(row if len(row) <= letters else row[: letters - 1] + "…" for row in rows[:lines])
    return first, max(0, len(rows) - lines)
