"""The score stage: the ranking of another system, given as a TREC run, measured like one of ours."""

from __future__ import annotations

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quarry_harness.errors import InvalidInputError
from quarry_harness.languages import PROFILES
from quarry_harness.retrieve import Ranking, is_constant
from quarry_harness.runs import encoded, read_result
from quarry_harness.stages.evaluate import finish, gold_labels, identity_of, keep, require_resolved
from quarry_harness.stages.ranking import NO_CORPUS, NO_RESULT, EvalQuery, Listing, Ranked, is_there
from quarry_harness.stages.workspace import run_is_whole, run_name, runs_folder
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

# How many unknown ids a message shows.
_SHOWN = 5


class Line(NamedTuple):
    """A line of a run: what it says, and which one of the file it is."""

    number: int
    query: str
    document: str
    score: float


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one query that stand together in the file."""

    first_line: int
    start_byte: int
    end_byte: int


class RunFile:
    """A TREC run on the disk. Only where each query's lines are is held; they are read when they are asked for.

    tag: the last column of its first line. parts: query id as written -> its parts.
    """

    def __init__(self, file: Path) -> None:
        """Reads the file once. Raises InvalidInputError where it cannot be read, is empty, or a line is no run's."""
        self.file = file
        self.tag = ""
        self.parts: dict[str, list[Part]] = defaultdict(list)
        hashed = hashlib.sha256()
        at = 0
        try:
            with file.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    hashed.update(line)
                    stop = at + len(line)
                    if line.strip():
                        read, tag = self._parse(number, line)
                        self.tag = self.tag or tag
                        parts = self.parts[read.query]
                        if parts and parts[-1].end_byte == at:
                            parts[-1] = Part(parts[-1].first_line, parts[-1].start_byte, stop)
                        else:
                            parts.append(Part(number, at, stop))
                    at = stop
        except OSError as error:
            raise InvalidInputError(f"{file}: {error.strerror or error}.", "Name a TREC run with --run.") from error
        if not self.parts:
            raise InvalidInputError(f"{file}: there is no line in it.", _FORM)
        self.sha256 = hashed.hexdigest()

    def lines(self, query: str) -> Iterator[Line]:
        """Yields the lines of a query, in the order of the file."""
        with self.file.open("rb") as stream:
            for part in self.parts.get(query, ()):
                stream.seek(part.start_byte)
                lines = stream.read(part.end_byte - part.start_byte).removesuffix(b"\n").split(b"\n")
                for number, line in enumerate(lines, start=part.first_line):
                    yield self._parse(number, line)[0]

    def _parse(self, number: int, line: bytes) -> tuple[Line, str]:
        words = line.decode("utf-8", "replace").split()
        try:
            query, _, document, _, score, tag = words
            # Digits of other scripts and 1_000 are numbers to python, and to no other reader of a run.
            value = float(score if score.isascii() and "_" not in score else "")
        except ValueError:
            raise InvalidInputError(f"{self.file}:{number}: not a line of a TREC run.", _FORM) from None
        if not math.isfinite(value):
            raise InvalidInputError(f"{self.file}:{number}: the score is {score}.", "Leave out what is no result.")
        return Line(number, query, document, value), tag


_FORM = "A line is: query-id Q0 document-id rank score tag. docs/measures.md says what the ids are."


def score(
    workspace: Path,
    file: Path,
    name: str | None,
    image: str,
    profile: str,
    progress: Progress,
    *,
    accept_missing: bool = False,
) -> dict[str, Any]:
    """Measures a TREC run over the selection; returns what evaluate returns.

    name: what the system is called, None for the run's tag. Documents are ranked by score, equal scores in corpus
    order; the rank column is not read. A query whose whole corpus has one score has no result. Queries that the release
    has but the selection has not are left out. Raises InvalidInputError where a query or document id is unknown or a
    query has a document twice, UsageError where the gold is not resolved.
    """
    started = time.monotonic()
    run = RunFile(file)
    name = name or run.tag
    with Store.open(workspace) as store:
        revisions = require_resolved(store, image, profile, accept_missing=accept_missing)
        described: dict[str, object] = {"name": name, "kind": "the run of another system", "sha256": run.sha256}
        described |= {"one_score_for_all": "no result"}  # a run that was measured without this rule is another one
        identity = identity_of(store, described, image, profile, 0, revisions)
        run_id = run_name(name, image, profile, identity)
        if run_is_whole(store, workspace, run_id):
            folder = runs_folder(workspace) / run_id
            return read_result(folder) | {"folder": str(folder), "done_before": True}
        queries = [EvalQuery(*row) for row in store.selected_queries(image)]
        written = check_queries(run, store.query_ids())
        labels = gold_labels(store, image, profile)
        kept = store.ranked_queries(run_id)
        waiting = [query for query in queries if query.ordinal not in kept]
        unknown: list[Line] = []
        for corpus in _rank(store, run, written, waiting, revisions, profile, unknown, progress):
            if not unknown:
                keep(store, run_id, corpus, labels)
        if unknown:
            store.forget_outcomes(run_id)
            raise unknown_documents(file, unknown)
        return finish(store, workspace, run_id, name, image, identity, queries, revisions, started)


