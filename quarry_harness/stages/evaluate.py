"""The eval stage: a model's ranking of every query's corpus, its measures, and the run folder that keeps them."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from quarry_harness import __version__, documents, measures, models, retrieve, runs
from quarry_harness.documents import document_text
from quarry_harness.errors import UsageError
from quarry_harness.languages import PROFILES
from quarry_harness.retrieve import Corpus, Ranking
from quarry_harness.runs import GRADES, document_ids, per_query_table, qrels_line, read_result, trec_line, write_run
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    digest,
    release_name,
    require_chunked,
    resolution_state,
    run_is_whole,
    runs_folder,
    source_state,
)
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

# Part of every run's identity: raise when the same settings would give other bytes.
RUN_FORMAT = "1"


class EvalQuery(NamedTuple):
    """A query of the selection as the store gives it."""

    ordinal: int
    query_id: str
    repo: str
    task_id: str
    language: str
    text: str
    revision: str


class GoldLabel(NamedTuple):
    """A gold unit with its resolution, as the store gives it."""

    query: int
    ordinal: int
    unit_key: str
    tier: str
    reason: str
    path: str
    blob: int
    chunk: int
    relevance: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one query gave: its lines of the run and the qrels, its row of the per-query table, why it has no result."""

    run: list[str]
    qrels: list[str]
    row: dict[str, Any]
    no_result: str  # "" where there is one, or no gold unit to find


@dataclass(frozen=True, slots=True)
class Listing:
    """One corpus: the id of each document in corpus order, and where a chunk stands by (path, blob, ordinal)."""

    ids: list[str]
    position: dict[tuple[str, int, int], int]

    @classmethod
    def of(cls, corpus: pa.Table) -> Listing:
        """Returns the listing of a corpus as the store gives it."""
        columns = corpus.to_pydict()
        ids = document_ids(zip(*(columns[name] for name in ("path", "name", "start_line", "end_line")), strict=True))
        keys = zip(columns["path"], columns["blob"], columns["ordinal"], strict=True)
        return cls(ids, {key: position for position, key in enumerate(keys)})


Labels = Mapping[int, Sequence[GoldLabel]]
DOCUMENT_COLUMNS = ("path", "container", "name", "text")
NO_CORPUS = Listing([], {})
NO_RESULT = Ranking(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32))
# Outcomes read from the store together; one is some 20 kB.
QUERIES_AT_A_TIME = 500


def evaluate(
    workspace: Path, model_name: str, image: str, profile: str, depth: int, progress: Progress
) -> dict[str, Any]:
    """Runs one model over the selection; returns the document of result.json, with run_id, folder and done_before.

    depth: how many results a query keeps, at least the largest cutoff. Raises UsageError where the gold is not
    resolved for the present state of the workspace.
    """
    model = models.load(model_name)
    started = time.monotonic()
    with Store.open(workspace) as store:
        revisions = require_chunked(store, image)
        state = resolution_state(store, image, profile, revisions)
        if store.meta(f"resolved:{image}:{profile}") != state:
            raise UsageError(
                f"The gold units of {image} are not resolved for what the workspace now holds.",
                f"First run: quarry canonicalize --image {image}",
            )
        identity = _identity(store, model, image, profile, depth, state)
        run_id = f"{models.check_name(model_name)}-{image}-{digest(identity)[:12]}"
        folder = runs_folder(workspace) / run_id
        if run_is_whole(store, workspace, run_id):
            return read_result(folder) | {"folder": str(folder), "done_before": True}
        queries = [EvalQuery(*row) for row in store.selected_queries(image)]
        labels = gold_labels(store, image, profile)
        _rank_all(store, model, queries, labels, profile, depth, revisions, progress, run_id)
        # The lists of lines are read again from the store as they are written.
        outcomes = [replace(outcome, run=[], qrels=[]) for outcome in _kept(store, run_id, queries)]
        result = {"run_id": run_id, "model": models.check_name(model_name)} | _result(store, outcomes, image, revisions)
        result |= {"settings": identity, "versions": _versions()}
        timing = {"seconds": round(time.monotonic() - started, 3), "machine": platform.machine()}
        files = write_run(
            folder,
            (line for outcome in _kept(store, run_id, queries) for line in outcome.run),
            (line for outcome in _kept(store, run_id, queries) for line in outcome.qrels),
            per_query_table([outcome.row for outcome in outcomes], measures.names()),
            result,
            timing,
        )
        store.record_run(run_id, models.check_name(model_name), image, digest(identity), files)
    return result | {"folder": str(folder), "done_before": False}


def gold_labels(store: Store, image: str, profile: str) -> Labels:
    """Returns query ordinal -> its gold units with their resolutions; empty for a query without any."""
    gold: dict[int, list[GoldLabel]] = defaultdict(list)
    for row in store.resolutions(image, profile):
        gold[row[0]].append(GoldLabel(*row))
    return gold