def check_queries(run: RunFile, known: Sequence[str]) -> dict[str, list[str]]:
    """Returns query id -> how the run writes it; InvalidInputError for ids of no query of the release."""
    query_of = {query: query for query in known} | {encoded(query): query for query in known}
    strange = [form for form in run.parts if form not in query_of]
    if strange:
        first = run.parts[strange[0]][0].first_line
        raise InvalidInputError(
            f"{run.file}:{first}: {len(strange)} of {len(run.parts)} query ids are not in the release,"
            f" for example {', '.join(strange[:_SHOWN])}.",
            "The ids are those of the release's queries file.",
        )
    written: dict[str, list[str]] = defaultdict(list)
    for form in run.parts:
        written[query_of[form]].append(form)
    return written


def _rank(
    store: Store,
    run: RunFile,
    written: Mapping[str, Sequence[str]],
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    unknown: list[Line],
    progress: Progress,
) -> Iterator[Ranked]:
    """Yields every corpus with the run's rankings of it; what names no document of it is added to `unknown`."""
    at = {(r.repo, r.sha): r for r in revisions}
    groups: dict[tuple[str, str], list[EvalQuery]] = defaultdict(list)
    for query in queries:
        groups[query.repo, query.revision].append(query)
    gathered = ""
    for done, ((repo, sha), group) in enumerate(sorted(groups.items())):
        progress(done, len(groups), f"{repo}@{sha[:12]}")
        revision = at.get((repo, sha))
        listing = NO_CORPUS
        if revision is not None and is_there(revision):
            if gathered != repo:
                store.gather_documents([r.id for r in revisions if r.repo == repo and is_there(r)], PROFILES[profile])
                gathered = repo
            listing = Listing.of(store.corpus(revision.id))
        place = {name: position for position, name in enumerate(listing.ids)}
        rankings = [ranking_of(run, written.get(query.query_id, ()), place, unknown) for query in group]
        # Here and not in ranking_of, by which a run of ours that is re-ranked is read: its results are candidates.
        rankings = [NO_RESULT if is_constant(ranking.scores, len(place)) else ranking for ranking in rankings]
        yield Ranked(revision, group, listing, rankings)
    progress(len(groups), len(groups), "corpora compared")


def ranking_of(run: RunFile, forms: Sequence[str], place: Mapping[str, int], unknown: list[Line]) -> Ranking:
    """Returns a query's ranking by score, then corpus order; what names no document is added to `unknown`.

    forms: how the run writes the query's id. place: document id -> corpus position. Raises InvalidInputError where a
    document comes twice.
    """
    scores: dict[int, float] = {}
    for line in chain.from_iterable(map(run.lines, forms)):
        position = place.get(line.document, place.get(encoded(line.document)))
        if position is None:
            unknown.append(line)
        elif position in scores:
            raise InvalidInputError(
                f"{run.file}:{line.number}: {line.document} comes twice for query {line.query}.",
                "A document has one place in a ranking.",
            )
        else:
            scores[position] = line.score
    positions = np.array(sorted(scores, key=lambda position: (-scores[position], position)), dtype=np.intp)
    return Ranking(positions, np.array([scores[position] for position in positions.tolist()]))


def unknown_documents(file: Path, unknown: Sequence[Line]) -> InvalidInputError:
    """Returns the error that names the first lines whose document their query's corpus has not."""
    shown = "; ".join(f"line {line.number}: {line.document} (query {line.query})" for line in unknown[:_SHOWN])
    return InvalidInputError(
        f"{file}:{unknown[0].number}: {len(unknown)} lines name a document that their query's corpus has not: {shown}.",
        "A document is path:name:start-end, percent-encoded, of the query's revision and the profile; a run.trec of"
        " this workspace shows them. Nothing was scored: without these lines it would be another ranking.",
    )