def _identity(
    store: Store, model: models.Retriever, image: str, profile: str, depth: int, state: str
) -> dict[str, Any]:
    """Everything that could change a byte of the run file."""
    return {
        "run_format": RUN_FORMAT,
        "code": source_state(documents, measures, retrieve, runs),
        "release": [release_name(store.meta("release_ref") or ""), store.meta("release_version")],
        "release_files": store.release_files(),
        "selection": digest(store.selected_tasks()),
        "resolutions": state,
        "chunk_rules": digest(chunk_rules()),
        "image": image,
        "profile": profile,
        "depth": depth,
        "model": model.describe(),
    }


def _rank_all(
    store: Store,
    model: models.Retriever,
    queries: Sequence[EvalQuery],
    labels: Labels,
    profile: str,
    depth: int,
    revisions: Sequence[RevisionRow],
    progress: Progress,
    run_id: str,
) -> None:
    """Ranks every query of the selection and keeps its outcome; what an interrupted run has kept is not ranked again.

    A repository at a time, in order; what is kept is durable after each corpus.
    """
    at = {(r.repo, r.sha): r for r in revisions}
    kept = store.ranked_queries(run_id)
    corpora: dict[str, dict[str, list[EvalQuery]]] = defaultdict(lambda: defaultdict(list))
    for query in queries:
        if query.ordinal not in kept:
            corpora[query.repo][query.revision].append(query)
    total = sum(map(len, corpora.values()))
    done = 0
    for repo, groups in sorted(corpora.items()):
        asked = {at[repo, sha]: group for sha, group in sorted(groups.items()) if (repo, sha) in at}
        there = {revision: group for revision, group in asked.items() if revision.status in HAVE}
        ranked = _rank_repository(store, model, repo, there, queries, revisions, profile, depth)
        for sha, group in sorted(groups.items()):
            progress(done, total, f"{repo}@{sha[:12]}")
            revision = at.get((repo, sha))
            listing, rankings = next(ranked) if revision in there else (NO_CORPUS, [NO_RESULT] * len(group))
            outcomes = {
                query.ordinal: _outcome(query, revision, labels[query.ordinal], listing, ranking, run_id)
                for query, ranking in zip(group, rankings, strict=True)
            }
            store.keep_outcomes(run_id, {query: json.dumps(asdict(outcome)) for query, outcome in outcomes.items()})
            done += 1
    progress(total, total, "corpora searched")


def _rank_repository(
    store: Store,
    model: models.Retriever,
    repo: str,
    asked: Mapping[RevisionRow, Sequence[EvalQuery]],
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    depth: int,
) -> Iterator[tuple[Listing, list[Ranking]]]:
    """Yields each corpus asked for, in order, with the rankings of its queries.

    The model is given every query and document of the repository in the selection, also those that an interrupted run
    is done with: so what it makes of them does not depend on interruptions. Held at a time: these, the corpora as
    numbers, one corpus's listing, and what the model holds.
    """
    there = [r.id for r in revisions if r.repo == repo and r.status in HAVE]
    table = store.gather_documents(there, PROFILES[profile])
    texts = list(map(document_text, *(table.column(name).to_pylist() for name in DOCUMENT_COLUMNS)))
    del table
    everything = [query for query in queries if query.repo == repo]
    number = {query.ordinal: i for i, query in enumerate(everything)}
    corpora = [
        Corpus(store.corpus(revision.id).column("document").to_numpy(), tuple(number[query.ordinal] for query in group))
        for revision, group in asked.items()
    ]
    ranked = model.rank([query.text for query in everything], texts, corpora, depth)
    for revision, rankings in zip(asked, ranked, strict=True):
        yield Listing.of(store.corpus(revision.id)), rankings


def _outcome(
    query: EvalQuery,
    revision: RevisionRow | None,
    labels: Sequence[GoldLabel],
    listing: Listing,
    ranking: Ranking,
    tag: str,
) -> Outcome:
    """Returns what a ranking of a query's corpus is worth."""
    rank_of = {position: rank for rank, position in enumerate(ranking.positions.tolist(), start=1)}
    found = [listing.position[g.path, g.blob, g.chunk] if g.tier else -1 for g in labels]
    ids = listing.ids
    lines = (
        trec_line(query.query_id, ids[position], rank, score, tag)
        for (position, rank), score in zip(rank_of.items(), ranking.scores, strict=True)
    )
    return Outcome(
        list(lines),
        _qrels(query, found, labels, ids),
        _row(query, labels, [rank_of.get(position, 0) for position in found], len(ids), len(rank_of)),
        "" if rank_of or not labels else _why_empty(revision, ids),
    )


def _kept(store: Store, run_id: str, queries: Sequence[EvalQuery]) -> Iterator[Outcome]:
    """Yields the outcomes of these queries, in order, without holding them all."""
    for start in range(0, len(queries), QUERIES_AT_A_TIME):
        ordinals = [query.ordinal for query in queries[start : start + QUERIES_AT_A_TIME]]
        yield from (Outcome(**json.loads(document)) for document in store.outcomes(run_id, ordinals))


def _qrels(query: EvalQuery, found: Sequence[int], labels: Sequence[GoldLabel], ids: Sequence[str]) -> list[str]:
    """The query's qrels lines: a document once, with its highest grade; an unresolved unit as one nobody can find."""
    grades: dict[str, str] = {}
    for number, (index, label) in enumerate(zip(found, labels, strict=True)):
        document = ids[index] if index >= 0 else f"unresolved:{number}"
        grades[document] = max(grades.get(document, label.relevance), label.relevance, key=GRADES.__getitem__)
    return sorted(qrels_line(query.query_id, document, relevance) for document, relevance in grades.items())


def _why_empty(revision: RevisionRow | None, ids: Sequence[str]) -> str:
    if revision is None:
        return "no_revision_stated"
    if revision.status not in HAVE:
        return "revision_missing"
    return "no_match" if ids else "empty_corpus"


def _row(
    query: EvalQuery, labels: Sequence[GoldLabel], unit_ranks: list[int], corpus_chunks: int, retrieved: int
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "query_id": query.query_id,
        "repo": query.repo,
        "task_id": query.task_id,
        "language": query.language,
        "revision": query.revision,
        "query": query.text,
        "corpus_chunks": corpus_chunks,
        "retrieved": retrieved,
        "gold_units": len(labels),
        "unresolved_units": sum(not g.tier for g in labels),
        "gold_unit_keys": [g.unit_key for g in labels],
        "gold_relevances": [g.relevance for g in labels],
        "gold_ranks": unit_ranks,
    }
    values = measures.per_query([_ranks(row)])
    return row | {name: None if np.isnan(column[0]) else float(column[0]) for name, column in values.items()}


def _ranks(row: dict[str, Any]) -> measures.QueryRanks:
    return measures.QueryRanks(
        row["query_id"],
        row["repo"],
        row["task_id"],
        row["language"],
        tuple(row["gold_ranks"]),
        tuple(relevance == "ESSENTIAL" for relevance in row["gold_relevances"]),
        row["retrieved"],
    )


def _result(store: Store, outcomes: Sequence[Outcome], image: str, revisions: Sequence[RevisionRow]) -> dict[str, Any]:
    rows = [outcome.row for outcome in outcomes]
    queries = [_ranks(row) for row in rows]
    no_result = Counter(outcome.no_result for outcome in outcomes if outcome.no_result)
    counts = store.counts()
    return {
        "release": release_name(store.meta("release_ref") or ""),
        "release_version": store.meta("release_version"),
        "image": image,
        "queries": sum(bool(query.unit_ranks) for query in queries),
        "queries_without_gold": sum(not query.unit_ranks for query in queries),
        "queries_without_result": no_result.total(),
        "queries_without_result_by_reason": dict(sorted(no_result.items())),
        "tasks": counts["selected_tasks"],
        "release_tasks": counts["tasks"],
        "units": sum(row["gold_units"] for row in rows),
        "unresolved_units": sum(row["unresolved_units"] for row in rows),
        "revisions_missing": sum(r.status not in HAVE for r in revisions),
        "measures": summary(queries)["micro"],
        "pooled": measures.pooled_recall(queries),
        "rollup": _rollup(queries),
        "revisions": [{"repo": r.repo, "revision": r.sha, "status": r.status} for r in revisions],
    }


def summary(queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    """Returns the counts and the micro means of a group of queries."""
    return {
        "queries": sum(bool(query.unit_ranks) for query in queries),
        "units": sum(len(query.unit_ranks) for query in queries),
        "micro": measures.micro(measures.per_query(queries)),
    }


def _rollup(queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    levels = measures.rollup(queries, measures.per_query(queries))
    by_language: dict[str, list[measures.QueryRanks]] = defaultdict(list)
    by_repo: dict[tuple[str, str], list[measures.QueryRanks]] = defaultdict(list)
    for query in queries:
        by_language[query.language].append(query)
        by_repo[query.language, query.repo].append(query)
    return {
        **{level: measures.macro(levels, level) for level in ("task", "repo", "language")},
        "by_language": {
            language: summary(group) | {"macro": levels["language"].get((language,), {})}
            for language, group in sorted(by_language.items())
        },
        "by_repo": [
            {"repo": repo, "language": language} | summary(group) | {"macro": levels["repo"].get((language, repo), {})}
            for (language, repo), group in sorted(by_repo.items())
        ],
    }


def _versions() -> dict[str, str]:
    packages = ("duckdb", "numpy", "pyarrow", "tree-sitter", "tree-sitter-language-pack")
    return {"quarry-harness": __version__, "python": platform.python_version()} | {
        package: version(package) for package in packages
    }
